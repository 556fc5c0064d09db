//! Sets of addresses, prefixes and ranges against a naive set, at the bottom, in the middle and at
//! the top of both families.

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_addr::{AddressSet, Family, Prefix, Range};
use proptest::prelude::*;

/// Addresses under test: so few that a naive set can hold them, and all of what is outside stays
/// outside.
const WINDOW: u128 = 96;

fn windows() -> impl Strategy<Value = (Family, u128)> {
    prop::sample::select(vec![
        (Family::V4, 0),
        (Family::V4, 0x0a40_00c0),
        (Family::V4, Family::V4.last() - WINDOW + 1),
        (Family::V6, 0),
        (Family::V6, (1 << 127) - WINDOW / 2),
        (Family::V6, Family::V6.last() - WINDOW + 1),
    ])
}

fn range(family: Family, base: u128, one: u128, other: u128) -> Range {
    let at = |n| family.address(base + n);
    Range::new(at(one.min(other)), at(one.max(other))).unwrap()
}

fn listed(range: Range) -> impl Iterator<Item = IpAddr> {
    AddressSet::from_iter([range])
        .addresses()
        .collect::<Vec<_>>()
        .into_iter()
}

type Edit = (bool, u128, u128);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec((any::<bool>(), 0..WINDOW, 0..WINDOW), 0..24)
}

fn build(family: Family, base: u128, edits: &[Edit]) -> (AddressSet, BTreeSet<IpAddr>) {
    let (mut set, mut naive) = (AddressSet::new(), BTreeSet::new());
    for &(insert, one, other) in edits {
        let range = range(family, base, one, other);
        if insert {
            set.insert(range);
            naive.extend(listed(range));
        } else {
            set.remove(range);
            naive.retain(|address| !range.contains(*address));
        }
    }
    (set, naive)
}

fn addresses(set: &AddressSet) -> BTreeSet<IpAddr> {
    set.addresses().collect()
}

proptest! {
    #[test]
    fn a_set_holds_what_was_inserted_and_not_removed((family, base) in windows(), edits in edits()) {
        let (set, naive) = build(family, base, &edits);
        prop_assert_eq!(addresses(&set), naive.clone());
        prop_assert_eq!(set.count(family), naive.len() as u128);
        prop_assert_eq!(set.is_empty(), naive.is_empty());
        for n in 0..WINDOW {
            let address = family.address(base + n);
            prop_assert_eq!(set.contains(address), naive.contains(&address));
        }
    }

    #[test]
    fn ranges_of_a_set_are_sorted_and_neither_overlap_nor_touch((family, base) in windows(), edits in edits()) {
        let (set, _) = build(family, base, &edits);
        let ranges: Vec<Range> = set.ranges().collect();
        for pair in ranges.windows(2) {
            let between = Range::new(pair[0].last(), pair[1].first());
            prop_assert!(between.is_ok_and(|gap| gap.count() > 2), "{ranges:?}");
        }
        prop_assert_eq!(set, ranges.into_iter().collect::<AddressSet>());
    }

    #[test]
    fn two_sets_join_meet_and_overlap_as_naive_ones_do(
        (family, base) in windows(), one in edits(), other in edits(), ends in (0..WINDOW, 0..WINDOW),
    ) {
        let (one, naive_one) = build(family, base, &one);
        let (other, naive_other) = build(family, base, &other);
        prop_assert_eq!(addresses(&one.union(&other)), &naive_one | &naive_other);
        prop_assert_eq!(addresses(&one.intersect(&other)), &naive_one & &naive_other);
        prop_assert_eq!(one.overlaps(&other), !naive_one.is_disjoint(&naive_other));
        let range = range(family, base, ends.0, ends.1);
        prop_assert_eq!(one.covers(range), listed(range).all(|address| naive_one.contains(&address)));
    }

    #[test]
    fn ranges_overlap_when_they_share_an_address(
        (family, base) in windows(), ends in prop::array::uniform4(0..WINDOW),
    ) {
        let (one, other) = (range(family, base, ends[0], ends[1]), range(family, base, ends[2], ends[3]));
        prop_assert_eq!(one.overlaps(other), listed(one).any(|address| other.contains(address)));
        prop_assert_eq!(one.count(), listed(one).count() as u128);
    }

    #[test]
    fn a_prefix_holds_the_addresses_that_share_its_first_bits(
        family in prop::sample::select(&Family::ALL[..]), number: u128, other: u128, flipped in 0u32..128, length in 0u8..=128,
    ) {
        let (number, length) = (number & family.last(), length % (family.bits() + 1));
        let other = if flipped % 2 == 0 { number ^ (1 << (flipped % u32::from(family.bits()))) } else { other & family.last() };
        let same = (0..length).all(|bit| {
            let place = family.bits() - 1 - bit;
            (number >> place) & 1 == (other >> place) & 1
        });
        let prefix = Prefix::around(family.address(number), length).unwrap();
        prop_assert_eq!(prefix.contains(family.address(other)), same);
        prop_assert_eq!(Range::from(prefix).contains(family.address(other)), same);
    }

    #[test]
    fn what_is_written_is_read_back(
        family in prop::sample::select(&Family::ALL[..]), one: u128, other: u128, length in 0u8..=128,
    ) {
        let at = |number| family.address(number & family.last());
        let prefix = Prefix::around(at(one), length % (family.bits() + 1)).unwrap();
        prop_assert_eq!(prefix.to_string().parse::<Prefix>().unwrap(), prefix);
        let range = Range::new(at(one).min(at(other)), at(one).max(at(other))).unwrap();
        prop_assert_eq!(range.to_string().parse::<Range>().unwrap(), range);
    }
}
