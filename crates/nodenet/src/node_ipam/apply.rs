//! Leases or records podCIDRs, and writes them to the Node.

use std::collections::BTreeMap;

use berth_addr::{ClaimError, Prefix};
use berth_api::NodeNetworkConfigStatus;
use berth_api::subnet::Use;
use berth_ledger::{LeaseId, Ledger};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use uuid::Uuid;

use super::decide::{Placed, difference, placed, with_overlay};
use crate::allocator::{AllocatorError, ContainerRef};
use crate::controllers::{Failure, Nodes, View, is_conflict, is_gone};
use crate::node;

/// Under which podCIDRs are written to Nodes.
const FIELD_MANAGER: &str = "berth-node-ipam";

impl Nodes {
    /// The status with the container for the node's podCIDRs, if it has any.
    pub(crate) async fn with_pod_cidr(
        &self,
        name: &str,
        view: &View,
        node: &node::Facts,
        now: NodeNetworkConfigStatus,
    ) -> Result<NodeNetworkConfigStatus, Failure> {
        let (Some(ledger), Some(subnet)) = (&self.context.ledger, &view.node_cidrs) else {
            return Ok(now);
        };
        let container = self.context.container(name, &node.uid);
        if node.pod_cidrs.is_empty() {
            // Once they are written the watch tells, and they are recorded like any others.
            self.give_cidrs(name, subnet, ledger, &container, node).await?;
            return Ok(now);
        }
        self.turnstile.leave(subnet, name);
        let subnets = self.index().subnets_for(Use::NodeCidrs);
        let placed = placed(node, &subnets);
        match self.record(name, ledger, &container, &placed).await? {
            true => Ok(with_overlay(&now, container.id(), &placed, node)),
            false => Ok(now),
        }
    }

    async fn give_cidrs(
        &self,
        name: &str,
        subnet: &str,
        ledger: &Ledger,
        container: &ContainerRef,
        node: &node::Facts,
    ) -> Result<(), Failure> {
        let owner = container.node_cidr().map_err(AllocatorError::from)?;
        let mut units = Vec::new();
        if self.turnstile.may_ask(subnet, name) {
            let lease = vec![named(container, "node-cidr")];
            let grant = ledger.lease(subnet, &owner, lease, None).await?;
            units.extend(grant.leases.into_iter().flat_map(|lease| lease.units));
        }
        if units.is_empty() {
            if self.turnstile.join(subnet, name, 1).is_none() {
                let note = format!(
                    "subnet {subnet} has no podCIDR left for this node: it gets one as soon as another node gives one back, or at once when a CIDR \
                     is appended to spec.cidrs of the Subnet"
                );
                self.context
                    .warn(&node::reference(name, &node.uid), "SubnetFull", "AllocateCIDR", note);
            }
            return Ok(());
        }
        self.turnstile.leave(subnet, name);
        let units: Vec<String> = units.iter().map(Prefix::to_string).collect();
        // Of this very node, and only where there is none: the API server refuses to change those that are set.
        let patch = json!({
            "metadata": {"uid": node.uid},
            "spec": {"podCIDR": units.first(), "podCIDRs": units},
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        match self.context.nodes().patch(name, &params, &Patch::Merge(patch)).await {
            // It is another node, or somebody else has set them: the watch will tell.
            Err(error) if is_conflict(&error) || is_gone(&error) || is_refused(&error) => {
                let object = format!("Node {name}");
                Err(Failure::Contended { object })
            }
            patched => Ok(patched.map(drop)?),
        }
    }

    /// Whether the node may use what it has. Not when it is another's: that is said, and nothing else happens until one of the two changes.
    async fn record(
        &self,
        name: &str,
        ledger: &Ledger,
        container: &ContainerRef,
        placed: &[Placed],
    ) -> Result<bool, Failure> {
        let owner = container.node_cidr().map_err(AllocatorError::from)?;
        let complain = |note: String| {
            let node = node::reference(name, &container.uid);
            self.context.warn(&node, "PodCIDRNotRecorded", "AllocateCIDR", note);
        };
        let mut by_subnet: BTreeMap<&str, Vec<Prefix>> = BTreeMap::new();
        for Placed { cidr, subnet } in placed {
            match subnet {
                Some((subnet, _)) => by_subnet.entry(subnet).or_default().push(*cidr),
                None => complain(format!(
                    "podCIDR {cidr} is in no Subnet with use: node-cidrs, so nothing keeps others from it: append a CIDR that holds it to one"
                )),
            }
        }
        let mut usable = true;
        for (subnet, cidrs) in by_subnet {
            let held = ledger.held(subnet, &owner).await?;
            let difference = difference(&cidrs, &held);
            for cidr in difference.claim {
                let lease = named(container, &cidr.to_string());
                if let Err(refusal) = ledger.claim(subnet, &owner, lease, vec![cidr]).await? {
                    usable &= refusal.error != ClaimError::Owned;
                    complain(format!(
                        "podCIDR {refusal} in subnet {subnet}: delete this Node and let it join without spec.podCIDR, or change the Subnet"
                    ));
                }
            }
            if !difference.release.is_empty() {
                ledger.release(subnet, &owner, Some(difference.release)).await?;
            }
        }
        Ok(usable)
    }

    /// All podCIDRs of a node that is gone. As long as it is there it has them: they can't be taken off a Node.
    pub(crate) async fn give_back_cidrs(&self, container: &ContainerRef) -> Result<(), Failure> {
        let Some(ledger) = &self.context.ledger else {
            return Ok(());
        };
        let owner = container.node_cidr().map_err(AllocatorError::from)?;
        let subnets = self.index().subnets_for(Use::NodeCidrs);
        for (subnet, _) in subnets.into_iter().filter(|(_, facts)| facts.serving) {
            let held = ledger.held(&subnet, &owner).await?;
            if !held.is_empty() && !self.is_there(&container.node, &container.uid).await? {
                ledger.release(&subnet, &owner, None).await?;
            }
        }
        Ok(())
    }
}

fn named(container: &ContainerRef, name: &str) -> LeaseId {
    Uuid::new_v5(&container.id(), name.as_bytes())
}

fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}
