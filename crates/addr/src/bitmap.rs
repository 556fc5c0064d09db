//! 256 bits, one for each unit of a block.

use std::ops::{BitAnd, BitOr, Not};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bitmap {
    words: [u64; 4],
}

impl Bitmap {
    pub const EMPTY: Self = Self { words: [0; 4] };
    pub const FULL: Self = Self { words: [u64::MAX; 4] };

    const fn place(offset: u8) -> (usize, u64) {
        ((offset >> 6) as usize, 1 << (offset & 63))
    }

    pub fn contains(&self, offset: u8) -> bool {
        let (word, bit) = Self::place(offset);
        self.words[word] & bit != 0
    }

    pub fn insert(&mut self, offset: u8) {
        let (word, bit) = Self::place(offset);
        self.words[word] |= bit;
    }

    pub fn remove(&mut self, offset: u8) {
        let (word, bit) = Self::place(offset);
        self.words[word] &= !bit;
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    pub fn first(&self) -> Option<u8> {
        self.iter().next()
    }

    /// The offsets, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        [0, 64, 128, 192]
            .into_iter()
            .zip(self.words)
            .flat_map(|(base, mut word)| {
                std::iter::from_fn(move || {
                    let bit = u8::try_from(word.trailing_zeros()).ok().filter(|_| word != 0)?;
                    word &= word - 1;
                    Some(base + bit)
                })
            })
    }

    fn zip(self, other: Self, op: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            words: std::array::from_fn(|i| op(self.words[i], other.words[i])),
        }
    }
}

impl FromIterator<u8> for Bitmap {
    fn from_iter<I: IntoIterator<Item = u8>>(offsets: I) -> Self {
        let mut bitmap = Self::EMPTY;
        for offset in offsets {
            bitmap.insert(offset);
        }
        bitmap
    }
}

impl BitAnd for Bitmap {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }
}

impl BitOr for Bitmap {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }
}

impl Not for Bitmap {
    type Output = Self;
    fn not(self) -> Self {
        self.zip(Self::EMPTY, |a, _| !a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_is_a_bit_of_its_own() {
        for offset in 0..=255 {
            let mut bitmap = Bitmap::from_iter([offset]);
            assert_eq!(bitmap.iter().collect::<Vec<_>>(), [offset]);
            assert_eq!((bitmap.count(), (!bitmap).count()), (1, 255));
            assert!(bitmap.contains(offset) && !(!bitmap).contains(offset));
            bitmap.remove(offset);
            assert!(bitmap.is_empty());
        }
    }

    #[test]
    fn offsets_come_in_ascending_order() {
        assert!(Bitmap::FULL.iter().eq(0..=255));
        let some = Bitmap::from_iter([255, 0, 64, 63, 128]);
        assert_eq!(some.iter().collect::<Vec<_>>(), [0, 63, 64, 128, 255]);
        assert_eq!(some.first(), Some(0));
        assert_eq!(Bitmap::EMPTY.first(), None);
    }
}
