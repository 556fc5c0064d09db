//! One block: which of its 256 units are owned, which cool down, and which comes next.

use std::collections::VecDeque;

use crate::bitmap::Bitmap;

/// The state of a unit in its block. Whether a released unit still cools down depends on the pool's
/// delay and the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Free, and never used as far as the block remembers.
    Fresh,
    /// Free since this time, in milliseconds.
    Released {
        at: u64,
    },
    Owned,
    /// Reserved, excluded or not in the pool at all: never given out.
    SetAside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    #[error("it has an owner")]
    Owned,
    #[error("it is reserved or excluded")]
    SetAside,
    #[error("it is not in the pool")]
    OutsidePool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has no owner")]
pub struct NotOwned;

/// Units as bits, and the released ones in the order in which they are used again. The block does
/// not know who owns a unit.
///
/// A unit may be owned and set aside at once, if it was excluded while it had an owner: it stays
/// owned, and does not come free when released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    set_aside: Bitmap,
    owned: Bitmap,
    /// The same units as in `queue`. Disjoint from the other two bitmaps.
    released: Bitmap,
    /// Time of release and offset; the unit that has cooled down longest is in front.
    queue: VecDeque<(u64, u8)>,
}

impl Block {
    pub fn new(set_aside: Bitmap) -> Self {
        Self {
            set_aside,
            owned: Bitmap::EMPTY,
            released: Bitmap::EMPTY,
            queue: VecDeque::new(),
        }
    }

    /// A block as a store has it. An offset both owned and released counts as owned; of two release
    /// times the later one counts.
    pub fn restore(
        set_aside: Bitmap,
        owned: Bitmap,
        released: impl IntoIterator<Item = (u8, u64)>,
    ) -> Self {
        let mut block = Self {
            owned,
            ..Self::new(set_aside)
        };
        let mut queue: Vec<(u64, u8)> =
            released.into_iter().map(|(offset, at)| (at, offset)).collect();
        queue.sort_unstable();
        for (at, offset) in queue.into_iter().rev() {
            if block.state(offset) == State::Fresh {
                block.released.insert(offset);
                block.queue.push_front((at, offset));
            }
        }
        block
    }

    pub fn state(&self, offset: u8) -> State {
        if self.owned.contains(offset) {
            State::Owned
        } else if self.set_aside.contains(offset) {
            State::SetAside
        } else if self.released.contains(offset) {
            let at = self.queue.iter().find(|(_, o)| *o == offset);
            at.map_or(State::Fresh, |&(at, _)| State::Released { at })
        } else {
            State::Fresh
        }
    }

    pub fn owned(&self) -> Bitmap {
        self.owned
    }

    pub fn set_aside(&self) -> Bitmap {
        self.set_aside
    }

    pub fn fresh(&self) -> Bitmap {
        !(self.owned | self.set_aside | self.released)
    }

    /// Offset and time of release, longest cooled down first.
    pub fn released(&self) -> impl Iterator<Item = (u8, u64)> {
        self.queue.iter().map(|&(at, offset)| (offset, at))
    }

    /// How many have not cooled down for `delay` yet.
    pub fn cooling_down(&self, now: u64, delay: u64) -> usize {
        self.queue.len() - self.cooled_down(now, delay)
    }

    /// How many have cooled down.
    pub fn cooled_down(&self, now: u64, delay: u64) -> usize {
        self.queue.partition_point(|&(at, _)| cooled_down(at, now, delay))
    }

    /// How many units are released, cooled down or not.
    pub fn released_count(&self) -> u32 {
        self.released.count()
    }

    /// When the longest cooled down unit was released.
    pub fn longest_cooled_down(&self) -> Option<u64> {
        self.queue.front().map(|&(at, _)| at)
    }

    pub fn take_fresh(&mut self) -> Option<u8> {
        let offset = self.fresh().first()?;
        self.owned.insert(offset);
        Some(offset)
    }

    pub fn take_longest_cooled_down(&mut self) -> Option<u8> {
        let (_, offset) = self.queue.pop_front()?;
        self.released.remove(offset);
        self.owned.insert(offset);
        Some(offset)
    }

    /// Takes exactly this unit, cooled down or not.
    pub fn claim(&mut self, offset: u8) -> Result<(), ClaimError> {
        if self.owned.contains(offset) {
            return Err(ClaimError::Owned);
        }
        if self.set_aside.contains(offset) {
            return Err(ClaimError::SetAside);
        }
        if self.released.contains(offset) {
            self.released.remove(offset);
            self.queue.retain(|&(_, o)| o != offset);
        }
        self.owned.insert(offset);
        Ok(())
    }

    /// The unit goes to the back of the queue, but if the clock went backwards, before the units
    /// with a later release time.
    pub fn release(&mut self, offset: u8, now: u64) -> Result<(), NotOwned> {
        if !self.owned.contains(offset) {
            return Err(NotOwned);
        }
        self.owned.remove(offset);
        if !self.set_aside.contains(offset) {
            self.released.insert(offset);
            // Usually the clock has not gone backwards.
            if self.queue.back().is_none_or(|&(at, _)| at <= now) {
                self.queue.push_back((now, offset));
            } else {
                let place = self.queue.partition_point(|&(at, _)| at <= now);
                self.queue.insert(place, (now, offset));
            }
        }
        Ok(())
    }
}

/// A unit whose release time is in the future, by another clock, has not cooled down at all.
pub(crate) fn cooled_down(at: u64, now: u64, delay: u64) -> bool {
    now.checked_sub(at).is_some_and(|rest| rest >= delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_free(offsets: &[u8]) -> Block {
        Block::new(!offsets.iter().copied().collect::<Bitmap>())
    }

    #[test]
    fn a_unit_has_one_owner_until_it_is_released_once() {
        let mut block = with_free(&[7]);
        assert_eq!(block.take_fresh(), Some(7));
        assert_eq!(block.claim(7), Err(ClaimError::Owned));
        assert_eq!(block.take_fresh(), None);
        assert_eq!(block.release(7, 1), Ok(()));
        assert_eq!(block.release(7, 2), Err(NotOwned));
        assert_eq!(block.state(7), State::Released { at: 1 });
    }

    #[test]
    fn released_units_come_back_longest_cooled_down_first() {
        let mut block = with_free(&[1, 2, 3]);
        while block.take_fresh().is_some() {}
        for (offset, at) in [(2, 10), (3, 30), (1, 20)] {
            block.release(offset, at).unwrap();
        }
        let order: Vec<u8> = std::iter::from_fn(|| block.take_longest_cooled_down()).collect();
        assert_eq!(order, [2, 1, 3]);
    }

    #[test]
    fn rest_ends_after_the_delay_and_not_before() {
        let mut block = with_free(&[1]);
        block.claim(1).unwrap();
        block.release(1, 1_000).unwrap();
        assert_eq!(block.cooling_down(30_999, 30_000), 1);
        assert_eq!(block.cooling_down(31_000, 30_000), 0);
        assert_eq!(block.cooling_down(500, 0), 1, "released in the future");
    }

    #[test]
    fn a_unit_set_aside_is_never_given_even_when_an_owner_leaves_it() {
        let mut block = Block::restore(Bitmap::FULL, Bitmap::from_iter([9]), []);
        assert_eq!(block.claim(8), Err(ClaimError::SetAside));
        assert_eq!(block.state(9), State::Owned);
        block.release(9, 1).unwrap();
        assert_eq!(block.state(9), State::SetAside);
        assert_eq!(block.take_fresh().or(block.take_longest_cooled_down()), None);
    }

    #[test]
    fn restoring_from_what_a_block_tells_gives_the_same_block() {
        let mut block = with_free(&[1, 2, 3, 4]);
        while block.take_fresh().is_some() {}
        block.release(3, 5).unwrap();
        block.release(1, 9).unwrap();
        let again = Block::restore(block.set_aside(), block.owned(), block.released());
        assert_eq!(again, block);
    }

    #[test]
    fn a_contradictory_record_is_read_on_the_safe_side() {
        let block = Block::restore(
            !Bitmap::from_iter([1, 2]),
            Bitmap::from_iter([1]),
            [(1, 5), (2, 9), (2, 6), (3, 7)],
        );
        assert_eq!(block.state(1), State::Owned);
        assert_eq!(block.state(2), State::Released { at: 9 });
        assert_eq!(block.state(3), State::SetAside);
    }
}
