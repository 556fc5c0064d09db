//! Numbers of units and of blocks within one pool.

/// 256 units make a block, which a store writes at once.
pub const UNITS_PER_BLOCK: u128 = 256;

/// A unit's number in its pool. It is stable only while CIDRs are only appended, so stores keep the
/// unit's prefix instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit(pub(crate) u128);

/// A block's number in its pool: that of its first unit, divided by 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNumber(pub(crate) u128);

impl Unit {
    pub fn block(self) -> BlockNumber {
        BlockNumber(self.0 / UNITS_PER_BLOCK)
    }

    /// Its place in its block.
    pub fn offset(self) -> u8 {
        self.0.to_le_bytes()[0]
    }
}

impl BlockNumber {
    pub fn unit(self, offset: u8) -> Unit {
        Unit(self.0 * UNITS_PER_BLOCK + u128::from(offset))
    }

    pub fn first_unit(self) -> Unit {
        self.unit(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_its_block_and_its_offset() {
        for n in [0, 255, 256, 1000, u128::MAX] {
            let unit = Unit(n);
            assert_eq!(unit.block().unit(unit.offset()), unit);
        }
        assert_eq!(Unit(1000).block(), BlockNumber(3));
        assert_eq!(BlockNumber(3).first_unit(), Unit(768));
    }
}
