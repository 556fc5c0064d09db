//! A pool: the blocks of a layout, and which of them has the next unit.

use std::collections::BTreeMap;

use crate::bitmap::Bitmap;
use crate::block::{Block, ClaimError, NotOwned, State, cooled_down};
use crate::layout::Layout;
use crate::prefix::Prefix;
use crate::unit::{BlockNumber, Unit};

mod index;

use index::{Index, Standing};

/// Hands out units. Blocks are made when first needed, so a pool's memory grows with the units
/// used, not with its size.
///
/// The CIDRs are tried in order. In each, the next unit is one that was never used, else the one
/// that has cooled down longest, if its delay is over. If no CIDR has such a unit, the pool cuts a
/// delay short: it gives the unit that has cooled down longest of all. Only a pool without any free
/// unit refuses.
///
/// ```
/// use berth_addr::{Family, Plan, Pool, UnitLengths};
///
/// let plan = Plan {
///     cidrs: vec!["10.0.0.0/30".parse()?],
///     unit_lengths: UnitLengths { ipv4: 32, ipv6: 128 },
///     ..Plan::default()
/// };
/// let layout = plan.layouts()?.remove(&Family::V4).ok_or("no IPv4")?;
/// let mut pool = Pool::new(layout, 30_000);
/// // Network and broadcast are not given out, so a /30 has two; then it refuses.
/// let given = pool.lease_up_to(3, 0);
/// assert_eq!(given.len(), 2);
/// assert_eq!(pool.lease(0), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pool {
    layout: Layout,
    reuse_delay: u64,
    blocks: BTreeMap<BlockNumber, Block>,
    /// One for each CIDR of the layout.
    indexes: Vec<Index>,
    owned: u128,
    /// The number of released units, cooled down or not.
    released: u128,
    owned_set_aside: u128,
}

/// The counts of a Subnet's status. `reserved + cooling_down + free` is `capacity`, which includes
/// units that were set aside while they had an owner, until they are released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub capacity: u128,
    /// Owned by somebody.
    pub reserved: u128,
    pub cooling_down: u128,
    pub free: u128,
}

/// A block, or a unit of it, that the pool's cidrs do not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not in the pool's cidrs")]
pub struct OutsidePool;

/// A unit has an owner and would fall out of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cidrs: {unit} is in use: keep the CIDR it is in and its unit length, or release it first")]
pub struct InUse {
    pub unit: Prefix,
}

impl Pool {
    /// `reuse_delay` in milliseconds, as all times here.
    pub fn new(layout: Layout, reuse_delay: u64) -> Self {
        Self {
            indexes: layout.blocks_by_part().map(Index::new).collect(),
            layout,
            reuse_delay,
            blocks: BTreeMap::new(),
            owned: 0,
            released: 0,
            owned_set_aside: 0,
        }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn set_reuse_delay(&mut self, reuse_delay: u64) {
        self.reuse_delay = reuse_delay;
    }

    /// The next unit in the order of use; `None` when every usable one is owned.
    pub fn lease(&mut self, now: u64) -> Option<Unit> {
        let (block, fresh) = self.next(now)?;
        let offset = self.change(block, |block| {
            if fresh {
                block.take_fresh()
            } else {
                block.take_longest_cooled_down()
            }
        });
        offset.map(|offset| block.unit(offset))
    }

    /// Takes up to `count` units in the order of use. Quicker than one by one, because each block
    /// is visited once for all of its fresh units.
    pub fn lease_up_to(&mut self, count: usize, now: u64) -> Vec<Unit> {
        let mut units = Vec::new();
        while units.len() < count
            && let Some((number, fresh)) = self.next(now)
        {
            if !fresh {
                // The unit after it may be in another block.
                units.extend(self.lease(now));
                continue;
            }
            let missing = count - units.len();
            self.change(number, |block| {
                let offsets = std::iter::from_fn(|| block.take_fresh()).take(missing);
                units.extend(offsets.map(|offset| number.unit(offset)));
            });
        }
        units
    }

    /// The block that has the next unit, and whether that is a fresh one.
    fn next(&self, now: u64) -> Option<(BlockNumber, bool)> {
        for index in &self.indexes {
            if let Some(block) = index.fresh() {
                return Some((block, true));
            }
            if let Some((at, block)) = index.longest_cooled_down()
                && cooled_down(at, now, self.reuse_delay)
            {
                return Some((block, false));
            }
        }
        let longest_cooled_down = self.indexes.iter().filter_map(Index::longest_cooled_down).min();
        longest_cooled_down.map(|(_, block)| (block, false))
    }

    /// Takes exactly this unit, cooled down or not.
    pub fn claim(&mut self, unit: Unit) -> Result<(), ClaimError> {
        match self.state(unit) {
            None => Err(ClaimError::OutsidePool),
            Some(State::SetAside) => Err(ClaimError::SetAside),
            Some(_) => self.change(unit.block(), |block| block.claim(unit.offset())),
        }
    }

    /// The unit cools down, and goes to the back.
    pub fn release(&mut self, unit: Unit, now: u64) -> Result<(), NotOwned> {
        self.release_all(unit.block(), &[unit.offset()], now)
    }

    /// Releases all of these units of a block, or none if one of them has no owner.
    pub fn release_all(
        &mut self,
        number: BlockNumber,
        offsets: &[u8],
        now: u64,
    ) -> Result<(), NotOwned> {
        let owned = self.blocks.get(&number).ok_or(NotOwned)?.owned();
        if !offsets.iter().all(|offset| owned.contains(*offset)) {
            return Err(NotOwned);
        }
        self.change(number, |block| {
            offsets.iter().try_for_each(|offset| block.release(*offset, now))
        })
    }

    /// `None` for a unit that is not in the pool.
    pub fn state(&self, unit: Unit) -> Option<State> {
        self.layout.part_of(unit)?;
        Some(match self.blocks.get(&unit.block()) {
            Some(block) => block.state(unit.offset()),
            None if self.layout.usable(unit.block()).contains(unit.offset()) => State::Fresh,
            None => State::SetAside,
        })
    }

    /// How many can be leased, cooled down or not. Quicker than [`Pool::counts`].
    pub fn available(&self) -> u128 {
        let owned_usable = self.owned.saturating_sub(self.owned_set_aside);
        self.layout.capacity().saturating_sub(owned_usable)
    }

    pub fn counts(&self, now: u64) -> Counts {
        // Counts only in blocks where some units have cooled down.
        let cooled_down: u128 = self
            .indexes
            .iter()
            .flat_map(|index| index.with_cooled_down(now, self.reuse_delay))
            .filter_map(|block| self.blocks.get(&block))
            .map(|block| block.cooled_down(now, self.reuse_delay))
            .map(|count| u128::try_from(count).unwrap_or(u128::MAX))
            .sum();
        let cooling_down = self.released.saturating_sub(cooled_down);
        let capacity = self.layout.capacity().saturating_add(self.owned_set_aside);
        Counts {
            capacity,
            reserved: self.owned,
            cooling_down,
            free: capacity.saturating_sub(self.owned).saturating_sub(cooling_down),
        }
    }

    pub fn block(&self, number: BlockNumber) -> Option<&Block> {
        self.blocks.get(&number)
    }

    pub fn blocks(&self) -> impl Iterator<Item = (BlockNumber, &Block)> {
        self.blocks.iter().map(|(&number, block)| (number, block))
    }

    /// Replaces a block with its state in the store.
    pub fn restore(
        &mut self,
        number: BlockNumber,
        owned: Bitmap,
        released: impl IntoIterator<Item = (u8, u64)>,
    ) -> Result<(), OutsidePool> {
        let existing = self.layout.existing(number);
        if existing.is_empty() || !(owned & !existing).is_empty() {
            return Err(OutsidePool);
        }
        let block = Block::restore(!self.layout.usable(number), owned, released);
        self.change(number, |known| *known = block);
        Ok(())
    }

    /// Forgets a block, whatever is in it. Its units count as never used, but come after those of
    /// blocks not made yet.
    pub fn forget(&mut self, number: BlockNumber) -> Option<Block> {
        self.blocks.get(&number)?;
        let usable = self.layout.usable(number);
        let known = self.change(number, |block| std::mem::replace(block, Block::new(!usable)));
        if let Some(index) = self.index_mut(number) {
            index.unmake(number, !usable.is_empty());
        }
        self.blocks.remove(&number);
        Some(known)
    }

    /// Blocks without owners and without units that cool down. They can be forgotten, so that a
    /// pool that never uses a unit twice (a /64) does not grow for ever.
    pub fn idle(&self, now: u64) -> impl Iterator<Item = BlockNumber> {
        self.blocks()
            .filter(move |(_, block)| {
                block.owned().is_empty() && block.cooling_down(now, self.reuse_delay) == 0
            })
            .map(|(number, _)| number)
    }

    /// A pool with the same owners and cool-downs on another layout of the family: CIDRs appended,
    /// excludes changed. Refused when a unit in use is not in the new layout.
    pub fn with_layout(&self, layout: Layout) -> Result<Self, InUse> {
        let mut moved: BTreeMap<BlockNumber, (Bitmap, Vec<(u8, u64)>)> = BTreeMap::new();
        let place = |unit: Unit| {
            let prefix = self.layout.prefix(unit)?;
            Some((prefix, layout.unit(prefix)))
        };
        for (number, block) in &self.blocks {
            for offset in block.owned().iter() {
                let Some((prefix, unit)) = place(number.unit(offset)) else {
                    continue;
                };
                let unit = unit.ok_or(InUse { unit: prefix })?;
                moved.entry(unit.block()).or_default().0.insert(unit.offset());
            }
            for (offset, at) in block.released() {
                if let Some((_, Some(unit))) = place(number.unit(offset)) {
                    moved.entry(unit.block()).or_default().1.push((unit.offset(), at));
                }
            }
        }
        let mut pool = Self::new(layout, self.reuse_delay);
        for (number, (owned, released)) in moved {
            let block = Block::restore(!pool.layout.usable(number), owned, released);
            pool.change(number, |fresh| *fresh = block);
        }
        Ok(pool)
    }

    fn index_mut(&mut self, block: BlockNumber) -> Option<&mut Index> {
        let part = self.layout.part_of(block.first_unit())?;
        self.indexes.get_mut(part)
    }

    /// The only way to change a block: makes it if need be, and updates the indexes and sums.
    fn change<R>(&mut self, number: BlockNumber, change: impl FnOnce(&mut Block) -> R) -> R {
        let mut made = false;
        let block = self.blocks.entry(number).or_insert_with(|| {
            made = true;
            Block::new(!self.layout.usable(number))
        });
        let before = if made { Standing::default() } else { Standing::of(block) };
        let result = change(block);
        let after = Standing::of(block);

        self.owned = self.owned + u128::from(after.owned) - u128::from(before.owned);
        self.released = self.released + u128::from(after.released) - u128::from(before.released);
        self.owned_set_aside = self.owned_set_aside + u128::from(after.owned_set_aside)
            - u128::from(before.owned_set_aside);
        if let Some(index) = self.index_mut(number) {
            if made {
                index.make(number);
            }
            index.move_block(number, before, after);
        }
        result
    }
}

#[cfg(test)]
mod tests;
