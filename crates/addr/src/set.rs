//! A set of addresses of both families.

use std::net::IpAddr;

use crate::family::{Family, number};
use crate::range::Range;
use crate::spans::Spans;

/// Sorted, disjoint ranges. It holds both families side by side, so no operation can mix them up.
///
/// ```
/// use berth_addr::{AddressSet, Family, Range};
///
/// let mut free = AddressSet::new();
/// free.insert("10.0.0.0/24".parse::<Range>()?);
/// free.remove("10.0.0.10-10.0.0.20".parse::<Range>()?);
/// assert_eq!(free.count(Family::V4), 245);
/// assert!(!free.contains("10.0.0.15".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressSet {
    v4: Spans,
    v6: Spans,
}

impl AddressSet {
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn spans(&self, family: Family) -> &Spans {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    fn spans_mut(&mut self, family: Family) -> &mut Spans {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    pub fn insert(&mut self, range: impl Into<Range>) {
        let range = range.into();
        self.spans_mut(range.family())
            .insert(range.first_number(), range.last_number());
    }

    pub fn remove(&mut self, range: impl Into<Range>) {
        let range = range.into();
        self.spans_mut(range.family())
            .remove(range.first_number(), range.last_number());
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.spans(Family::of(address)).contains(number(address))
    }

    /// Whether all of `range` is in the set.
    pub fn covers(&self, range: impl Into<Range>) -> bool {
        let range = range.into();
        self.spans(range.family())
            .covers(range.first_number(), range.last_number())
    }

    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Saturates: the whole of IPv6 counts one less than the 2^128 it has.
    pub fn count(&self, family: Family) -> u128 {
        self.spans(family).count()
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self {
            v4: self.v4.union(&other.v4),
            v6: self.v6.union(&other.v6),
        }
    }

    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self {
            v4: self.v4.intersect(&other.v4),
            v6: self.v6.intersect(&other.v6),
        }
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        self.v4.overlaps(&other.v4) || self.v6.overlaps(&other.v6)
    }

    /// IPv4 first, each family in ascending order; ranges that touch are one.
    pub fn ranges(&self) -> impl Iterator<Item = Range> {
        Family::ALL.into_iter().flat_map(move |family| {
            self.spans(family)
                .iter()
                .map(move |(first, last)| Range::of_numbers(family, first, last))
        })
    }

    /// Every address, one by one and lazily, because a set may hold more than fit into a list.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.ranges().flat_map(|range| {
            (range.first_number()..=range.last_number()).map(move |n| range.family().address(n))
        })
    }
}

impl<R: Into<Range>> Extend<R> for AddressSet {
    fn extend<I: IntoIterator<Item = R>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert(range);
        }
    }
}

impl<R: Into<Range>> FromIterator<R> for AddressSet {
    fn from_iter<I: IntoIterator<Item = R>>(ranges: I) -> Self {
        let mut set = Self::new();
        set.extend(ranges);
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[&str]) -> AddressSet {
        ranges.iter().map(|text| text.parse::<Range>().unwrap()).collect()
    }

    fn written(set: &AddressSet) -> Vec<String> {
        set.ranges().map(|range| range.to_string()).collect()
    }

    #[test]
    fn ranges_that_touch_become_one_and_families_stay_apart() {
        let set = set(&["10.0.0.4-10.0.0.9", "fd64::/126", "10.0.0.0/30", "10.0.1.0"]);
        assert_eq!(written(&set), ["10.0.0.0-10.0.0.9", "10.0.1.0", "fd64::-fd64::3"]);
    }

    #[test]
    fn the_whole_space_can_be_filled_cut_and_counted() {
        let mut all = set(&["::/1", "8000::/1", "0.0.0.0/0"]);
        assert_eq!(all.ranges().count(), 2);
        assert_eq!(all.count(Family::V6), u128::MAX);
        assert_eq!(all.count(Family::V4), 1 << 32);
        all.remove("::".parse::<Range>().unwrap());
        assert_eq!(all.count(Family::V6), u128::MAX);
        all.remove("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".parse::<Range>().unwrap());
        assert_eq!(all.count(Family::V6), u128::MAX - 1);
    }

    #[test]
    fn addresses_of_a_huge_set_come_one_at_a_time() {
        let set = set(&["fd64::/64"]);
        let third = set.addresses().nth(2).unwrap();
        assert_eq!(third.to_string(), "fd64::2");
    }
}
