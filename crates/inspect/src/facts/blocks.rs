//! The units in AddressBlocks.

use std::collections::BTreeMap;

use berth_addr::Prefix;
use berth_api::AddressBlock;
use jiff::Timestamp;

/// One unit of a subnet that is not simply free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    Owned(Held),
    /// Released at this time; it may still cool down.
    Released(Timestamp),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// As the ledger writes it: `kind/cluster/…/name/uid`.
    pub owner: String,
    pub lease: String,
    pub since: Option<Timestamp>,
}

impl Held {
    pub fn kind(&self) -> &str {
        self.owner.split('/').next().unwrap_or_default()
    }

    /// The object's name: the part before the UID.
    pub fn name(&self) -> &str {
        self.owner.rsplit('/').nth(1).unwrap_or_default()
    }

    pub fn uid(&self) -> &str {
        self.owner.rsplit('/').next().unwrap_or_default()
    }
}

pub fn units(blocks: &[AddressBlock]) -> BTreeMap<(String, Prefix), Unit> {
    let mut units = BTreeMap::new();
    for block in blocks {
        let spec = &block.spec;
        let Ok(first) = spec.first.parse::<Prefix>() else {
            continue;
        };
        let at = |offset: u8| Some((spec.subnet.clone(), first.after(offset.into())?));
        for (offset, owner) in &spec.owned {
            let held = Held {
                owner: owner.owner.clone(),
                lease: owner.lease.clone(),
                since: owner.since.as_ref().map(|since| since.0),
            };
            units.extend(at(offset.0).map(|place| (place, Unit::Owned(held))));
        }
        for (offset, released) in &spec.released {
            units.extend(at(offset.0).map(|place| (place, Unit::Released(released.0))));
        }
    }
    units
}
