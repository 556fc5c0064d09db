//! A block as bytes, for the stores that keep bytes. A record of 256 units that one owner was given
//! at once takes less than 5 KiB.
//!
//! ```text
//! format      1 byte
//! first unit  family (4 or 6), prefix length, the address's 4 or 16 bytes
//! owned       how many (2 bytes), then for each: offset, offset of the first unit that has the same
//!             owner, lease (16 bytes); when that unit is this one, the owner: length (2 bytes), text;
//!             offset of the first unit that was given at the same time; and when that unit is this
//!             one, the time: milliseconds since the epoch (8 bytes)
//! released    how many (2 bytes), then for each: offset, milliseconds since the epoch (8 bytes)
//! checksum    of all before (8 bytes)
//! ```
//!
//! Numbers are big endian. Format 1, which is read too, has no times of owned units. Any byte that
//! is not understood is an error: a block that is read as emptier than it is would be given out
//! once more.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use berth_addr::{Family, Prefix};

use crate::owner::Owner;
use crate::record::{Contradiction, LeaseId, Record, Tenure};

const FORMAT: u8 = 2;
/// The format before tenures had a time.
const WITHOUT_SINCE: u8 = 1;

/// Why bytes are not a block. The caller adds which block it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("it is in format {found}, and this program knows formats up to {FORMAT}")]
    Format { found: u8 },
    #[error("it is damaged: its checksum is not that of its content")]
    Checksum,
    #[error("it is damaged: it ends too early")]
    TooShort,
    #[error("it is damaged: it goes on where it should end")]
    TooLong,
    #[error("it is damaged: {what} is not what a ledger writes")]
    Content { what: &'static str },
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
}

impl Unreadable {
    /// What to do about it.
    pub fn fix(&self) -> &'static str {
        match self {
            Self::Format { .. } => "run the newer Berth that wrote it; nothing was changed",
            _ => "restore it from a copy",
        }
    }
}

/// Appends the block to `bytes`.
pub fn encode(first: Prefix, record: &Record, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.push(FORMAT);
    encode_prefix(first, bytes);
    counted(bytes, |bytes| encode_owned(record, bytes));
    counted(bytes, |bytes| {
        let mut count = 0;
        for (offset, at) in record.released() {
            bytes.push(offset);
            bytes.extend_from_slice(&at.to_be_bytes());
            count += 1;
        }
        count
    });
    let checksum = checksum(&bytes[start..]);
    bytes.extend_from_slice(&checksum.to_be_bytes());
}

/// The first unit and the content of a block that [`encode`] wrote.
pub fn decode(bytes: &[u8]) -> Result<(Prefix, Record), Unreadable> {
    // The format comes first: another one may have its checksum elsewhere.
    let found = *bytes.first().ok_or(Unreadable::TooShort)?;
    if found != FORMAT && found != WITHOUT_SINCE {
        return Err(Unreadable::Format { found });
    }
    let (content, sum) = bytes.split_last_chunk().ok_or(Unreadable::TooShort)?;
    if u64::from_be_bytes(*sum) != checksum(content) {
        return Err(Unreadable::Checksum);
    }
    let mut rest = Rest(content.get(1..).unwrap_or_default());
    let first = decode_prefix(&mut rest)?;
    let owned = decode_owned(&mut rest, found == FORMAT)?;
    let mut released = Vec::new();
    for _ in 0..rest.count()? {
        released.push((rest.byte()?, u64::from_be_bytes(rest.take()?)));
    }
    if !rest.0.is_empty() {
        return Err(Unreadable::TooLong);
    }
    Ok((first, Record::new(owned, released)?))
}

fn encode_prefix(prefix: Prefix, bytes: &mut Vec<u8>) {
    match prefix.first() {
        IpAddr::V4(address) => {
            bytes.extend_from_slice(&[4, prefix.length()]);
            bytes.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            bytes.extend_from_slice(&[6, prefix.length()]);
            bytes.extend_from_slice(&address.octets());
        }
    }
}

fn decode_prefix(rest: &mut Rest<'_>) -> Result<Prefix, Unreadable> {
    let family = match rest.byte()? {
        4 => Family::V4,
        6 => Family::V6,
        _ => return Err(Unreadable::Content { what: "the family" }),
    };
    let length = rest.byte()?;
    let address = match family {
        Family::V4 => Ipv4Addr::from(rest.take()?).into(),
        Family::V6 => Ipv6Addr::from(rest.take()?).into(),
    };
    let what = "the first unit";
    Prefix::new(address, length).map_err(|_| Unreadable::Content { what })
}

fn encode_owned(record: &Record, bytes: &mut Vec<u8>) -> u16 {
    let mut first_with: HashMap<&str, u8> = HashMap::new();
    let mut last: Option<(&str, u8)> = None;
    let mut first_since: HashMap<u64, u8> = HashMap::new();
    let mut count = 0;
    for (offset, tenure) in record.owned() {
        let owner = tenure.owner.as_str();
        // Owners come in runs, so most need no lookup in the map.
        let same_as = match last {
            Some((text, at)) if text == owner => at,
            _ => *first_with.entry(owner).or_insert(offset),
        };
        last = Some((owner, same_as));
        bytes.extend_from_slice(&[offset, same_as]);
        bytes.extend_from_slice(tenure.lease.as_bytes());
        if same_as == offset {
            // An owner has at most 512 bytes.
            let length = u16::try_from(owner.len()).unwrap_or(u16::MAX);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(owner.as_bytes());
        }
        let since_as = *first_since.entry(tenure.since).or_insert(offset);
        bytes.push(since_as);
        if since_as == offset {
            bytes.extend_from_slice(&tenure.since.to_be_bytes());
        }
        count += 1;
    }
    count
}

/// Reads the owned units. Units of one owner share its text in memory, too.
fn decode_owned(rest: &mut Rest<'_>, has_since: bool) -> Result<Vec<(u8, Tenure)>, Unreadable> {
    let count = rest.count()?;
    let mut owned: Vec<(u8, Tenure)> = Vec::with_capacity(count.into());
    for _ in 0..count {
        let (offset, same_as) = (rest.byte()?, rest.byte()?);
        let lease = LeaseId::from_bytes(rest.take()?);
        let owner = if same_as == offset {
            decode_owner(rest)?
        } else {
            referred(&owned, same_as, "the reference to an owner")?.owner.clone()
        };
        let since = if has_since {
            decode_since(rest, &owned, offset)?
        } else {
            0
        };
        if owned.last().is_some_and(|(last, _)| *last >= offset) {
            let what = "the order of the units";
            return Err(Unreadable::Content { what });
        }
        owned.push((offset, Tenure { owner, lease, since }));
    }
    Ok(owned)
}

fn decode_since(
    rest: &mut Rest<'_>,
    owned: &[(u8, Tenure)],
    offset: u8,
) -> Result<u64, Unreadable> {
    let since_as = rest.byte()?;
    if since_as == offset {
        return Ok(u64::from_be_bytes(rest.take()?));
    }
    Ok(referred(owned, since_as, "the reference to a time")?.since)
}

/// The tenure of an earlier unit. The units so far are in order, because that was checked when they
/// were read.
fn referred<'a>(
    owned: &'a [(u8, Tenure)],
    offset: u8,
    what: &'static str,
) -> Result<&'a Tenure, Unreadable> {
    let at = owned.binary_search_by_key(&offset, |(offset, _)| *offset);
    let found = at.ok().and_then(|at| owned.get(at));
    found.map(|(_, tenure)| tenure).ok_or(Unreadable::Content { what })
}

fn decode_owner(rest: &mut Rest<'_>) -> Result<Owner, Unreadable> {
    let length = u16::from_be_bytes(rest.take()?);
    let (text, after) = rest.0.split_at_checked(length.into()).ok_or(Unreadable::TooShort)?;
    rest.0 = after;
    let owner = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    owner.ok_or(Unreadable::Content { what: "an owner" })
}

/// Writes the count that `write` returns in front of what it writes.
fn counted(bytes: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> u16) {
    let at = bytes.len();
    bytes.extend_from_slice(&[0; 2]);
    let count = write(bytes);
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&count.to_be_bytes());
    }
}

/// The bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Unreadable::TooShort)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Unreadable> {
        let [byte] = self.take()?;
        Ok(byte)
    }

    /// A count of units, of which a block has at most 256.
    fn count(&mut self) -> Result<u16, Unreadable> {
        let count = u16::from_be_bytes(self.take()?);
        let what = "the count of units";
        if count > 256 {
            Err(Unreadable::Content { what })
        } else {
            Ok(count)
        }
    }
}

/// FNV-1a. A change of any one byte changes it: each step is a bijection of the sum so far.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::owner::Kind;

    fn owner() -> impl Strategy<Value = Owner> {
        let name = prop_oneof![Just("node-1".to_owned()), "[a-z]{1,8}", "\\PC{1,40}"];
        name.prop_filter_map("no slash", |name| {
            Owner::new(Kind::Secondary, "cluster", &name, "uid").ok()
        })
    }

    fn record() -> impl Strategy<Value = Record> {
        let since = prop_oneof![Just(0), Just(7), any::<u64>()];
        let tenure = (owner(), any::<u128>(), since).prop_map(|(owner, lease, since)| Tenure {
            owner,
            lease: LeaseId::from_u128(lease),
            since,
        });
        let unit = prop_oneof![tenure.prop_map(Ok), any::<u64>().prop_map(Err)];
        prop::collection::btree_map(any::<u8>(), unit, 0..=256).prop_map(|units| {
            let owned = units
                .iter()
                .filter_map(|(offset, unit)| Some((*offset, unit.clone().ok()?)));
            let released = units
                .iter()
                .filter_map(|(offset, unit)| Some((*offset, unit.clone().err()?)));
            Record::new(owned, released).unwrap()
        })
    }

    fn first() -> impl Strategy<Value = Prefix> {
        let v4 = (any::<u32>(), 0..=32u8)
            .prop_map(|(address, length)| (IpAddr::from(Ipv4Addr::from(address)), length));
        let v6 = (any::<u128>(), 0..=128u8)
            .prop_map(|(address, length)| (Ipv6Addr::from(address).into(), length));
        prop_oneof![v4, v6].prop_map(|(address, length)| Prefix::around(address, length).unwrap())
    }

    fn encoded(first: Prefix, record: &Record) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(first, record, &mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(first in first(), record in record()) {
            prop_assert_eq!(decode(&encoded(first, &record)), Ok((first, record)));
        }

        #[test]
        fn a_byte_that_changed_is_noticed(record in record(), at in any::<prop::sample::Index>(), other in 1..=255u8) {
            let mut bytes = encoded("10.64.0.0/32".parse().unwrap(), &record);
            let at = at.index(bytes.len());
            bytes[at] ^= other;
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn half_a_block_is_noticed(record in record(), at in any::<prop::sample::Index>()) {
            let bytes = encoded("10.64.0.0/32".parse().unwrap(), &record);
            prop_assert!(decode(&bytes[..at.index(bytes.len())]).is_err());
        }

        #[test]
        fn bytes_of_anybody_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            bytes.insert(0, FORMAT);
            let sum = checksum(&bytes);
            bytes.extend_from_slice(&sum.to_be_bytes());
            if let Ok((first, record)) = decode(&bytes) {
                prop_assert_eq!(decode(&encoded(first, &record)), Ok((first, record)));
            }
        }
    }

    #[test]
    fn a_full_block_of_one_owner_is_small() {
        let owner = Owner::new(
            Kind::Secondary,
            "prod",
            "aks-nodepool1-12345678-vmss000001",
            &"u".repeat(36),
        )
        .unwrap();
        let lease = LeaseId::from_u128;
        let tenure = |offset: u8| {
            (
                offset,
                Tenure {
                    owner: owner.clone(),
                    lease: lease(offset.into()),
                    since: 1_763_179_200_123,
                },
            )
        };
        let record = Record::new((0..=255).map(tenure), []).unwrap();
        let bytes = encoded("10.64.0.0/32".parse().unwrap(), &record);
        assert!(bytes.len() < 5 * 1024, "{} bytes", bytes.len());
    }

    #[test]
    fn a_block_of_the_version_before_is_read() {
        // Two units of one owner and one that was released, as format 1 has them.
        let mut bytes = vec![WITHOUT_SINCE, 4, 32, 10, 64, 0, 0];
        bytes.extend_from_slice(&2u16.to_be_bytes());
        let owner = "secondary/c/n/u";
        for offset in [3, 9] {
            bytes.extend_from_slice(&[offset, 3]);
            bytes.extend_from_slice(&u128::from(offset).to_be_bytes());
            if offset == 3 {
                bytes.extend_from_slice(&15u16.to_be_bytes());
                bytes.extend_from_slice(owner.as_bytes());
            }
        }
        bytes.extend_from_slice(&1u16.to_be_bytes());
        bytes.push(4);
        bytes.extend_from_slice(&77u64.to_be_bytes());
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_be_bytes());
        let (_, record) = decode(&bytes).unwrap();
        let tenure = |lease| Tenure {
            owner: owner.parse().unwrap(),
            lease: LeaseId::from_u128(lease),
            since: 0,
        };
        assert_eq!(
            record,
            Record::new([(3, tenure(3)), (9, tenure(9))], [(4, 77)]).unwrap()
        );
    }

    #[test]
    fn a_newer_format_says_what_to_do() {
        let mut bytes = encoded("10.64.0.0/32".parse().unwrap(), &Record::default());
        bytes[0] = 3;
        let error = decode(&bytes).unwrap_err();
        assert_eq!(error, Unreadable::Format { found: 3 });
        assert!(error.fix().contains("run the newer Berth that wrote it"));
    }
}
