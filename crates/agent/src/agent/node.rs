//! The agent's own Node, and what the agent reports on it.

use berth_api::ObservedNode;
use tokio::sync::futures::Notified;

use super::Agent;
use crate::availability::{Supply, View};
use crate::node::OwnNode;

impl Agent {
    pub fn apply_node(&self, node: &ObservedNode) {
        self.set_node(Some(OwnNode::read(node)));
    }

    /// `None`: the Node was deleted, and limits nothing.
    pub fn set_node(&self, node: Option<OwnNode>) {
        let mut inside = self.shared.inside.lock();
        if inside.cluster.node != node {
            inside.cluster.node = node;
            self.changed(&mut inside);
        }
    }

    pub fn own_node(&self) -> Option<OwnNode> {
        self.shared.inside.lock().cluster.node.clone()
    }

    /// Resolves when something has changed since it was enabled.
    pub fn changes(&self) -> Notified<'_> {
        self.shared.came_free.notified()
    }

    /// What the node has for the next pod.
    pub fn availability(&self) -> View {
        let now = self.now();
        let mut inside = self.shared.inside.lock();
        let inside = &mut *inside;
        let counts = inside.pool.counts(now, self.shared.rest);
        let free = match inside.pool.can_serve() {
            Ok(()) => counts.free.saturating_add(counts.cooling_down).max(1),
            Err(_) => 0,
        };
        let attached = u64::try_from(inside.pool.holdings().len()).unwrap_or(u64::MAX);
        let unserved = inside.cluster.demand().saturating_sub(attached);
        let refused_adds = inside.refused_adds();
        let held = counts.free.saturating_add(counts.cooling_down);
        let held = held.saturating_add(counts.assigned).saturating_add(counts.quarantined);
        let nnc = inside.cluster.nnc.as_ref();
        let most = nnc.and_then(|nnc| nnc.delivered.scaler.max_ip_count());
        let pods = inside.cluster.most_pods();
        let supply = if !inside.pool.is_scaled() {
            Supply::PodCidr
        } else if let Some(most) = most.filter(|most| held >= *most) {
            Supply::MaxIpCount(most)
        } else if let Some(pods) = pods.filter(|pods| held >= *pods) {
            Supply::AllocatablePods(pods)
        } else if nnc.is_some_and(|nnc| nnc.subnet_is_full) {
            Supply::SubnetFull
        } else {
            Supply::Open
        };
        View {
            has_container: inside.pool.subnets().next().is_some(),
            is_quarantined: inside.pool.is_quarantined(),
            free,
            assigned: counts.assigned,
            waiting: unserved.max(refused_adds),
            supply,
        }
    }
}
