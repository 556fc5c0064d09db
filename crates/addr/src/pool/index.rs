//! Which blocks of one CIDR have units to give, so that no search through them is needed.

use std::collections::BTreeSet;

use crate::block::{Block, cooled_down};
use crate::spans::Spans;
use crate::unit::BlockNumber;

#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Blocks with a usable unit that are not made: everything in them is fresh.
    unmade: Spans,
    /// Unmade blocks are taken from this number on and then from the start, so that a forgotten
    /// block comes last.
    next: u128,
    with_fresh: BTreeSet<BlockNumber>,
    /// Blocks with released units, by the time of their longest cooled down one.
    by_longest_cooled_down: BTreeSet<(u64, BlockNumber)>,
}

/// The facts about a block that the indexes and sums need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Standing {
    fresh: bool,
    longest_cooled_down: Option<u64>,
    pub owned: u32,
    pub released: u32,
    pub owned_set_aside: u32,
}

impl Standing {
    pub fn of(block: &Block) -> Self {
        Self {
            fresh: !block.fresh().is_empty(),
            longest_cooled_down: block.longest_cooled_down(),
            owned: block.owned().count(),
            released: block.released_count(),
            owned_set_aside: (block.owned() & block.set_aside()).count(),
        }
    }
}

impl Index {
    pub fn new(usable_blocks: Spans) -> Self {
        Self {
            unmade: usable_blocks,
            next: 0,
            with_fresh: BTreeSet::new(),
            by_longest_cooled_down: BTreeSet::new(),
        }
    }

    /// Blocks in use are filled up before another is made.
    pub fn fresh(&self) -> Option<BlockNumber> {
        let unmade = || self.unmade.first_from(self.next).or(self.unmade.first_from(0));
        let made = self.with_fresh.first().copied();
        made.or_else(|| unmade().map(BlockNumber))
    }

    pub fn longest_cooled_down(&self) -> Option<(u64, BlockNumber)> {
        self.by_longest_cooled_down.first().copied()
    }

    /// The blocks with a unit that has cooled down.
    pub fn with_cooled_down(&self, now: u64, delay: u64) -> impl Iterator<Item = BlockNumber> {
        let over = move |(at, _): &&(u64, BlockNumber)| cooled_down(*at, now, delay);
        self.by_longest_cooled_down
            .iter()
            .take_while(over)
            .map(|&(_, block)| block)
    }

    pub fn make(&mut self, block: BlockNumber) {
        self.unmade.remove(block.0, block.0);
        self.next = block.0.saturating_add(1);
    }

    pub fn unmake(&mut self, block: BlockNumber, usable: bool) {
        self.with_fresh.remove(&block);
        if usable {
            self.unmade.insert(block.0, block.0);
        }
    }

    pub fn move_block(&mut self, block: BlockNumber, before: Standing, after: Standing) {
        match (before.fresh, after.fresh) {
            (false, true) => {
                self.with_fresh.insert(block);
            }
            (true, false) => {
                self.with_fresh.remove(&block);
            }
            _ => {}
        }
        if before.longest_cooled_down != after.longest_cooled_down {
            if let Some(at) = before.longest_cooled_down {
                self.by_longest_cooled_down.remove(&(at, block));
            }
            if let Some(at) = after.longest_cooled_down {
                self.by_longest_cooled_down.insert((at, block));
            }
        }
    }
}
