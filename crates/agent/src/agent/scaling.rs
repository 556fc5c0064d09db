//! What the agent reads from the cluster, and what it writes to it.

use berth_api::{ClusterSubnetState, NodeNetworkConfig, ObservedPod};
use tracing::{info, warn};

use super::{Agent, Inside};
use crate::cluster::{PodFacts, PodKey, Request, key_of};
use crate::pool::Delivered;
use crate::scale::{request, step};

impl Agent {
    pub fn apply_nnc(&self, nnc: &NodeNetworkConfig) {
        let mut inside = self.shared.inside.lock();
        if inside.cluster.apply_nnc(nnc) {
            self.deliver_nnc(&mut inside);
        }
    }

    /// The NodeNetworkConfig that a restarted watch lists.
    pub fn reset_nnc(&self, nnc: &NodeNetworkConfig) {
        let mut inside = self.shared.inside.lock();
        inside.cluster.reset_nnc(nnc);
        self.deliver_nnc(&mut inside);
    }

    fn deliver_nnc(&self, inside: &mut Inside) {
        let Some(nnc) = &inside.cluster.nnc else {
            return;
        };
        let delivered = nnc.delivered.clone();
        if !delivered.left_out.is_empty() {
            warn!(left_out = ?delivered.left_out, "cannot use parts of the NodeNetworkConfig; \
                                                   ignoring them");
        }
        inside.pool.deliver(&delivered);
        self.changed(inside);
    }

    /// The NodeNetworkConfig was deleted. Its addresses are not given out until the next one lists
    /// them again; pods keep theirs.
    pub fn delete_nnc(&self) {
        let mut inside = self.shared.inside.lock();
        if inside.cluster.nnc.is_some() {
            warn!(
                node = self.node(),
                "the NodeNetworkConfig was deleted; pods keep their addresses, new pods get none"
            );
            inside.cluster.delete_nnc();
            inside.pool.deliver(&Delivered::nothing());
            self.changed(&mut inside);
        }
    }

    pub fn apply_pod(&self, pod: &ObservedPod) {
        let mut inside = self.shared.inside.lock();
        inside.cluster.pods.insert(key_of(pod), PodFacts::of(pod));
        self.changed(&mut inside);
    }

    pub fn delete_pod(&self, pod: &PodKey) {
        let mut inside = self.shared.inside.lock();
        inside.cluster.pods.remove(pod);
        self.changed(&mut inside);
    }

    /// Takes the full list of pods: from now on their number can be relied on.
    pub fn set_pods(&self, pods: &[ObservedPod]) {
        let mut inside = self.shared.inside.lock();
        inside.cluster.pods = pods.iter().map(|pod| (key_of(pod), PodFacts::of(pod))).collect();
        inside.cluster.pods_known = true;
        self.changed(&mut inside);
    }

    pub fn pods(&self) -> Option<std::collections::BTreeMap<PodKey, PodFacts>> {
        let inside = self.shared.inside.lock();
        inside.cluster.pods_known.then(|| inside.cluster.pods.clone())
    }

    pub fn apply_state(&self, state: &ClusterSubnetState) {
        let mut inside = self.shared.inside.lock();
        inside.cluster.apply_state(state);
        self.changed(&mut inside);
    }

    pub fn delete_state(&self, subnet: &str) {
        let mut inside = self.shared.inside.lock();
        inside.cluster.delete_state(subnet);
        self.changed(&mut inside);
    }

    pub fn set_states(&self, states: &[ClusterSubnetState]) {
        let mut inside = self.shared.inside.lock();
        inside.cluster.set_states(states);
        self.changed(&mut inside);
    }

    /// Returns once the node's container and its pods have been seen. The container may be empty.
    pub async fn wait_until_supplied(&self) {
        loop {
            let changed = self.shared.came_free.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            {
                let inside = self.shared.inside.lock();
                let has_container = inside
                    .cluster
                    .nnc
                    .as_ref()
                    .is_some_and(|nnc| !nnc.delivered.containers.is_empty());
                if has_container && inside.cluster.pods_known {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Returns when something has changed that the next write may depend on.
    pub async fn wait_for_change(&self) {
        self.shared.changed.notified().await;
    }

    /// What is to be written to the spec now, if anything is.
    ///
    /// Addresses to give back are first marked in the journal, then named in a write. Whatever
    /// becomes of the write, no pod gets them any more, and the next write names the same ones.
    pub fn next_request(&self) -> Option<Request> {
        let now = self.now();
        let mut inside = self.shared.inside.lock();
        inside.prune_refused_adds(now);
        let Some(step) = step(&inside.pool, &inside.cluster, inside.refused_adds()) else {
            return self.report_held(&inside);
        };
        inside.demand = step.demand;
        self.shared.metrics.scaled(step.demand, step.requested);
        let releasing = inside.pool.plan_releasing(step.release, now);
        if !releasing.is_empty() {
            // If the disk is full, the next call tries again. Free addresses stay free.
            inside.commit(&releasing, now).ok()?;
        }
        let nnc = inside.cluster.nnc.as_ref()?;
        let is_misnamed = inside.pool.misnamed(&nnc.not_in_use).next().is_some();
        let held = inside.pool.held_beyond();
        let request = request(nnc, step.requested, inside.pool.releasing(), is_misnamed, held)?;
        let released = request.not_in_use.len();
        info!(
            node = self.node(),
            demand = step.demand,
            requested = request.requested,
            released,
            "requesting addresses"
        );
        Some(request)
    }

    /// Reports held addresses even while the agent can't ask for any: no other node may get
    /// addresses that pods have here.
    fn report_held(&self, inside: &Inside) -> Option<Request> {
        let nnc = inside.cluster.nnc.as_ref()?;
        let held = inside.pool.held_beyond();
        (held != nnc.held).then(|| Request {
            uid: nnc.delivered.uid.clone(),
            requested: nnc.requested,
            not_in_use: nnc.not_in_use.clone(),
            held,
        })
    }

    pub fn record_write(&self, request: &Request, answer: &NodeNetworkConfig) {
        self.shared.inside.lock().cluster.record_write(request, answer);
    }
}
