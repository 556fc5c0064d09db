//! The address plan: all subnets that clusters have registered, kept in one document beside the
//! blocks.
//!
//! The service keeps the plan and does not ask the clusters for it after a restart: it must answer
//! for a subnet, and refuse an overlap with it, while the cluster that registered it is down. All
//! subnets are in one document: whether two overlap is decided over all of them, so all of them are
//! swapped as one.

mod change;
pub mod etcd;
pub mod file;
mod follow;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::allocator::SubnetPlan;
use berth_api::format::{self, NewerFormat};
use berth_ledger::{Ledger, LedgerError};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tracing::warn;

pub use etcd::PlanDocument;
pub use file::PlanFile;

use super::name::SubnetName;

/// The document as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub text: String,
    /// Identifies this very content. 0 means that there is no document.
    pub version: u64,
}

/// The document can't be read or written. The caller tries again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address plan in {place}: {why}")]
pub struct PlanStoreError {
    pub place: String,
    pub why: String,
}

/// Stores the document durably: once it answers, the document survives.
pub trait PlanStore: Send + Sync + std::fmt::Debug + 'static {
    /// For messages.
    fn place(&self) -> String;

    /// Whether other processes can write it, too: then what was read of it may be old.
    fn is_shared(&self) -> bool;

    fn read(&self) -> BoxFuture<'_, Result<Kept, PlanStoreError>>;

    /// Returns whether it was written: not if the document is no longer at version `over`.
    fn write<'a>(&'a self, text: &'a str, over: u64)
    -> BoxFuture<'a, Result<bool, PlanStoreError>>;

    /// Returns when the document may have changed since it was at `seen`; never, where this process
    /// alone can write it.
    fn changed(&self, seen: u64) -> BoxFuture<'_, ()>;
}

/// The document's format. It is raised when an older program can't read the document any more.
const FORMAT: u64 = format::FIRST;

/// All subnets. An unknown field is an error: writing the document without it would take it away
/// from programs that know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressPlan {
    #[serde(default = "format::first")]
    format: u64,
    subnets: BTreeMap<SubnetName, Planned>,
}

impl Default for AddressPlan {
    fn default() -> Self {
        Self {
            format: FORMAT,
            subnets: BTreeMap::new(),
        }
    }
}

/// A subnet, and the cluster that registered it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub cluster: String,
    pub plan: SubnetPlan,
}

/// Why the address plan was not changed. Nothing else has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressPlanError {
    #[error(
        "subnet {name} was registered by cluster {maker}: a change must come with the certificate \
         of {maker}; this one is for cluster {caller}"
    )]
    RegisteredByAnother {
        name: SubnetName,
        maker: String,
        caller: String,
    },
    #[error(
        "subnet {name}: {owner} and {others} others have addresses in it: release them \
         first"
    )]
    NotEmpty {
        name: SubnetName,
        owner: String,
        others: usize,
    },
    #[error(
        "subnet {name}: it was changed by another process, and this one can't follow yet: {why}"
    )]
    Behind { name: SubnetName, why: String },
    #[error("there is no subnet {name}: register it, or correct the name")]
    NoSubnet { name: SubnetName },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Store(#[from] PlanStoreError),
}

/// The plan, the ledger that follows it, and the document that it comes from.
#[derive(Clone, Debug)]
pub struct Plans {
    ledger: Ledger,
    store: Arc<dyn PlanStore>,
    /// Locked for reading while a request is served, for writing while the plan changes. So nothing
    /// is leased from a plan that is not stored yet, and one that can't be stored can be taken
    /// back.
    known: Arc<RwLock<Known>>,
}

/// This process's copies of the plan. The two differ while another process is ahead.
#[derive(Debug, Default)]
pub struct Known {
    /// The document as it was last read.
    document: AddressPlan,
    /// What the ledger has.
    followed: AddressPlan,
}

/// Between attempts to follow another process.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// No plan changes for as long as this lives.
pub type Settled = OwnedRwLockReadGuard<Known>;

impl Known {
    /// Whether anything may be leased from the subnet. It may not while the ledger's plan for it
    /// differs from the document's.
    pub fn check(&self, name: &SubnetName) -> Result<(), AddressPlanError> {
        match self.document.subnets.get(name) == self.followed.subnets.get(name) {
            true => Ok(()),
            false => Err(AddressPlanError::Behind {
                name: name.clone(),
                why: "it is tried again".to_owned(),
            }),
        }
    }
}

impl Plans {
    /// Opens the plan with all that is in the document.
    pub async fn open(ledger: Ledger, store: Arc<dyn PlanStore>) -> Result<Self, AddressPlanError> {
        let plans = Self {
            ledger,
            store,
            known: Arc::default(),
        };
        plans.catch_up(&mut *plans.known.write().await).await?;
        Ok(plans)
    }

    pub async fn settled(&self) -> Settled {
        Arc::clone(&self.known).read_owned().await
    }

    /// Whether the document still has the same plan for the subnet as when the request began. Call
    /// it after a lease is durable and before it is answered: a change of the plan writes the
    /// document first and then reads the store, so one of the two sees the other.
    pub async fn confirm(
        &self,
        settled: &Settled,
        name: &SubnetName,
    ) -> Result<(), AddressPlanError> {
        if !self.store.is_shared() {
            return Ok(());
        }
        let (document, _) = self.read().await?;
        match document.subnets.get(name) == settled.followed.subnets.get(name) {
            true => Ok(()),
            false => Err(AddressPlanError::Behind {
                name: name.clone(),
                why: "it was changed a moment ago".to_owned(),
            }),
        }
    }

    pub async fn get(&self, name: &SubnetName) -> Option<Planned> {
        self.known.read().await.document.subnets.get(name).cloned()
    }

    pub async fn names(&self) -> Vec<SubnetName> {
        self.known.read().await.document.subnets.keys().cloned().collect()
    }

    /// Takes over what other processes change, until it is dropped.
    pub async fn follow(&self) {
        let mut seen = 0;
        loop {
            self.store.changed(seen).await;
            match self.catch_up(&mut *self.known.write().await).await {
                Ok(version) => seen = version,
                Err(error) => {
                    warn!(%error, "cannot read or apply the changed address plan; retrying");
                    tokio::time::sleep(FOLLOW_INTERVAL).await;
                }
            }
        }
    }

    /// The document's plan, and its version.
    async fn read(&self) -> Result<(AddressPlan, u64), PlanStoreError> {
        let kept = self.store.read().await?;
        NewerFormat::check_json(kept.text.as_bytes(), FORMAT).map_err(|newer| PlanStoreError {
            place: self.store.place(),
            why: newer.to_string(),
        })?;
        let plan = match kept.version {
            0 => AddressPlan::default(),
            _ => serde_json::from_str(&kept.text).map_err(|error| self.unreadable(&error))?,
        };
        Ok((plan, kept.version))
    }

    async fn keep(&self, plan: &AddressPlan, over: u64) -> Result<bool, PlanStoreError> {
        let text = serde_json::to_string_pretty(plan).map_err(|error| self.unreadable(&error))?;
        self.store.write(&text, over).await
    }

    fn unreadable(&self, error: &serde_json::Error) -> PlanStoreError {
        PlanStoreError {
            place: self.store.place(),
            why: format!("{error}; restore it from a copy"),
        }
    }
}

#[cfg(test)]
mod tests;
