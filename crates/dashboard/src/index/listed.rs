//! Which nodes list which units, in a small form: a million of them are kept. Units of one length
//! are kept in groups of 256; each is its offset in the group, its use, and a shared name.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_addr::{Prefix, number};

/// The use of a unit that a node lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lister {
    /// The node's own address in its network container.
    Primary,
    /// For its pods, in its NodeNetworkConfig.
    Pool,
    /// For its pods, as the podCIDR of the Node.
    PodCidr,
}

/// A group has 2 to the power of this many units.
const GROUP_BITS: u8 = 8;

/// A node's name, behind a pointer of one word.
pub type Name = Arc<Box<str>>;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// The position of the unit in its group.
    offset: u8,
    lister: Lister,
    node: Name,
}

/// The length of its units, and the prefix of the group.
type Group = (u8, Prefix);

#[derive(Debug, Default)]
pub struct Listed {
    /// In order of their units.
    groups: BTreeMap<Group, Vec<Entry>>,
}

impl Listed {
    pub fn insert(&mut self, unit: Prefix, lister: Lister, node: &Name) {
        let (group, offset) = place(unit);
        let entries = self.groups.entry(group).or_default();
        let node = Arc::clone(node);
        let entry = Entry { offset, lister, node };
        if let Err(at) = entries.binary_search(&entry) {
            entries.insert(at, entry);
        }
    }

    pub fn remove(&mut self, unit: Prefix, lister: Lister, node: &Name) {
        let (group, offset) = place(unit);
        let Some(entries) = self.groups.get_mut(&group) else {
            return;
        };
        let node = Arc::clone(node);
        if let Ok(at) = entries.binary_search(&Entry { offset, lister, node }) {
            entries.remove(at);
        }
        if entries.is_empty() {
            self.groups.remove(&group);
        }
    }

    /// Units of this length in `window`, in their order.
    pub fn in_window(
        &self,
        window: Prefix,
        length: u8,
    ) -> impl Iterator<Item = (Prefix, Lister, &str)> {
        // The window may begin in the middle of a group.
        let group = Prefix::around(window.first(), length.saturating_sub(GROUP_BITS));
        let from = (length, group.unwrap_or(window));
        let groups = self.groups.range(from..);
        let groups =
            groups.take_while(move |((of, group), _)| *of == length && group.overlaps(window));
        let units = groups.flat_map(move |((_, group), entries)| {
            entries.iter().filter_map(move |entry| {
                let first = Prefix::around(group.first(), length)?;
                let unit = first.after(entry.offset.into())?;
                Some((unit, entry.lister, entry.node.as_ref().as_ref()))
            })
        });
        units.filter(move |(unit, ..)| window.covers(*unit))
    }
}

fn place(unit: Prefix) -> (Group, u8) {
    let length = unit.length();
    let group = Prefix::around(unit.first(), length.saturating_sub(GROUP_BITS)).unwrap_or(unit);
    let step = unit.family().bits() - length;
    let distance = number(unit.first()) - number(group.first());
    let offset = distance.checked_shr(u32::from(step)).unwrap_or(0);
    // A group has no more than 256.
    ((length, group), u8::try_from(offset).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Arc::new(text.into())
    }

    fn units(listed: &Listed, window: &str, length: u8) -> Vec<String> {
        let units = listed.in_window(window.parse().unwrap(), length);
        units.map(|(unit, _, node)| format!("{unit} {node}")).collect()
    }

    #[test]
    fn units_come_in_order_whatever_order_they_were_listed_in() {
        let mut listed = Listed::default();
        for (unit, node) in [
            ("10.0.1.0/32", "c"),
            ("10.0.0.255/32", "b"),
            ("10.0.0.7/32", "b"),
            ("10.0.0.7/32", "a"),
            ("10.0.0.0/24", "other length"),
            ("fd00::7/128", "other family"),
        ] {
            listed.insert(unit.parse().unwrap(), Lister::Pool, &name(node));
        }
        let all = ["10.0.0.7/32 a", "10.0.0.7/32 b", "10.0.0.255/32 b", "10.0.1.0/32 c"];
        assert_eq!(units(&listed, "10.0.0.0/16", 32), all);
        assert_eq!(units(&listed, "10.0.0.128/25", 32), all[2..3]);
        assert_eq!(units(&listed, "10.0.0.0/16", 24), ["10.0.0.0/24 other length"]);
        assert_eq!(units(&listed, "fd00::/64", 128), ["fd00::7/128 other family"]);
        assert_eq!(units(&listed, "10.1.0.0/16", 32), [""; 0]);
    }

    #[test]
    fn what_is_removed_is_gone_and_nothing_else() {
        let mut listed = Listed::default();
        let unit: Prefix = "10.0.0.7/32".parse().unwrap();
        listed.insert(unit, Lister::Pool, &name("a"));
        listed.insert(unit, Lister::Pool, &name("a"));
        listed.insert(unit, Lister::Primary, &name("b"));
        listed.remove(unit, Lister::Pool, &name("b"));
        assert_eq!(units(&listed, "10.0.0.7/32", 32).len(), 2);
        listed.remove(unit, Lister::Pool, &name("a"));
        assert_eq!(units(&listed, "10.0.0.7/32", 32), ["10.0.0.7/32 b"]);
        listed.remove(unit, Lister::Primary, &name("b"));
        assert!(listed.groups.is_empty());
    }

    #[test]
    fn lengths_at_the_ends_are_kept_too() {
        let mut listed = Listed::default();
        for unit in ["0.0.0.0/0", "128.0.0.0/1", "255.255.255.255/32", "ff00::/8"] {
            let unit: Prefix = unit.parse().unwrap();
            listed.insert(unit, Lister::PodCidr, &name("n"));
            assert_eq!(listed.in_window(unit, unit.length()).next().unwrap().0, unit);
            listed.remove(unit, Lister::PodCidr, &name("n"));
            assert!(listed.groups.is_empty());
        }
    }
}
