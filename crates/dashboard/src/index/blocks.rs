//! The units of AddressBlocks in a small form: a million of them are kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_addr::{Family, Prefix};
use berth_api::AddressBlock;
use jiff::Timestamp;
use kube::ResourceExt;

/// The owner of a unit, as the ledger writes it, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub owner: Arc<str>,
    pub since: Option<Timestamp>,
}

#[derive(Debug)]
struct Block {
    first: Prefix,
    owned: Box<[Run]>,
    released: Vec<(u8, Timestamp)>,
}

/// Adjacent units that one owner has had since the same moment. The ledger often gives such units
/// together.
#[derive(Debug)]
struct Run {
    from: u8,
    to: u8,
    owned: Owned,
}

/// The subnet and the first unit of a block, by which blocks are sorted.
type Place = (String, Prefix);

#[derive(Debug, Default)]
pub struct Blocks {
    by_place: BTreeMap<Place, Block>,
    places: HashMap<String, Place>,
}

impl Blocks {
    pub fn apply(&mut self, block: &AddressBlock) {
        let name = block.name_any();
        self.delete(&name);
        // A block that cannot be read is ignored.
        let Ok(first) = block.spec.first.parse::<Prefix>() else {
            return;
        };
        // A block has few owners: their units share one text.
        let mut owners = HashMap::<&str, Arc<str>>::new();
        let owned = block.spec.owned.iter().map(|(offset, owned)| {
            let owner = owners
                .entry(&owned.owner)
                .or_insert_with(|| owned.owner.as_str().into());
            let since = owned.since.as_ref().map(|since| since.0);
            let owner = Arc::clone(owner);
            (offset.0, Owned { owner, since })
        });
        let owned = runs(owned);
        let released = block.spec.released.iter();
        let released = released.map(|(offset, at)| (offset.0, at.0)).collect();
        let place = (block.spec.subnet.clone(), first);
        self.by_place.insert(
            place.clone(),
            Block {
                first,
                owned,
                released,
            },
        );
        self.places.insert(name, place);
    }

    pub fn delete(&mut self, name: &str) {
        if let Some(place) = self.places.remove(name) {
            self.by_place.remove(&place);
        }
    }

    /// Whether the ledger of this subnet is kept in the API server.
    pub fn has(&self, subnet: &str) -> bool {
        let all = Prefix::all(Family::V4);
        let mut from = self.by_place.range((subnet.to_owned(), all)..);
        from.next().is_some_and(|((name, _), _)| name == subnet)
    }

    pub fn owned_in<'a>(
        &'a self,
        subnet: &str,
        window: Prefix,
    ) -> impl Iterator<Item = (Prefix, &'a Owned)> + use<'a> {
        let blocks = self.blocks_in(subnet, window);
        blocks.flat_map(move |block| {
            let units = block.owned.iter().flat_map(|run| {
                let offsets = (run.from..=run.to).map(move |offset| (offset, &run.owned));
                offsets.filter_map(|(offset, owned)| Some((block.unit(offset)?, owned)))
            });
            units.filter(move |(unit, _)| window.covers(*unit))
        })
    }

    pub fn released_in<'a>(
        &'a self,
        subnet: &str,
        window: Prefix,
    ) -> impl Iterator<Item = (Prefix, Timestamp)> + use<'a> {
        let blocks = self.blocks_in(subnet, window);
        blocks.flat_map(move |block| {
            let units = block.released.iter();
            let units = units.filter_map(|(offset, at)| Some((block.unit(*offset)?, *at)));
            units.filter(move |(unit, _)| window.covers(*unit))
        })
    }

    /// Blocks that may have a unit in `window`, which may begin in the middle of a block.
    fn blocks_in<'a>(
        &'a self,
        subnet: &str,
        window: Prefix,
    ) -> impl Iterator<Item = &'a Block> + use<'a> {
        let name = subnet.to_owned();
        let before = self.by_place.range(..(name.clone(), window)).next_back();
        let before = before.filter(move |((of, _), _)| *of == name);
        let name = subnet.to_owned();
        let from = self.by_place.range((name.clone(), window)..);
        let from =
            from.take_while(move |((of, first), _)| *of == name && first.first() <= window.last());
        before.into_iter().chain(from).map(|(_, block)| block)
    }
}

/// Offsets must be in order.
fn runs(owned: impl Iterator<Item = (u8, Owned)>) -> Box<[Run]> {
    let mut runs: Vec<Run> = Vec::new();
    for (offset, owned) in owned {
        match runs.last_mut() {
            Some(run) if run.to.checked_add(1) == Some(offset) && run.owned == owned => {
                run.to = offset;
            }
            _ => runs.push(Run {
                from: offset,
                to: offset,
                owned,
            }),
        }
    }
    runs.into_boxed_slice()
}

impl Block {
    fn unit(&self, offset: u8) -> Option<Prefix> {
        self.first.after(offset.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_side_by_side_are_one_run_and_come_out_one_by_one() {
        let owned = |name: &str| Owned {
            owner: name.into(),
            since: None,
        };
        let listed = [(0, "a"), (1, "a"), (2, "b"), (4, "b"), (254, "b"), (255, "b")];
        let runs = runs(listed.iter().map(|(offset, name)| (*offset, owned(name))));
        let ends: Vec<(u8, u8)> = runs.iter().map(|run| (run.from, run.to)).collect();
        assert_eq!(ends, [(0, 1), (2, 2), (4, 4), (254, 255)]);
        let mut blocks = Blocks::default();
        let first: Prefix = "10.0.0.0/32".parse().unwrap();
        let block = Block {
            first,
            owned: runs,
            released: Vec::new(),
        };
        blocks.by_place.insert(("pods".to_owned(), first), block);
        let window = "10.0.0.0/24".parse().unwrap();
        let found: Vec<(String, String)> = blocks
            .owned_in("pods", window)
            .map(|(unit, owned)| (unit.first().to_string(), owned.owner.to_string()))
            .collect();
        let wanted = listed.map(|(offset, name)| (format!("10.0.0.{offset}"), name.to_owned()));
        assert_eq!(found, wanted);
    }
}
