//! Asks the allocator, and says in the status what came of it.

use berth_api::nnc::NetworkContainer;
use berth_api::subnet::Use;
use berth_api::{NodeNetworkConfig, NodeNetworkConfigStatus};
use uuid::Uuid;

use super::decide::{Wish, first_version, is_explained};
use super::status::{container_in, with_container, without_container, without_subnet};
use crate::allocator::{AllocatorError, Container, ContainerRef};
use crate::controllers::{Failure, Need, Nodes, View};
use crate::node;

/// What the status is to be, and what a person should know of it.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub status: NodeNetworkConfigStatus,
    pub complaints: Vec<Complaint>,
}

#[derive(Debug)]
pub(crate) struct Complaint {
    pub reason: &'static str,
    pub note: String,
    /// The node can't be used at all: then it is said of it, too.
    pub about_node: bool,
    /// To be said even though the status stays as it is.
    pub is_new: bool,
}

impl From<NodeNetworkConfigStatus> for Proposal {
    fn from(status: NodeNetworkConfigStatus) -> Self {
        Self {
            status,
            complaints: Vec::new(),
        }
    }
}

/// The subnet that the container is in, or is to be in. A container stays where it is, whatever
/// subnet the node would be given now.
pub(crate) fn home<'a>(
    config: &'a NodeNetworkConfig,
    view: &'a View,
    container: Uuid,
) -> Option<&'a str> {
    let had = container_in(config.status.as_ref(), &container.to_string());
    let home = had.map(|had| had.subnet_name.as_str());
    home.or(view.pods.as_deref())
}

impl Nodes {
    /// The status with the container for pods.
    pub(crate) async fn with_pods(
        &self,
        name: &str,
        view: &View,
        node: &node::Facts,
        config: &NodeNetworkConfig,
        now: NodeNetworkConfigStatus,
    ) -> Result<Proposal, Failure> {
        let container = self.context.container(name, &node.uid);
        let id = container.id();
        let subnet = match home(config, view, id) {
            Some(home) => home.to_owned(),
            None => return Ok(homeless(view, now)),
        };
        let subnet = match container_in(config.status.as_ref(), &id.to_string()) {
            Some(_) => subnet,
            None => self.earlier_home(subnet, &container).await?,
        };
        self.take_over(name, &subnet, &container, node).await?;
        self.claim_what_it_has(&subnet, &container, config).await?;
        match container_in(config.status.as_ref(), &id.to_string()) {
            Some(had) => self.update(name, &subnet, &container, node, config, had, now).await,
            None => self.make(name, &subnet, &container, node, config, now).await,
        }
    }

    /// A config that is made again gets the container where the node has it, whatever subnet it
    /// would be given now.
    async fn earlier_home(
        &self,
        subnet: String,
        container: &ContainerRef,
    ) -> Result<String, Failure> {
        let others = self.index().subnets_for(Use::Pods);
        let primary = container.primary().map_err(AllocatorError::from)?;
        for (other, facts) in others {
            if other != subnet && facts.serving {
                match self.context.allocator.held(&other, &primary).await {
                    Ok(held) if !held.is_empty() => return Ok(other),
                    Ok(_) | Err(AllocatorError::NoSubnet { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(subnet)
    }

    async fn make(
        &self,
        name: &str,
        subnet: &str,
        container: &ContainerRef,
        node: &node::Facts,
        config: &NodeNetworkConfig,
        now: NodeNetworkConfigStatus,
    ) -> Result<Proposal, Failure> {
        let facts = self.index().subnet(subnet);
        let made = if self.turnstile.may_ask(subnet, name, Need::Start) {
            self.context.allocator.create(subnet, container).await
        } else {
            let subnet = subnet.to_owned();
            Err(AllocatorError::SubnetFull { subnet })
        };
        let mut made = match made {
            Err(AllocatorError::SubnetFull { .. }) => {
                let before = self.turnstile.join(subnet, name, Need::Start);
                let note = format!(
                    "subnet {subnet} has no address left for this node's network container: it \
                     gets one as soon as another node gives one \
                     back, or at once when a CIDR is appended to spec.cidrs of the Subnet"
                );
                return Ok(Proposal {
                    status: without_container(&now, facts.as_deref()),
                    complaints: vec![Complaint {
                        reason: "SubnetFull",
                        note,
                        about_node: true,
                        is_new: before.is_some_and(|before| before != Need::Start),
                    }],
                });
            }
            made => made?,
        };
        self.turnstile.leave(subnet, name);
        if self.gives_up_primary(subnet, container, &made).await? {
            return Err(contended(name));
        }
        if !made.secondaries.is_empty() {
            // It was there, and the config did not know of it: what it has must be looked for in
            // the store.
            let found = self.context.allocator.get(subnet, container).await?;
            made = found.ok_or_else(|| contended(name))?;
        }
        Ok(propose(now, &made, facts.as_deref(), node, first_version(config)))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "all that one decision is made of, in one place"
    )]
    async fn update(
        &self,
        name: &str,
        subnet: &str,
        container: &ContainerRef,
        node: &node::Facts,
        config: &NodeNetworkConfig,
        had: &NetworkContainer,
        now: NodeNetworkConfigStatus,
    ) -> Result<Proposal, Failure> {
        let facts = self.index().subnet(subnet);
        let most = facts.as_deref().map(|facts| facts.scaler.max_ip_count);
        let most = most.or(now.scaler.map(|scaler| scaler.max_ip_count));
        let mut wish = Wish::of(config, had, container.id(), most);
        let moved = self.keep_what_pods_show(subnet, container, had, &mut wish).await?;
        let growth = wish.growth;
        // What is given back goes back at once; only for more must it wait for its turn.
        let waits = growth > 0 && !self.turnstile.may_ask(subnet, name, Need::More(growth));
        let wish = if waits { wish.without_growth() } else { wish };
        let mut answer = match self.context.allocator.update(subnet, container, wish.update()).await
        {
            Err(AllocatorError::NoSubnet { .. }) if facts.is_none() => {
                return Ok(orphaned(subnet, had, &now));
            }
            answer => answer?,
        };
        let short = if waits { growth } else { answer.short };
        let taken = self.give_up_what_pods_show(subnet, container, had, &answer).await?;
        if taken {
            // What is missing now it asks for again.
            self.index().look_at(name);
            self.queue.add(name.to_owned());
        }
        if moved || taken || !is_explained(had, &wish, &answer) {
            answer = match self.context.allocator.get(subnet, container).await? {
                Some(found) => found,
                // Nothing of it is held any more: somebody has given all of it back. It begins
                // anew, if there is an address.
                None => return self.make(name, subnet, container, node, config, now).await,
            };
        }
        answer.short = short;
        let before = if short > 0 {
            self.turnstile.join(subnet, name, Need::More(short))
        } else {
            self.turnstile.leave(subnet, name);
            None
        };
        let mut proposal = propose(now, &answer, facts.as_deref(), node, had.version);
        let asked = config.spec.requested_ip_count;
        if let Some(most) = most.filter(|most| asked > *most) {
            let note = format!(
                "spec.requestedIPCount: {asked} is more than the {most} that a node may have, and \
                 counts as {most}: ask for at most that, or raise \
                 scaler.maxIPCount of Subnet {subnet}"
            );
            proposal.complaints.push(Complaint {
                reason: "TooManyRequested",
                note,
                about_node: false,
                is_new: false,
            });
        }
        if short > 0 {
            let asked = most.map_or(asked, |most| asked.min(most));
            let note = format!(
                "subnet {subnet} is full: {short} of the {asked} addresses that the node asks for \
                 are missing; they come as soon as others are \
                 given back, or at once when a CIDR is appended to spec.cidrs of the Subnet"
            );
            proposal.complaints.push(Complaint {
                reason: "SubnetFull",
                note,
                about_node: false,
                is_new: before.is_some_and(|before| before != Need::More(short)),
            });
        }
        Ok(proposal)
    }
}

fn contended(name: &str) -> Failure {
    Failure::Contended {
        object: format!("network container of node {name}"),
    }
}

fn propose(
    now: NodeNetworkConfigStatus,
    container: &Container,
    subnet: Option<&crate::subnet::Facts>,
    node: &node::Facts,
    first_version: i64,
) -> Proposal {
    if let Some(status) = with_container(&now, container, subnet, node, first_version) {
        return status.into();
    }
    let note = format!(
        "no CIDR in spec.cidrs of Subnet {} holds the address that the ledger gave: put back the \
         CIDRs that it was created with",
        container.subnet
    );
    Proposal {
        status: now,
        complaints: vec![Complaint {
            reason: "SubnetChanged",
            note,
            about_node: true,
            is_new: true,
        }],
    }
}

fn homeless(view: &View, now: NodeNetworkConfigStatus) -> Proposal {
    // A node that has its podCIDR needs no other addresses.
    let complaint = view.node_cidrs.is_none().then(|| Complaint {
        reason: "NoSubnet",
        note: "no Subnet with use: pods takes this node: create one, or label the node so that \
               the nodeSelector of one matches"
            .to_owned(),
        about_node: false,
        is_new: true,
    });
    Proposal {
        status: now,
        complaints: complaint.into_iter().collect(),
    }
}

fn orphaned(subnet: &str, had: &NetworkContainer, now: &NodeNetworkConfigStatus) -> Proposal {
    let note = format!(
        "there is no Subnet {subnet} any more: the node keeps the addresses it has and gets no \
         others; create the Subnet again with the same cidrs"
    );
    Proposal {
        status: without_subnet(now, &had.id),
        complaints: vec![Complaint {
            reason: "SubnetGone",
            note,
            about_node: false,
            is_new: false,
        }],
    }
}
