//! One subnet: what it can still give, and what its nodes were promised.

use std::sync::Arc;

use indexmap::IndexSet;

use crate::facts::SubnetFacts;

/// What one node adds to the sums of its subnet. [`SubnetEntry`] keeps the sum of all nodes, so
/// that an event costs the same however many nodes there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Addresses that the subnet has given to the node.
    pub listed: u128,
    /// Pods on the node that still need an address from the subnet.
    pub deficit: u128,
    /// More pods that the leases of the node are enough for.
    pub spare: u128,
    /// More pods that its blocks or podCIDRs are enough for: no other node can have these.
    pub fixed: u128,
    /// More pods after `spare`, up to the maximum of the node.
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

    /// Subtracts what was added before.
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
    /// `None`: there is no such Subnet, or it is not for pods. Then it gives nothing.
    pub facts: Option<SubnetFacts>,
    pub sum: Share,
    pub nodes: u64,
    /// Nodes that refused a pod for want of an address of this subnet.
    pub refused: IndexSet<Arc<str>>,
}

impl SubnetEntry {
    pub fn is_unused(&self) -> bool {
        self.facts.is_none() && self.nodes == 0
    }

    /// Addresses that no node has. The Subnet's status may be older or younger than the
    /// NodeNetworkConfigs: an address that moves between them counts as given in both cases.
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

    /// The balance if the share of a node were `real` instead of `counted`.
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
    /// From addresses that no node has.
    pub pool: u128,
    /// From those and the spare addresses of nodes. An agent may give back an address just before a
    /// pod comes that was promised it, and another agent may fetch it. That agent then has one to
    /// spare, gives it back because the subnet is full, and the pod gets it.
    pub room: u128,
}

pub fn saturated(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
