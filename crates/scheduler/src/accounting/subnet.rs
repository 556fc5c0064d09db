//! One subnet: what it can still give, and to whom it has promised it.

use std::sync::Arc;

use indexmap::IndexSet;

use crate::facts::SubnetFacts;

/// What one node takes of its subnet's books; the sum of all nodes is kept in [`SubnetEntry`], so
/// that an event costs the same however many nodes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Addresses that the subnet has given to the node.
    pub listed: u128,
    /// Pods on the node that the subnet has still to give an address for.
    pub deficit: u128,
    /// Pods that the leases of the node are still enough for.
    pub spare: u128,
    /// Pods that its blocks or podCIDRs are still enough for: no other node can have these.
    pub fixed: u128,
    /// Pods beyond those that the node may have at most.
    pub beyond: u128,
}

impl Share {
    pub fn add(&mut self, other: Self) {
        self.listed += other.listed;
        self.deficit += other.deficit;
        self.spare += other.spare;
        self.fixed += other.fixed;
        self.beyond += other.beyond;
    }

    /// Of what was added before.
    pub fn subtract(&mut self, other: Self) {
        self.listed -= other.listed;
        self.deficit -= other.deficit;
        self.spare -= other.spare;
        self.fixed -= other.fixed;
        self.beyond -= other.beyond;
    }
}

#[derive(Debug, Default)]
pub struct SubnetEntry {
    /// `None` while there is no such Subnet, or it is not for pods: then it gives nothing.
    pub facts: Option<SubnetFacts>,
    pub sum: Share,
    pub nodes: u64,
    /// Nodes that refused a pod for want of an address of this subnet.
    pub refused: IndexSet<Arc<str>>,
}

impl SubnetEntry {
    pub fn is_forgotten(&self) -> bool {
        self.facts.is_none() && self.nodes == 0
    }

    /// What nobody has. The Subnet's status may be a second older than the NodeNetworkConfigs, or
    /// younger: an address that just went from the one to the other counts as given in either case.
    fn available(&self) -> u128 {
        let Some(facts) = self.facts else {
            return 0;
        };
        let ungiven = u128::from(facts.capacity).saturating_sub(self.sum.listed);
        ungiven.min(facts.available.into())
    }

    pub fn balance(&self) -> Balance {
        self.balance_of(self.sum)
    }

    /// The same for a node whose part in the sum is not `counted` but `real`.
    pub fn balance_with(&self, counted: Share, real: Share) -> Balance {
        let mut sum = self.sum;
        sum.subtract(counted);
        sum.add(real);
        self.balance_of(sum)
    }

    fn balance_of(&self, sum: Share) -> Balance {
        let available = self.available();
        Balance {
            pool: available.saturating_sub(sum.deficit),
            room: (available + sum.spare).saturating_sub(sum.deficit),
        }
    }

    /// How many more pods can start on its nodes.
    pub fn pods_that_fit(&self) -> u64 {
        let shared = self.balance().room.min(self.sum.spare + self.sum.beyond);
        saturated(self.sum.fixed + shared)
    }
}

/// What a subnet has for more pods, when every bound pod has an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Of what nobody has.
    pub pool: u128,
    /// Of that and of what nodes have to spare. An agent may give back an address just before a
    /// pod comes that was promised it, and another agent may fetch it: what that one has to spare
    /// then belongs to the pod, and its agent gives it back, for the subnet is full.
    pub room: u128,
}

pub fn saturated(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
