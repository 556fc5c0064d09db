//! A block as an AddressBlock, and back.

use std::collections::HashMap;
use std::sync::Arc;

use berth_addr::Prefix;
use berth_api::AddressBlock;
use berth_api::address_block::{self, Offset};
use berth_api::format::{FIRST, NewerFormat};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::owner::{NotAnOwner, Owner};
use crate::record::{BlockKey, Contradiction, LeaseId, Record, Tenure};
use crate::store::{Stored, Version, name};

/// The format of AddressBlocks that are written here. Raised when it changes in a way that an older
/// program can't read.
const FORMAT: u64 = FIRST;

/// An AddressBlock that no ledger wrote.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("spec.format: {0}")]
    Newer(#[from] NewerFormat),
    #[error("spec.first: {0}")]
    First(#[from] berth_addr::ParseError),
    #[error("metadata.name: spec.subnet and spec.first say that it is {expected}")]
    Name { expected: String },
    #[error("metadata.resourceVersion: {found:?} is not a number")]
    Version { found: String },
    #[error("spec.owned.{offset}.owner: {why}")]
    Owner { offset: u8, why: NotAnOwner },
    #[error("spec.owned.{offset}.lease: {found:?} is not a lease id")]
    Lease { offset: u8, found: String },
    #[error("spec.released: {0}")]
    Contradiction(#[from] Contradiction),
}

impl Unreadable {
    /// What to do about it, if it does not say that itself.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::Newer(_) => "",
            _ => "; restore it from a copy",
        }
    }
}

pub fn object_name(key: &BlockKey) -> String {
    AddressBlock::object_name(&key.subnet, &name::of_block(key.first))
}

/// The object has no version: the caller sets the one that it replaces.
pub fn encode(key: &BlockKey, record: &Record) -> AddressBlock {
    let mut object = AddressBlock::empty(&key.subnet, &name::of_block(key.first), key.first);
    object.spec.format = i64::try_from(FORMAT).ok();
    let owner = |tenure: &Tenure| address_block::Owner {
        owner: tenure.owner.to_string(),
        lease: tenure.lease.to_string(),
        since: (tenure.since > 0).then(|| MicroTime(time(tenure.since))),
    };
    let owned = record.owned().map(|(offset, tenure)| (Offset(offset), owner(tenure)));
    object.spec.owned = owned.collect();
    let released = record
        .released()
        .map(|(offset, at)| (Offset(offset), MicroTime(time(at))));
    object.spec.released = released.collect();
    object
}

pub fn decode(object: &AddressBlock) -> Result<Stored, Unreadable> {
    // The format comes first, because nothing else is known of another format.
    let format = object.spec.format.and_then(|format| u64::try_from(format).ok());
    NewerFormat::check(format.unwrap_or(FIRST), FORMAT)?;
    let first: Prefix = object.spec.first.parse()?;
    let key = BlockKey {
        subnet: object.spec.subnet.clone(),
        first,
    };
    let expected = object_name(&key);
    if object.metadata.name.as_ref() != Some(&expected) {
        return Err(Unreadable::Name { expected });
    }
    Ok(Stored {
        version: version(object)?,
        record: Arc::new(record(object)?),
        key,
    })
}

pub fn version(object: &AddressBlock) -> Result<Version, Unreadable> {
    let found = object.metadata.resource_version.as_deref().unwrap_or_default();
    let number = found.parse().map_err(|_| Unreadable::Version {
        found: found.to_owned(),
    });
    number.map(Version)
}

fn record(object: &AddressBlock) -> Result<Record, Unreadable> {
    // Units of one owner share its text in memory.
    let mut owners: HashMap<&str, Owner> = HashMap::new();
    let mut owned = Vec::with_capacity(object.spec.owned.len());
    for (Offset(offset), found) in &object.spec.owned {
        let offset = *offset;
        let owner = match owners.get(found.owner.as_str()) {
            Some(owner) => owner.clone(),
            None => found.owner.parse().map_err(|why| Unreadable::Owner { offset, why })?,
        };
        owners.entry(&found.owner).or_insert_with(|| owner.clone());
        let lease = LeaseId::parse_str(&found.lease).map_err(|_| Unreadable::Lease {
            offset,
            found: found.lease.clone(),
        })?;
        let since = found.since.as_ref().map_or(0, |since| millis(since.0));
        owned.push((offset, Tenure { owner, lease, since }));
    }
    let released = object.spec.released.iter();
    let released = released.map(|(Offset(offset), MicroTime(at))| (*offset, millis(*at)));
    Ok(Record::new(owned, released)?)
}

/// A time beyond the year 9999 can't be written and is capped: if a clock is that wrong, a unit
/// cools down until the clock is right.
fn time(millis: u64) -> Timestamp {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

fn millis(time: Timestamp) -> u64 {
    u64::try_from(time.as_millisecond()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Kind;

    fn object() -> AddressBlock {
        let owner = Owner::new(Kind::Secondary, "c", "node-1", "u").unwrap();
        let lease = LeaseId::from_u128;
        let owned = [3, 200].map(|offset: u8| {
            let owner = owner.clone();
            (
                offset,
                Tenure {
                    owner,
                    lease: lease(offset.into()),
                    since: u64::from(offset) * 1000,
                },
            )
        });
        let key = BlockKey {
            subnet: "pods".to_owned(),
            first: "fd64::100/128".parse().unwrap(),
        };
        let record = Record::new(owned, [(4, 0), (5, 1_763_179_200_123)]).unwrap();
        let mut object = encode(&key, &record);
        object.metadata.resource_version = Some("7".to_owned());
        object
    }

    fn why(change: impl FnOnce(&mut AddressBlock)) -> String {
        let mut object = object();
        change(&mut object);
        decode(&object).unwrap_err().to_string()
    }

    #[test]
    fn a_block_comes_back_as_it_was_written() {
        let stored = decode(&object()).unwrap();
        assert_eq!(stored.version, Version(7));
        assert_eq!(
            stored.record.released().collect::<Vec<_>>(),
            [(4, 0), (5, 1_763_179_200_123)]
        );
        assert_eq!(encode(&stored.key, &stored.record).spec, object().spec);
    }

    #[test]
    fn what_a_person_made_of_it_is_an_error_that_names_the_field() {
        let found = why(|object| object.spec.first = "fd64::/128".to_owned());
        assert!(
            found.starts_with("metadata.name: ") && found.ends_with("pods-fd64.0.0.0.0.0.0.0"),
            "{found}"
        );
        let found =
            why(|object| object.spec.owned.get_mut(&Offset(3)).unwrap().owner = "me".to_owned());
        assert!(found.starts_with("spec.owned.3.owner: "), "{found}");
        let found = why(|object| {
            object.spec.owned.get_mut(&Offset(200)).unwrap().lease = "mine".to_owned()
        });
        assert!(found.starts_with("spec.owned.200.lease: "), "{found}");
        let found = why(|object| {
            object.spec.released.insert(Offset(3), MicroTime(Timestamp::UNIX_EPOCH));
        });
        assert!(found.starts_with("spec.released: "), "{found}");
        let found = why(|object| object.metadata.resource_version = None);
        assert!(found.starts_with("metadata.resourceVersion: "), "{found}");
    }

    #[test]
    fn a_clock_that_has_gone_mad_writes_a_time_that_can_be_read() {
        assert_eq!(time(u64::MAX), Timestamp::MAX);
        assert!(millis(time(u64::MAX)) > 250_000_000_000_000);
        assert_eq!(millis(Timestamp::MIN), 0);
    }
}
