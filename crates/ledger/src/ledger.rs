//! All subnets over one store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_addr::{AddressSet, Family, Plan, Prefix};
use futures::future::BoxFuture;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::book::{Claim, Claimed, Grant, Lease, PlanError, Refusal};
use crate::clock::Clock;
use crate::committer::{Committer, Outlook, Request, SubnetCounts};
use crate::error::LedgerError;
use crate::metrics::{Latency, LedgerMetrics, Operation};
use crate::owner::Owner;
use crate::plans;
use crate::record::{LeaseId, Tenure};
use crate::store::Store;

/// Clones are the same ledger.
#[derive(Clone, Debug)]
pub struct Ledger {
    store: Arc<dyn Store>,
    clock: Clock,
    metrics: LedgerMetrics,
    /// Held while a subnet is made, changed or removed, so that overlaps are checked one at a time.
    planning: Arc<Mutex<()>>,
    /// Never held across an await, so that requests for one subnet do not wait for another.
    subnets: Arc<parking_lot::Mutex<BTreeMap<String, Subnet>>>,
    gated: Arc<parking_lot::Mutex<Gated>>,
}

/// The clusters that must claim what their owners have before anything new is leased to them.
#[derive(Clone, Debug, Default)]
struct Gated {
    /// The cluster whose controllers use this ledger; `None` in a service.
    holder: Option<String>,
    /// The clusters that owned something when a service started.
    owners: Option<BTreeSet<String>>,
}

#[derive(Clone, Debug)]
struct Subnet {
    space: Arc<AddressSet>,
    latency: Latency,
    requests: mpsc::Sender<Request>,
    counts: mpsc::UnboundedSender<oneshot::Sender<SubnetCounts>>,
    outlook: watch::Receiver<Outlook>,
}

/// The requests that can be queued before callers wait.
const QUEUE: usize = 4096;

impl Ledger {
    pub fn new(store: Arc<dyn Store>, clock: Clock, metrics: LedgerMetrics) -> Self {
        Self {
            store,
            clock,
            metrics,
            planning: Arc::default(),
            subnets: Arc::default(),
            gated: Arc::default(),
        }
    }

    /// From now on, a newly registered subnet leases nothing to owners of this cluster until the
    /// cluster has claimed what they have: see [`Ledger::open_gate`].
    pub fn require_claims(&self, cluster: &str) {
        self.gated().holder = Some(cluster.to_owned());
    }

    /// For a service, before it serves: nothing is leased to any cluster that owns something in the
    /// store, in any subnet, until it has claimed what it has in that one. A part of the store may
    /// have been lost or put back from a copy; what is left tells which clusters have nodes that
    /// may use what was lost.
    pub fn require_claims_of_owners(&self) -> BoxFuture<'_, Result<(), LedgerError>> {
        Box::pin(async move {
            let _planning = self.planning.lock().await;
            let known = self.subnets().await;
            let mut clusters: BTreeSet<String> = BTreeSet::new();
            for name in &known {
                let owners = self.owners(name).await?;
                clusters.extend(owners.iter().map(Owner::gate));
            }
            for name in self.store.subnets().await?.iter().filter(|name| !known.contains(name)) {
                let blocks = self.store.load(name).await?;
                let tenures = blocks.iter().flat_map(|block| block.record.owned());
                clusters.extend(tenures.map(|(_, tenure)| tenure.owner.gate()));
            }
            for name in &known {
                for cluster in &clusters {
                    self.gate(name, cluster).await?;
                }
            }
            self.gated().owners = Some(clusters);
            Ok(())
        })
    }

    fn gated(&self) -> parking_lot::MutexGuard<'_, Gated> {
        self.gated.lock()
    }

    /// Every change under this lock is complete, so a panic elsewhere does not matter.
    fn known(&self) -> parking_lot::MutexGuard<'_, BTreeMap<String, Subnet>> {
        self.subnets.lock()
    }

    fn find(&self, name: &str) -> Option<Subnet> {
        self.known().get(name).cloned()
    }

    /// Registers a subnet, or changes its plan. Refused when it overlaps another one, or when an
    /// owned unit is not in the new plan; then nothing has changed.
    pub fn set_subnet<'a>(
        &'a self,
        name: &'a str,
        plan: &'a Plan,
        reuse_delay: Duration,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let space = Arc::new(plan.space().map_err(PlanError::from)?);
            let _planning = self.planning.lock().await;
            for (other, subnet) in self.known().iter().filter(|(other, _)| *other != name) {
                if let Some(range) = space.intersect(&subnet.space).ranges().next() {
                    return Err(LedgerError::Overlap {
                        subnet: name.to_owned(),
                        other: other.clone(),
                        range: range.to_string(),
                    });
                }
            }
            // The plan is registered in the store, where others find it, before any unit is leased;
            // a failure undoes that. A service's ledger has no cluster of its own, and the service
            // keeps such a document itself.
            let Some(holder) = self.holder() else {
                return self.lay_out(name, plan, reuse_delay, space).await;
            };
            let before = plans::register(&*self.store, &holder, name, &space).await?;
            let set = self.lay_out(name, plan, reuse_delay, space).await;
            if set.is_err() {
                plans::put_back(&*self.store, &holder, name, before).await?;
            }
            set
        })
    }

    /// The cluster that registers subnets here, and claims in them.
    fn holder(&self) -> Option<String> {
        self.gated().holder.clone()
    }

    async fn lay_out(
        &self,
        name: &str,
        plan: &Plan,
        reuse_delay: Duration,
        space: Arc<AddressSet>,
    ) -> Result<(), LedgerError> {
        if let Some(mut subnet) = self.find(name) {
            let plan = plan.clone();
            let planned = subnet.ask(name, |answer| Request::Plan {
                plan,
                reuse_delay,
                answer,
            });
            planned.await??;
            subnet.space = space;
            self.known().insert(name.to_owned(), subnet);
            return Ok(());
        }
        let store = Arc::clone(&self.store);
        let opened =
            Committer::open(name, plan, reuse_delay, store, self.clock, self.metrics.clone());
        let (mut committer, counts, outlook) = opened.await?;
        let Gated { holder, owners } = self.gated().clone();
        let in_service = owners.is_some();
        let mut gated: BTreeSet<String> = owners.into_iter().flatten().chain(holder).collect();
        if in_service {
            gated.extend(committer.clusters());
        }
        committer.require_claims(&gated);
        let (requests, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(committer.run(receiver));
        let subnet = Subnet {
            space,
            latency: self.metrics.latency(name),
            requests,
            counts,
            outlook,
        };
        self.known().insert(name.to_owned(), subnet);
        Ok(())
    }

    /// Removes a subnet if it has no owners in the store; else nothing changes. Returns the number
    /// of owners. A concurrent request is either in that count or refused. An unknown subnet is
    /// looked up in the store, too.
    pub fn remove_subnet<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<usize, LedgerError>> {
        Box::pin(async move {
            let _planning = self.planning.lock().await;
            let Some(subnet) = self.find(name) else {
                let blocks = self.store.load(name).await?;
                let tenures = blocks.iter().flat_map(|block| block.record.owned());
                let owners: BTreeSet<&Owner> = tenures.map(|(_, tenure)| &tenure.owner).collect();
                return Ok(owners.len());
            };
            let owners = subnet.ask(name, |answer| Request::Close { answer }).await?;
            if owners == 0 {
                self.known().remove(name);
                if let Some(holder) = self.holder() {
                    plans::put_back(&*self.store, &holder, name, None).await?;
                }
            }
            Ok(owners)
        })
    }

    /// Called when a controller starts to use this ledger. Returns a number that is higher than any
    /// before, unless the store was restored from a copy.
    pub fn begin_epoch(&self) -> BoxFuture<'_, Result<u64, LedgerError>> {
        Box::pin(async move { plans::begin(&*self.store).await })
    }

    /// Unregisters this cluster's subnets except those named, if they have no owners: other subnets
    /// may then use their addresses.
    pub fn unregister_all_but<'a>(
        &'a self,
        names: &'a BTreeSet<String>,
    ) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            let _planning = self.planning.lock().await;
            let Some(holder) = self.holder() else {
                return Ok(());
            };
            for name in plans::strangers(&*self.store, &holder, names).await? {
                let blocks = self.store.load(&name).await?;
                if blocks.iter().all(|block| block.record.owned().next().is_none()) {
                    plans::put_back(&*self.store, &holder, &name, None).await?;
                }
            }
            Ok(())
        })
    }

    /// Forgets a subnet even if it has owners. They stay in the store, and are loaded again when
    /// the subnet comes back.
    pub async fn forget_subnet(&self, name: &str) {
        let _planning = self.planning.lock().await;
        self.known().remove(name);
    }

    pub async fn subnets(&self) -> Vec<String> {
        self.known().keys().cloned().collect()
    }

    /// Gives a lease for each id: a unit of every family of the subnet, or of the named families.
    /// Leases that the owner has already are kept, so that a repeated call gives the same and no
    /// more. [`Grant::short`] counts the leases that could not be given.
    pub fn lease<'a>(
        &'a self,
        subnet: &'a str,
        owner: &'a Owner,
        leases: Vec<LeaseId>,
        families: Option<Vec<Family>>,
    ) -> BoxFuture<'a, Result<Grant, LedgerError>> {
        Box::pin(async move {
            let owner = owner.clone();
            let request = |answer| Request::Lease {
                owner,
                leases,
                families,
                answer,
            };
            self.ask(Operation::Lease, subnet, request).await
        })
    }

    /// Takes exactly these units, all or none.
    pub fn claim<'a>(
        &'a self,
        subnet: &'a str,
        owner: &'a Owner,
        lease: LeaseId,
        units: Vec<Prefix>,
    ) -> BoxFuture<'a, Result<Result<(), Refusal>, LedgerError>> {
        Box::pin(async move {
            let owner = owner.clone();
            let request = |answer| Request::Claim {
                owner,
                lease,
                units,
                answer,
            };
            self.ask(Operation::Claim, subnet, request).await
        })
    }

    /// Claims units for their known owners, whatever the store says: each by itself, in this order.
    pub fn restore<'a>(
        &'a self,
        subnet: &'a str,
        claims: Vec<Claim>,
    ) -> BoxFuture<'a, Result<Vec<Claimed>, LedgerError>> {
        Box::pin(async move {
            if claims.is_empty() {
                return Ok(Vec::new());
            }
            self.ask(Operation::Claim, subnet, |answer| Request::Restore { claims, answer })
                .await
        })
    }

    /// How often this cluster's owners have lost leases, the start included: the `generation` for
    /// [`Ledger::open_gate`]. From now on nothing new is leased to them until the cluster has
    /// claimed what they have.
    pub fn gate<'a>(
        &'a self,
        subnet: &'a str,
        cluster: &'a str,
    ) -> BoxFuture<'a, Result<u64, LedgerError>> {
        Box::pin(async move {
            let cluster = cluster.to_owned();
            self.ask(Operation::Read, subnet, |answer| Request::Gate { cluster, answer })
                .await
        })
    }

    /// To be called when, after [`Ledger::gate`] returned this number, the cluster has claimed all
    /// that its owners have. `false`: more was lost meanwhile.
    pub fn open_gate<'a>(
        &'a self,
        subnet: &'a str,
        cluster: &'a str,
        generation: u64,
    ) -> BoxFuture<'a, Result<bool, LedgerError>> {
        Box::pin(async move {
            let cluster = cluster.to_owned();
            let request = |answer| Request::Open {
                cluster,
                generation,
                answer,
            };
            self.ask(Operation::Read, subnet, request).await
        })
    }

    /// Releases the owner's leases of these ids; other ids are ignored. With `None`, it releases
    /// all of the owner's leases in this subnet. Returns the released leases.
    pub fn release<'a>(
        &'a self,
        subnet: &'a str,
        owner: &'a Owner,
        leases: Option<Vec<LeaseId>>,
    ) -> BoxFuture<'a, Result<Vec<Lease>, LedgerError>> {
        Box::pin(async move {
            let owner = owner.clone();
            let request = |answer| Request::Release { owner, leases, answer };
            self.ask(Operation::Release, subnet, request).await
        })
    }

    pub fn held<'a>(
        &'a self,
        subnet: &'a str,
        owner: &'a Owner,
    ) -> BoxFuture<'a, Result<Vec<Lease>, LedgerError>> {
        Box::pin(async move {
            let owner = owner.clone();
            self.ask(Operation::Read, subnet, |answer| Request::Held { owner, answer })
                .await
        })
    }

    /// All owners in the subnet.
    pub fn owners<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<Vec<Owner>, LedgerError>> {
        Box::pin(async move {
            self.ask(Operation::Read, subnet, |answer| Request::Owners { answer })
                .await
        })
    }

    pub async fn owner_of(
        &self,
        subnet: &str,
        unit: Prefix,
    ) -> Result<Option<Tenure>, LedgerError> {
        let owners = self.owners_of(subnet, vec![unit]).await?;
        Ok(owners.into_iter().next().flatten())
    }

    /// In the order of the units.
    pub fn owners_of<'a>(
        &'a self,
        subnet: &'a str,
        units: Vec<Prefix>,
    ) -> BoxFuture<'a, Result<Vec<Option<Tenure>>, LedgerError>> {
        Box::pin(async move {
            self.ask(Operation::Read, subnet, |answer| Request::OwnersOf { units, answer })
                .await
        })
    }

    /// Reads the store again: later answers include all that any process wrote before this call.
    pub fn refresh<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<(), LedgerError>> {
        Box::pin(async move {
            self.ask(Operation::Read, subnet, |answer| Request::Refresh { answer })
                .await
        })
    }

    /// How full a subnet is at this moment. It does not wait for the store: blocks that are being
    /// written count as written.
    pub async fn counts(&self, subnet: &str) -> Result<SubnetCounts, LedgerError> {
        let found = self.find(subnet).ok_or_else(|| gone(subnet))?;
        let (answer, answered) = oneshot::channel();
        found.counts.send(answer).map_err(|_| gone(subnet))?;
        answered.await.map_err(|_| gone(subnet))
    }

    /// How full a subnet is, and whether there is more than before, for callers that wait for
    /// units. `None` when there is no such subnet.
    pub async fn outlook(&self, subnet: &str) -> Option<watch::Receiver<Outlook>> {
        self.find(subnet).map(|subnet| subnet.outlook)
    }

    async fn ask<T>(
        &self,
        operation: Operation,
        subnet: &str,
        request: impl FnOnce(oneshot::Sender<Result<T, LedgerError>>) -> Request,
    ) -> Result<T, LedgerError> {
        let found = self.find(subnet).ok_or_else(|| gone(subnet))?;
        let start = Instant::now();
        let answer = found.ask(subnet, request).await;
        found.latency.observe(operation, start.elapsed().as_secs_f64());
        answer
    }
}

impl Subnet {
    async fn ask<T>(
        &self,
        name: &str,
        request: impl FnOnce(oneshot::Sender<Result<T, LedgerError>>) -> Request,
    ) -> Result<T, LedgerError> {
        let (answer, answered) = oneshot::channel();
        let sent = self.requests.send(request(answer)).await;
        sent.map_err(|_| gone(name))?;
        answered.await.map_err(|_| gone(name))?
    }
}

fn gone(subnet: &str) -> LedgerError {
    LedgerError::NoSubnet {
        subnet: subnet.to_owned(),
    }
}
