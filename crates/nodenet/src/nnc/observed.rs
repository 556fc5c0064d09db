//! What the agent and the node's pods say, against what the ledger and the config do: nobody takes
//! an address from under a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_api::NodeNetworkConfig;
use berth_api::nnc::NetworkContainer;
use berth_ledger::{Claim, Claimed, Lease, Owner};
use tracing::{info, warn};

use super::assignments::leases_by_name;
use super::decide::Wish;
use crate::allocator::{AllocatorError, Container, ContainerRef};
use crate::claims::{Holding, held_beyond, of_pod};
use crate::controllers::{Failure, Nodes};
use crate::node;
use crate::pods::Address;

impl Nodes {
    /// What the agent holds, or a pod on the node shows, although the config does not list it: it
    /// is the node's, if nobody else has it.
    pub(super) async fn claim_what_it_has(
        &self,
        subnet: &str,
        nc: &ContainerRef,
        config: &NodeNetworkConfig,
    ) -> Result<(), Failure> {
        let listed: BTreeSet<IpAddr> = listed(config).collect();
        let mut holdings = held_beyond(config, nc);
        let shown = self.pods().on_node(&nc.node);
        holdings.extend(shown.iter().map(|shown| of_pod(shown, nc)));
        self.review_conflicts(subnet, nc, &listed, &holdings);
        holdings.retain(|holding| !listed.contains(&holding.unit.first()));
        let mut units = BTreeSet::new();
        holdings.retain(|holding| units.insert(holding.unit));
        let mut by_subnet: BTreeMap<String, Vec<Holding>> = BTreeMap::new();
        for holding in holdings {
            if let Some(of) = self.index().pods_subnet_of(holding.unit.first()) {
                by_subnet.entry(of).or_default().push(holding);
            }
        }
        for (subnet, holdings) in by_subnet {
            self.claim_of(&subnet, nc, &holdings).await?;
        }
        Ok(())
    }

    /// A conflict is over when this node does not have the address any more.
    fn review_conflicts(
        &self,
        subnet: &str,
        nc: &ContainerRef,
        listed: &BTreeSet<IpAddr>,
        holdings: &[Holding],
    ) {
        let has = |address: IpAddr| {
            listed.contains(&address)
                || holdings.iter().any(|holding| holding.unit.first() == address)
        };
        let conflicts = self.claims().conflicts_of(subnet, &nc.node);
        if conflicts.iter().any(|unit| !has(unit.first())) {
            self.claims().request(subnet);
        }
    }

    async fn claim_of(
        &self,
        subnet: &str,
        nc: &ContainerRef,
        holdings: &[Holding],
    ) -> Result<(), Failure> {
        let claims = |from: &dyn Fn(usize) -> Option<Owner>| {
            let each = holdings.iter().enumerate().map(|(n, holding)| holding.claim(from(n)));
            each.collect::<Result<Vec<Claim>, _>>().map_err(AllocatorError::from)
        };
        let registry = &self.context.allocator;
        let claimed = match registry.restore(subnet, claims(&|_| None)?).await {
            // It comes back when the Subnet does.
            Err(AllocatorError::NoSubnet { .. }) => return Ok(()),
            claimed => claimed?,
        };
        let mut earlier: BTreeMap<usize, Owner> = BTreeMap::new();
        for (n, (holding, claimed)) in holdings.iter().zip(&claimed).enumerate() {
            match claimed {
                Claimed::Taken => info!(subnet, node = nc.node, unit = %holding.unit, "claimed \
                                                                                       what the \
                                                                                       node has"),
                // A Node of this name that is no more: there is only one of a name.
                Claimed::Owned(tenure) if self.is_predecessor(&tenure.owner, nc) => {
                    earlier.insert(n, tenure.owner.clone());
                }
                // Which of the two has it, a pass finds out, with nothing else going on.
                Claimed::Owned(_) if !self.claims().is_in_conflict(subnet, holding.unit) => {
                    self.claims().request(subnet);
                }
                _ => {}
            }
        }
        if !earlier.is_empty() {
            let moves = claims(&|n| earlier.get(&n).cloned())?;
            registry.restore(subnet, moves).await?;
        }
        Ok(())
    }

    fn is_predecessor(&self, owner: &Owner, nc: &ContainerRef) -> bool {
        owner.cluster() == nc.cluster && owner.name() == nc.node && owner.uid() != nc.uid
    }

    /// A Node that was registered again on its machine: all that it had is its own, under the names
    /// that its agent knows.
    pub(super) async fn take_over(
        &self,
        name: &str,
        subnet: &str,
        nc: &ContainerRef,
        node: &node::Facts,
    ) -> Result<(), Failure> {
        let Some(uid) = self.index().predecessor(name, node) else {
            return Ok(());
        };
        let before = self.context.container(name, &uid);
        let registry = &self.context.allocator;
        let mut count = 0;
        for (from, to, is_primary) in [
            (before.primary(), nc.primary(), true),
            (before.secondary(), nc.secondary(), false),
        ] {
            let (from, to) =
                (from.map_err(AllocatorError::from)?, to.map_err(AllocatorError::from)?);
            let held = match registry.held(subnet, &from).await {
                Err(AllocatorError::NoSubnet { .. }) => return Ok(()),
                held => held?,
            };
            // The Node may have been served before it said which machine it is: it needs no second
            // address of its own, and reclaim takes the first one.
            if is_primary && !registry.held(subnet, &to).await?.is_empty() {
                continue;
            }
            let claim = |lease: &Lease| {
                // A container's own address goes by the container's id.
                let id = if is_primary { nc.id() } else { lease.id };
                let each = lease.units.iter().map(|unit| Claim {
                    unit: *unit,
                    owner: to.clone(),
                    lease: id,
                    from: Some(from.clone()),
                });
                each.collect::<Vec<Claim>>()
            };
            let claims: Vec<Claim> = held.iter().flat_map(claim).collect();
            count += claims.len();
            registry.restore(subnet, claims).await?;
        }
        if count > 0 {
            info!(
                subnet,
                node = name,
                count,
                "the Node is back on its machine and keeps its addresses"
            );
        }
        self.index().succeeded(name);
        Ok(())
    }

    /// Of what is given back, that which a living pod on this node shows is not taken: the agent,
    /// or whoever wrote it, is wrong, or the pod is just being removed. What a pod on another node
    /// shows goes to that node. Whether anything did.
    pub(super) async fn keep_what_pods_show(
        &self,
        subnet: &str,
        nc: &ContainerRef,
        had: &NetworkContainer,
        wish: &mut Wish,
    ) -> Result<bool, Failure> {
        if wish.give_back.is_empty() {
            return Ok(false);
        }
        let mut others: Vec<Address> = Vec::new();
        let leases = leases_by_name(&had.ip_assignments);
        for assignment in &had.ip_assignments {
            let lease = leases.get(assignment.name.as_str());
            let lease = lease.copied().filter(|lease| wish.give_back.contains(lease));
            let (Some(lease), Ok(address)) = (lease, assignment.ip.parse()) else {
                continue;
            };
            let shown = self.pods().of_address(address);
            if shown.iter().any(|shown| shown.node == nc.node) {
                self.claims().withhold(address, &nc.node);
                wish.give_back.remove(&lease);
            } else {
                others.extend(shown.into_iter().next());
            }
        }
        let owner = nc.secondary().map_err(AllocatorError::from)?;
        self.move_to_pods(subnet, &owner, others).await
    }

    /// The last net: what was leased just now and a living pod on another node shows goes to that
    /// node. Whether anything did.
    pub(super) async fn give_up_what_pods_show(
        &self,
        subnet: &str,
        nc: &ContainerRef,
        had: &NetworkContainer,
        answer: &Container,
    ) -> Result<bool, Failure> {
        let before: BTreeSet<&str> = had.ip_assignments.iter().map(|one| one.ip.as_str()).collect();
        let units = answer.secondaries.iter().flat_map(|secondary| &secondary.units);
        let shown = {
            let pods = self.pods();
            let new = units.filter(|unit| !before.contains(unit.first().to_string().as_str()));
            let shown = new.filter_map(|unit| {
                let shown = pods.of_address(unit.first());
                let own = shown.iter().any(|shown| shown.node == nc.node);
                shown.into_iter().find(|_| !own)
            });
            shown.collect::<Vec<Address>>()
        };
        let owner = nc.secondary().map_err(AllocatorError::from)?;
        self.move_to_pods(subnet, &owner, shown).await
    }

    /// The same for a container's own address.
    pub(super) async fn gives_up_primary(
        &self,
        subnet: &str,
        nc: &ContainerRef,
        made: &Container,
    ) -> Result<bool, Failure> {
        let shown =
            |unit: &berth_addr::Prefix| self.pods().of_address(unit.first()).into_iter().next();
        let shown: Vec<Address> = made.primary.iter().filter_map(shown).collect();
        let owner = nc.primary().map_err(AllocatorError::from)?;
        self.move_to_pods(subnet, &owner, shown).await
    }

    async fn move_to_pods(
        &self,
        subnet: &str,
        owner: &Owner,
        shown: Vec<Address>,
    ) -> Result<bool, Failure> {
        let mut moved = false;
        for shown in shown {
            // The watch may be behind: the pod may be gone.
            if !self.pod_shows(&shown.pod, shown.address).await? {
                continue;
            }
            let nc = self.nc_of(&shown.node);
            let claim = of_pod(&shown, &nc)
                .claim(Some(owner.clone()))
                .map_err(AllocatorError::from)?;
            warn!(subnet, address = %shown.address, pod = shown.pod, node = shown.node, "a living \
                                                                                         pod has \
                                                                                         this \
                                                                                         address");
            self.context.allocator.restore(subnet, vec![claim]).await?;
            self.index().look_at(&shown.node);
            self.queue.add(shown.node);
            moved = true;
        }
        Ok(moved)
    }
}

fn listed(config: &NodeNetworkConfig) -> impl Iterator<Item = IpAddr> {
    let containers = config.status.iter().flat_map(|status| &status.network_containers);
    let assignments = containers.flat_map(|container| &container.ip_assignments);
    assignments.filter_map(|assignment| assignment.ip.parse().ok())
}
