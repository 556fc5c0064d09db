//! Records the podCIDRs that Nodes have, whoever has set them: those of all Nodes, also of those
//! that no Subnet selects, and before any are given.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_addr::{ClaimError, Prefix};
use berth_api::subnet::Use;
use berth_ledger::{LeaseId, Ledger, Owner};
use futures::future::join_all;
use uuid::Uuid;

use super::decide::{is_elsewhere, touched, unused};
use crate::allocator::{AllocatorError, ContainerRef};
use crate::controllers::{Failure, Nodes};
use crate::{node, subnet};

/// A podCIDR, or a part of it, that is not recorded.
struct Refused {
    why: String,
    /// The whole of it is there for the node's pods all the same, as far as this subnet goes.
    usable: bool,
    /// It may be free another time.
    passing: bool,
}

impl Nodes {
    /// Those that podCIDRs can be recorded in. One that was refused gives none away, and must not
    /// keep nodes from what they get elsewhere.
    pub(super) fn serving_cidrs(&self) -> Vec<(String, Arc<subnet::Facts>)> {
        let mut subnets = self.index().subnets_for(Use::NodeCidrs);
        subnets.retain(|(_, facts)| facts.serving);
        subnets
    }

    /// A node that no Subnet gives a podCIDR to may have one in it nevertheless. What is recorded
    /// of it goes back with its config, or by reclaim.
    pub(crate) async fn record_unselected(
        &self,
        name: &str,
        node: &node::Facts,
    ) -> Result<(), Failure> {
        if let Some(ledger) = &self.context.ledger
            && !node.pod_cidrs.is_empty()
        {
            let container = self.context.container(name, &node.uid);
            self.record(ledger, &container, node).await?;
        }
        Ok(())
    }

    /// The ledger may have lost some of them.
    pub(crate) async fn record_again(&self) -> Result<(), Failure> {
        let Some(ledger) = &self.context.ledger else {
            return Ok(());
        };
        self.index().unrecord_all();
        self.record_all(ledger).await
    }

    /// All that the watch has told of. To be done before a podCIDR is leased: what another node has
    /// looks free until it is recorded, and no Node ever changes the one it got.
    pub(super) async fn record_all(&self, ledger: &Ledger) -> Result<(), Failure> {
        // Who comes meanwhile waits, as it must not lease what is about to be recorded.
        let _turn = self.recording.lock().await;
        let nodes = self.index().take_unrecorded();
        let recorded = nodes.iter().map(async |(name, node)| {
            let container = self.context.container(name, &node.uid);
            self.claim(ledger, &container, node).await
        });
        let mut failed = Ok(());
        for ((name, _), recorded) in nodes.iter().zip(join_all(recorded).await) {
            let again = match recorded {
                Ok(refused) => refused.iter().any(|refused| refused.passing),
                Err(failure) => {
                    failed = Err(failure);
                    true
                }
            };
            if again {
                self.index().is_unrecorded(name);
            }
        }
        failed
    }

    /// Whether the node may use what it has. Not when it is another's: that is said, and nothing
    /// else happens until one of the two changes.
    pub(super) async fn record(
        &self,
        ledger: &Ledger,
        container: &ContainerRef,
        node: &node::Facts,
    ) -> Result<bool, Failure> {
        let refused = self.claim(ledger, container, node).await?;
        let usable = refused.iter().all(|refused| refused.usable);
        for Refused { why, .. } in refused {
            self.complain_of_cidr(container, why);
        }
        Ok(usable)
    }

    pub(super) fn complain_of_cidr(&self, container: &ContainerRef, note: String) {
        let node = node::reference(&container.node, &container.uid);
        self.context.warn(&node, "PodCIDRNotRecorded", "AllocateCIDR", note);
    }

    /// Also gives back what is held of others than those that the node has.
    async fn claim(
        &self,
        ledger: &Ledger,
        container: &ContainerRef,
        node: &node::Facts,
    ) -> Result<Vec<Refused>, Failure> {
        let owner = container.node_cidr().map_err(AllocatorError::from)?;
        let cidrs = node.pod_cidrs.iter().filter_map(|cidr| cidr.parse::<Prefix>().ok());
        let cidrs: Vec<Prefix> = cidrs.collect();
        let mut refused = Vec::new();
        for (subnet, facts) in self.serving_cidrs() {
            let held = ledger.held(&subnet, &owner).await?;
            let has: BTreeSet<Prefix> =
                held.iter().flat_map(|lease| lease.units.iter().copied()).collect();
            let mut in_use = BTreeSet::new();
            for cidr in &cidrs {
                let Some(units) = touched(*cidr, &facts) else {
                    refused.push(Refused {
                        why: format!(
                            "podCIDR {cidr} is too large a part of subnet {subnet} to be \
                             recorded: delete this Node and let it join without \
                             spec.podCIDR"
                        ),
                        usable: false,
                        passing: false,
                    });
                    continue;
                };
                let missing = units.iter().copied().filter(|unit| !has.contains(unit)).collect();
                refused.extend(
                    self.claim_units(ledger, &subnet, container, &owner, *cidr, missing)
                        .await?,
                );
                in_use.extend(units);
            }
            let unused = unused(&in_use, &held);
            if !unused.is_empty() {
                ledger.release(&subnet, &owner, Some(unused)).await?;
            }
        }
        Ok(refused)
    }

    /// All at once if that can be, else each that can be had.
    async fn claim_units(
        &self,
        ledger: &Ledger,
        subnet: &str,
        container: &ContainerRef,
        owner: &Owner,
        cidr: Prefix,
        units: Vec<Prefix>,
    ) -> Result<Vec<Refused>, Failure> {
        if units.is_empty() {
            return Ok(Vec::new());
        }
        let lease = named(container, &cidr.to_string());
        if units.len() > 1 && ledger.claim(subnet, owner, lease, units.clone()).await?.is_ok() {
            return Ok(Vec::new());
        }
        let mut refused = Vec::new();
        for unit in units {
            if let Err(refusal) = ledger.claim(subnet, owner, lease, vec![unit]).await? {
                let owned = refusal.error == ClaimError::Owned;
                refused.push(Refused {
                    why: format!(
                        "podCIDR {cidr}: {refusal} in subnet {subnet}: delete this Node and let \
                         it join without spec.podCIDR, or change the Subnet"
                    ),
                    usable: !owned || self.is_shared(ledger, subnet, unit, cidr).await?,
                    passing: owned,
                });
            }
        }
        Ok(refused)
    }

    /// Whether who owns the unit has another part of it: podCIDRs that are shorter than a unit lie
    /// in it side by side.
    async fn is_shared(
        &self,
        ledger: &Ledger,
        subnet: &str,
        unit: Prefix,
        cidr: Prefix,
    ) -> Result<bool, Failure> {
        let Some(tenure) = ledger.owner_of(subnet, unit).await? else {
            return Ok(false);
        };
        let node = self.index().node(tenure.owner.name());
        let node = node.filter(|node| node.uid == tenure.owner.uid());
        Ok(node.is_some_and(|node| is_elsewhere(&node, cidr)))
    }
}

pub(super) fn named(container: &ContainerRef, name: &str) -> LeaseId {
    Uuid::new_v5(&container.id(), name.as_bytes())
}
