//! The address plan: all subnets that clusters have made known, kept in one document beside the blocks.
//!
//! Kept here, and not asked of the clusters again after a restart: the service has to answer for a subnet when the cluster that made it
//! known is down, and has to refuse an overlap with it. One document, not one for each subnet: whether two overlap is decided over all of them,
//! so all of them are swapped as one.

pub mod etcd;
pub mod file;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::allocator::SubnetPlan;
use berth_ledger::{Ledger, LedgerError};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tracing::warn;

pub use etcd::PlanDocument;
pub use file::PlanFile;

use super::target::SubnetName;

/// The document as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub text: String,
    /// Names this very content. 0 is a document that is not there.
    pub version: u64,
}

/// The document can't be read or written. Tried again by the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address plan in {place}: {why}")]
pub struct PlanStoreError {
    pub place: String,
    pub why: String,
}

/// Where the document is kept, so that an answer means it survives.
pub trait PlanStore: Send + Sync + std::fmt::Debug + 'static {
    /// For messages.
    fn place(&self) -> String;

    fn read(&self) -> BoxFuture<'_, Result<Kept, PlanStoreError>>;

    /// Whether it was written: not when the document is not at `over` any more.
    fn write<'a>(&'a self, text: &'a str, over: u64) -> BoxFuture<'a, Result<bool, PlanStoreError>>;

    /// Returns when the document may have changed since it was at `seen`; never, where this process alone can write it.
    fn changed(&self, seen: u64) -> BoxFuture<'_, ()>;
}

/// All subnets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressPlan {
    subnets: BTreeMap<SubnetName, Planned>,
}

/// A subnet, and the cluster that made it known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    pub cluster: String,
    pub plan: SubnetPlan,
}

/// Why the address plan was not changed. Nothing has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanRefusal {
    #[error(
        "subnet {name} was made known by cluster {maker}: a change must come with the certificate of {maker}; this one is for cluster {caller}"
    )]
    MadeByAnother {
        name: SubnetName,
        maker: String,
        caller: String,
    },
    #[error("subnet {name}: {owner} and {others} others have addresses in it: have them given back first")]
    NotEmpty {
        name: SubnetName,
        owner: String,
        others: usize,
    },
    #[error("there is no subnet {name}: make it known, or correct the name")]
    NoSubnet { name: SubnetName },
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Store(#[from] PlanStoreError),
}

/// What is to become of the plan: `None` when it is as it is wished already.
fn planned(
    plan: &AddressPlan,
    name: &SubnetName,
    caller: &str,
    wish: &SubnetPlan,
) -> Result<Option<AddressPlan>, PlanRefusal> {
    match plan.subnets.get(name) {
        // Clusters that share a subnet all make it known, and then agree.
        Some(there) if there.plan == *wish => return Ok(None),
        Some(there) if there.cluster != caller => return Err(made_by_another(name, there, caller)),
        _ => {}
    }
    let mut next = plan.clone();
    let entry = Planned {
        cluster: caller.to_owned(),
        plan: wish.clone(),
    };
    next.subnets.insert(name.clone(), entry);
    Ok(Some(next))
}

/// The plan without the subnet.
fn without(plan: &AddressPlan, name: &SubnetName, caller: &str) -> Result<AddressPlan, PlanRefusal> {
    match plan.subnets.get(name) {
        None => return Err(PlanRefusal::NoSubnet { name: name.clone() }),
        Some(there) if there.cluster != caller => return Err(made_by_another(name, there, caller)),
        Some(_) => {}
    }
    let mut next = plan.clone();
    next.subnets.remove(name);
    Ok(next)
}

fn made_by_another(name: &SubnetName, there: &Planned, caller: &str) -> PlanRefusal {
    PlanRefusal::MadeByAnother {
        name: name.clone(),
        maker: there.cluster.clone(),
        caller: caller.to_owned(),
    }
}

/// The plan, the ledger that follows it, and the document that it comes from.
#[derive(Clone, Debug)]
pub struct Plans {
    ledger: Ledger,
    store: Arc<dyn PlanStore>,
    /// Read for as long as a request is served, written while the plan changes: so nothing is leased from a plan that is not kept
    /// yet, and one that can't be kept can be taken back.
    known: Arc<RwLock<AddressPlan>>,
}

/// Between attempts to follow another process.
const PAUSE: Duration = Duration::from_secs(1);

/// No plan changes for as long as this lives.
pub type Settled = OwnedRwLockReadGuard<AddressPlan>;

impl Plans {
    /// With all that is in the document.
    pub async fn open(ledger: Ledger, store: Arc<dyn PlanStore>) -> Result<Self, PlanRefusal> {
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

    pub async fn get(&self, name: &SubnetName) -> Option<Planned> {
        self.known.read().await.subnets.get(name).cloned()
    }

    pub async fn names(&self) -> Vec<SubnetName> {
        self.known.read().await.subnets.keys().cloned().collect()
    }

    /// Makes a subnet known or changes it, by the rules of [`Ledger::set_subnet`].
    pub async fn set(&self, name: &SubnetName, caller: &str, wish: &SubnetPlan) -> Result<(), PlanRefusal> {
        // Controllers say it again at each start: that holds nobody up.
        if self.get(name).await.is_some_and(|there| there.plan == *wish) {
            return Ok(());
        }
        let mut known = self.known.write().await;
        loop {
            let version = self.catch_up(&mut known).await?;
            let Some(next) = planned(&known, name, caller, wish)? else {
                return Ok(());
            };
            let before = known.subnets.get(name).map(|planned| planned.plan.clone());
            if before.is_some() {
                // What others have leased is in use, too.
                self.ledger.refresh(name.key()).await?;
            }
            self.apply(name, wish).await?;
            match self.keep(&next, version).await {
                Ok(true) => {
                    *known = next;
                    return Ok(());
                }
                // Another process has changed the plan: once more, from what it is now.
                Ok(false) => self.restore(name, before.as_ref()).await,
                Err(error) => {
                    self.restore(name, before.as_ref()).await;
                    return Err(error.into());
                }
            }
        }
    }

    /// Forgets a subnet in which nobody has anything.
    pub async fn remove(&self, name: &SubnetName, caller: &str) -> Result<(), PlanRefusal> {
        let mut known = self.known.write().await;
        loop {
            let version = self.catch_up(&mut known).await?;
            let next = without(&known, name, caller)?;
            self.ledger.refresh(name.key()).await?;
            let owners = self.ledger.owners(name.key()).await?;
            if let Some(owner) = owners.first() {
                return Err(PlanRefusal::NotEmpty {
                    name: name.clone(),
                    owner: owner.to_string(),
                    others: owners.len() - 1,
                });
            }
            if self.keep(&next, version).await? {
                self.ledger.remove_subnet(name.key()).await;
                *known = next;
                return Ok(());
            }
        }
    }

    /// Until it is dropped: takes over what other processes change.
    pub async fn follow(&self) {
        let mut seen = 0;
        loop {
            self.store.changed(seen).await;
            match self.catch_up(&mut *self.known.write().await).await {
                Ok(version) => seen = version,
                Err(error) => {
                    warn!(%error, "another process has changed the address plan, and it can't be followed yet");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Brings what is known, and the ledger, to where the document is. Gives the document's version.
    async fn catch_up(&self, known: &mut AddressPlan) -> Result<u64, PlanRefusal> {
        let kept = self.store.read().await?;
        let plan = match kept.version {
            0 => AddressPlan::default(),
            _ => serde_json::from_str(&kept.text).map_err(|error| self.unreadable(&error))?,
        };
        if plan == *known {
            return Ok(kept.version);
        }
        // Those that go make room for those that come.
        let gone: Vec<SubnetName> = known
            .subnets
            .keys()
            .filter(|name| !plan.subnets.contains_key(*name))
            .cloned()
            .collect();
        for name in gone {
            self.ledger.remove_subnet(name.key()).await;
            known.subnets.remove(&name);
        }
        for (name, planned) in plan.subnets {
            if known.subnets.get(&name) != Some(&planned) {
                self.apply(&name, &planned.plan).await?;
                known.subnets.insert(name, planned);
            }
        }
        Ok(kept.version)
    }

    async fn apply(&self, name: &SubnetName, wish: &SubnetPlan) -> Result<(), LedgerError> {
        self.ledger
            .set_subnet(name.key(), &wish.plan(), wish.reuse_delay())
            .await
    }

    /// Nothing was leased from the plan that is taken back: nobody was served meanwhile.
    async fn restore(&self, name: &SubnetName, before: Option<&SubnetPlan>) {
        match before {
            Some(before) => {
                if let Err(error) = self.apply(name, before).await {
                    warn!(%error, subnet = %name, "a plan that could not be kept could not be taken back either");
                }
            }
            None => self.ledger.remove_subnet(name.key()).await,
        }
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
