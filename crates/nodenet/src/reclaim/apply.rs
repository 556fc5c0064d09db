//! Looks when something may have gone, asks both witnesses afresh, and gives back.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_ledger::{Kind, Lease, LeaseId, Owner};
use kube::Resource;
use tokio::time::Instant;
use tracing::{info, warn};

use super::decide::{Place, Suspects, due_at, is_gone, is_of_node, is_stray};
use crate::allocator::AllocatorError;
use crate::claims::held_beyond;
use crate::controllers::{Context, Controller, Failure, Nodes};
use crate::nnc;

/// How often owners are searched, if nothing is due before and nothing is known to have gone.
const INTERVAL: Duration = Duration::from_secs(60);

/// After the first news, so that a rack of nodes that goes is one look.
const DEBOUNCE: Duration = Duration::from_millis(100);

pub(crate) struct Reclaim {
    nodes: Nodes,
    suspects: Suspects,
}

impl Reclaim {
    pub fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            suspects: Suspects::default(),
        }
    }

    pub async fn run(mut self) {
        loop {
            let looked = self.look().await;
            let category = looked.as_ref().err().map_or("ok", Failure::category);
            let context = &self.nodes.context;
            context.metrics.reconciled(Controller::Reclaim, category);
            context.pods().forget(context.node_grace, Instant::now());
            let next = match looked {
                Ok(next) => next,
                Err(failure) => {
                    warn!(%failure, "what was left behind could not be looked for; retrying");
                    None
                }
            };
            let next = next.unwrap_or(INTERVAL).min(INTERVAL);
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                () = context.gone.notified() => tokio::time::sleep(DEBOUNCE).await,
            }
        }
    }

    /// One that can't be asked or taken back does not keep the others: all are tried, and the first
    /// failure is told. Gives when the next is due.
    async fn look(&mut self) -> Result<Option<Duration>, Failure> {
        let Context {
            allocator, cluster, ..
        } = &self.nodes.context;
        let mut gone = BTreeSet::new();
        let mut looked = Ok(());
        for subnet in allocator.subnets().await? {
            match allocator.owners(&subnet, cluster).await {
                Ok(owners) => {
                    let theirs = owners.into_iter().filter(|owner| is_of_node(owner, cluster));
                    let left = theirs.filter(|owner| self.looks_gone(&subnet, owner));
                    gone.extend(left.map(|owner| (subnet.clone(), owner)));
                }
                // It went just now, and with it all that was owned.
                Err(AllocatorError::NoSubnet { .. }) => {}
                Err(error) => looked = looked.and(Err(error.into())),
            }
        }
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        // The container's own address last: as long as it is there, the container is.
        let mut suspects = self.suspects.observe(gone, now);
        suspects.sort_by_key(|((_, owner), _)| owner.kind() == Kind::Primary);
        for (place, since) in suspects {
            match self.review(&place, since, now).await {
                Ok(due) => next = [next, due].into_iter().flatten().min(),
                Err(failure) => looked = looked.and(Err(failure)),
            }
        }
        looked?;
        Ok(next.map(|next| next.saturating_duration_since(now)))
    }

    fn container(&self, owner: &Owner) -> String {
        self.nodes.context.container(owner.name(), owner.uid()).id().to_string()
    }

    /// By what the watches have told.
    fn looks_gone(&self, subnet: &str, owner: &Owner) -> bool {
        let index = self.nodes.index();
        let node = index.node(owner.name());
        let node = node.as_deref().map(|node| node.uid.as_str());
        let config = index.config(owner.name());
        is_gone(owner, &self.container(owner), node, config)
            || is_stray(owner, subnet, node, config)
    }

    /// Takes back what is due, and says when the rest is.
    async fn review(
        &self,
        place: &Place,
        since: Instant,
        now: Instant,
    ) -> Result<Option<Instant>, Failure> {
        let (subnet, owner) = place;
        let held = self.nodes.context.allocator.held(subnet, owner).await?;
        let (mut due, mut next) = (Vec::new(), None);
        for lease in held {
            match self.due_at(subnet, owner, &lease, since) {
                Some(at) if at <= now => due.push(lease.id),
                at => next = [next, at].into_iter().flatten().min(),
            }
        }
        if !due.is_empty() && !self.reclaim(subnet, owner, due).await? {
            next = [next, now.checked_add(INTERVAL)].into_iter().flatten().min();
        }
        Ok(next)
    }

    /// `None` as long as a pod shows it.
    fn due_at(
        &self,
        subnet: &str,
        owner: &Owner,
        lease: &Lease,
        since: Instant,
    ) -> Option<Instant> {
        let pods = self.nodes.pods();
        let unused: Option<Vec<Instant>> =
            lease.units.iter().map(|unit| pods.unused_since_in(*unit)).collect();
        let unused = unused?.into_iter().max().unwrap_or(since);
        let awaited = self.nodes.turnstile.is_awaited(subnet) && !pods.has_waiting(owner.name());
        Some(due_at(since, unused, self.nodes.context.node_grace, awaited))
    }

    /// By what the API server says at this moment. A Node with this UID can't come back after that,
    /// and without a Node no config gets its container. Whether both witnesses agree.
    async fn reclaim(
        &self,
        subnet: &str,
        owner: &Owner,
        leases: Vec<LeaseId>,
    ) -> Result<bool, Failure> {
        let context = &self.nodes.context;
        // As a pass does, alone: nobody is to claim these for a Node that comes back while they are
        // taken.
        let _turn = context.claims.turn().await;
        let node = context.nodes().get_opt(owner.name()).await?;
        let config = context.configs().get_opt(owner.name()).await?;
        let node = node.and_then(|node| node.metadata.uid);
        let facts = config.as_ref().map(nnc::Facts::of);
        let is_gone = is_gone(owner, &self.container(owner), node.as_deref(), facts.as_ref());
        if !is_gone && !is_stray(owner, subnet, node.as_deref(), facts.as_ref()) {
            return Ok(false);
        }
        let mut leases: BTreeSet<LeaseId> = leases.into_iter().collect();
        if let Some(config) = &config {
            let nc = context.container(owner.name(), owner.uid());
            for holding in held_beyond(config, &nc) {
                leases.remove(&holding.lease);
            }
        }
        let count = context
            .allocator
            .take_back(subnet, owner, leases.into_iter().collect())
            .await?;
        if count == 0 {
            return Ok(true);
        }
        info!(subnet, %owner, count, "taken back from an owner that is gone");
        let Some(object) = context.subnets().get_opt(subnet).await? else {
            return Ok(true);
        };
        let note = format!(
            "took back {count} of {owner}: its Node and its NodeNetworkConfig are gone, and no \
             pod has shown these addresses for {} s",
            context.node_grace.as_secs()
        );
        context.warn(&object.object_ref(&()), "Reclaimed", "Reclaim", note);
        Ok(true)
    }
}
