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
    /// Pods that what the node has is still enough for.
    pub spare: u128,
    /// Pods beyond those that the node may have at most.
    pub beyond: u128,
}

impl Share {
    pub fn add(&mut self, other: Self) {
        self.listed += other.listed;
        self.deficit += other.deficit;
        self.spare += other.spare;
        self.beyond += other.beyond;
    }

    /// Of what was added before.
    pub fn subtract(&mut self, other: Self) {
        self.listed -= other.listed;
        self.deficit -= other.deficit;
        self.spare -= other.spare;
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

    /// What is left of that when every bound pod has one.
    pub fn pool(&self) -> u128 {
        self.available().saturating_sub(self.sum.deficit)
    }

    /// The same for a node whose own part in the deficit is not `counted` but `real`.
    pub fn can_give(&self, counted: u64, real: u64) -> u64 {
        let deficit = self.sum.deficit - u128::from(counted) + u128::from(real);
        saturated(self.available().saturating_sub(deficit))
    }

    /// How many more pods can start on its nodes.
    pub fn pods_that_fit(&self) -> u64 {
        saturated(self.sum.spare + self.pool().min(self.sum.beyond))
    }
}

pub fn saturated(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
