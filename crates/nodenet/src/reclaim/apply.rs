//! Looks from time to time, asks both witnesses afresh, and gives back.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_ledger::Owner;
use kube::Resource;
use tokio::time::Instant;
use tracing::{info, warn};

use super::decide::{Place, Suspects, is_gone, is_of_node};
use crate::allocator::AllocatorError;
use crate::controllers::{Context, Controller, Failure, Nodes};
use crate::nnc;

/// How often owners are searched, if nobody's grace period ends before.
const BETWEEN_LOOKS: Duration = Duration::from_secs(60);

pub(crate) struct Reclaim {
    nodes: Nodes,
    grace: Duration,
    suspects: Suspects,
}

impl Reclaim {
    pub fn new(nodes: Nodes, grace: Duration) -> Self {
        Self {
            nodes,
            grace,
            suspects: Suspects::default(),
        }
    }

    pub async fn run(mut self) {
        loop {
            let looked = self.look().await;
            let category = looked.as_ref().err().map_or("ok", Failure::category);
            self.nodes.context.metrics.reconciled(Controller::Reclaim, category);
            if let Err(failure) = looked {
                warn!(%failure, "what was left behind could not be looked for, it is tried again");
            }
            let next = self.suspects.next(self.grace, Instant::now());
            tokio::time::sleep(next.unwrap_or(BETWEEN_LOOKS).min(BETWEEN_LOOKS)).await;
        }
    }

    /// One that can't be asked or taken back does not keep the others: all are tried, and the first failure is told.
    async fn look(&mut self) -> Result<(), Failure> {
        let Context { allocator, cluster, .. } = &self.nodes.context;
        let mut gone = BTreeSet::new();
        let mut looked = Ok(());
        for subnet in allocator.subnets().await? {
            match allocator.owners(&subnet, cluster).await {
                Ok(owners) => {
                    let theirs = owners.into_iter().filter(|owner| is_of_node(owner, cluster));
                    let left = theirs.filter(|owner| self.looks_gone(owner));
                    gone.extend(left.map(|owner| (subnet.clone(), owner)));
                }
                // It went just now, and with it all that was owned.
                Err(AllocatorError::NoSubnet { .. }) => {}
                Err(error) => looked = looked.and(Err(error.into())),
            }
        }
        for place in self.suspects.observe(gone, self.grace, Instant::now()) {
            let reclaimed = self.reclaim(place).await;
            looked = looked.and(reclaimed);
        }
        looked
    }

    fn container(&self, owner: &Owner) -> String {
        self.nodes.context.container(owner.name(), owner.uid()).id().to_string()
    }

    /// By what the watches have told.
    fn looks_gone(&self, owner: &Owner) -> bool {
        let index = self.nodes.index();
        let node = index.node(owner.name());
        let node = node.as_deref().map(|node| node.uid.as_str());
        is_gone(owner, &self.container(owner), node, index.config(owner.name()))
    }

    /// By what the API server says at this moment. A Node with this UID can't come back after that, and without a Node no config gets its container.
    async fn reclaim(&self, (subnet, owner): Place) -> Result<(), Failure> {
        let context = &self.nodes.context;
        let node = context.nodes().get_opt(owner.name()).await?;
        let config = context.configs().get_opt(owner.name()).await?;
        let node = node.and_then(|node| node.metadata.uid);
        let config = config.as_ref().map(nnc::Facts::of);
        if !is_gone(&owner, &self.container(&owner), node.as_deref(), config.as_ref()) {
            return Ok(());
        }
        let count = context.allocator.take_back(&subnet, &owner).await?;
        if count == 0 {
            return Ok(());
        }
        info!(subnet, %owner, count, "taken back from an owner that is gone");
        let Some(object) = context.subnets().get_opt(&subnet).await? else {
            return Ok(());
        };
        let note = format!(
            "took back {count} of {owner}: its Node and its NodeNetworkConfig have been gone for more than {} s",
            self.grace.as_secs()
        );
        context.warn(&object.object_ref(&()), "Reclaimed", "Reclaim", note);
        Ok(())
    }
}
