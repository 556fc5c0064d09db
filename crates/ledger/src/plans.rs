//! The subnets of one store, registered so that no two of them have the same addresses. One
//! document in the store holds them and changes by compare-and-swap, so that two controllers of one
//! cluster, or of two clusters on one etcd, see each other's subnets.
//!
//! Subnets of one name are one subnet: clusters share a subnet by giving it the same name.

use std::collections::{BTreeMap, BTreeSet};

use berth_addr::{AddressSet, Range};
use berth_api::format::{self, NewerFormat};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::error::LedgerError;
use crate::store::{Store, StoreError};

/// How often a change is tried when other writers are first.
const ATTEMPTS: usize = 64;

/// The format of the whole store: of this document and of the blocks beside it. Raised when one of
/// them changes in a way that an older program can't read, so that the older program stops before
/// it writes.
const FORMAT: u64 = format::FIRST;

/// The subnets, by the cluster that registered them and by name. An unknown field is an error:
/// writing the document without it would delete it for programs that know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default = "format::first")]
    format: u64,
    /// Goes up with every start of a controller. A store that was restored from a copy has a lower
    /// epoch than was observed before.
    #[serde(default)]
    epoch: u64,
    #[serde(default)]
    subnets: BTreeMap<String, BTreeMap<String, Vec<Range>>>,
}

impl Default for Document {
    fn default() -> Self {
        Self {
            format: FORMAT,
            epoch: 0,
            subnets: BTreeMap::new(),
        }
    }
}

impl Document {
    fn of(&self, holder: &str, name: &str) -> Option<&Vec<Range>> {
        self.subnets.get(holder)?.get(name)
    }

    fn set(&mut self, holder: &str, name: &str, ranges: Option<Vec<Range>>) {
        let of_holder = self.subnets.entry(holder.to_owned()).or_default();
        match ranges {
            Some(ranges) => drop(of_holder.insert(name.to_owned(), ranges)),
            None => drop(of_holder.remove(name)),
        }
        self.subnets.retain(|_, subnets| !subnets.is_empty());
    }

    /// A subnet of another name that overlaps this space, and the first common range.
    fn overlap(&self, name: &str, space: &AddressSet) -> Option<(String, String)> {
        let others = self.subnets.values().flatten().filter(|(other, _)| *other != name);
        let mut shared = others.filter_map(|(other, ranges)| {
            let ranges: AddressSet = ranges.iter().copied().collect();
            let shared = space.intersect(&ranges).ranges().next()?;
            Some((other.clone(), shared.to_string()))
        });
        shared.next()
    }
}

/// Registers the space of a subnet, before any unit of it is leased. Returns what was registered
/// before, for [`put_back`].
pub async fn register(
    store: &dyn Store,
    holder: &str,
    name: &str,
    space: &AddressSet,
) -> Result<Option<Vec<Range>>, LedgerError> {
    let mut before = None;
    change(store, name, |document| {
        if let Some((other, range)) = document.overlap(name, space) {
            let subnet = name.to_owned();
            return Err(LedgerError::Overlap { subnet, other, range });
        }
        before = document.of(holder, name).cloned();
        document.set(holder, name, Some(space.ranges().collect()));
        Ok(())
    })
    .await?;
    Ok(before)
}

/// Undoes [`register`] when the subnet could not be opened, or unregisters it.
pub async fn put_back(
    store: &dyn Store,
    holder: &str,
    name: &str,
    before: Option<Vec<Range>>,
) -> Result<(), LedgerError> {
    change(store, name, |document| {
        document.set(holder, name, before.clone());
        Ok(())
    })
    .await
}

/// Counts one more start of a controller. Returns its number.
pub async fn begin(store: &dyn Store) -> Result<u64, LedgerError> {
    let mut epoch = 0;
    change(store, "", |document| {
        document.epoch += 1;
        epoch = document.epoch;
        Ok(())
    })
    .await?;
    Ok(epoch)
}

/// The subnets of this holder except `names`.
pub async fn strangers(
    store: &dyn Store,
    holder: &str,
    names: &BTreeSet<String>,
) -> Result<Vec<String>, StoreError> {
    let (_, document) = read(store).await?;
    let of_holder = document.subnets.get(holder).into_iter().flat_map(BTreeMap::keys);
    Ok(of_holder.filter(|name| !names.contains(*name)).cloned().collect())
}

async fn change(
    store: &dyn Store,
    subnet: &str,
    mut decide: impl FnMut(&mut Document) -> Result<(), LedgerError>,
) -> Result<(), LedgerError> {
    for _ in 0..ATTEMPTS {
        let (version, before) = read(store).await?;
        let mut document = before.clone();
        decide(&mut document)?;
        if document == before {
            return Ok(());
        }
        let text =
            serde_json::to_vec(&document).map_err(|error| StoreError::new("ledger", error))?;
        if store.swap_plan(version, text).await? {
            return Ok(());
        }
    }
    let subnet = subnet.to_owned();
    Err(LedgerError::Contended { subnet })
}

async fn read(store: &dyn Store) -> Result<(Option<crate::store::Version>, Document), StoreError> {
    let Some((version, text)) = store.read_plan().await? else {
        return Ok((None, Document::default()));
    };
    let unreadable = |why: String| {
        let place = store.plan_place();
        StoreError::new(
            "ledger",
            format_args!("the address plan in {place} can't be read: {why}"),
        )
    };
    NewerFormat::check_json(&text, FORMAT).map_err(|newer| unreadable(newer.to_string()))?;
    let document = serde_json::from_slice(&text);
    Ok((Some(version), document.map_err(|error| unreadable(error.to_string()))?))
}

/// Whether this program knows the format of the store. Nothing is written.
pub fn check_format(store: &dyn Store) -> BoxFuture<'_, Result<(), StoreError>> {
    Box::pin(async move { read(store).await.map(drop) })
}
