//! How many addresses the node asks for, and which it gives back. Pure.

use std::collections::BTreeSet;

use berth_addr::scaling;
use berth_api::nnc::IpAssignment;

use crate::cluster::{Cluster, NncFacts, Request};
use crate::pool::Pool;

/// One step of the formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub demand: u64,
    pub requested: i64,
    /// How many free leases to give back, besides those already being given back.
    pub release: usize,
}

/// `None` until the NodeNetworkConfig and the pods are known, or when there is nothing to scale.
pub fn step(pool: &Pool, cluster: &Cluster, refused_adds: u64) -> Option<Step> {
    let nnc = cluster.nnc.as_ref()?;
    if !cluster.pods_known || !pool.is_scaled() {
        return None;
    }
    let holding = pool.holding(cluster.demand(), refused_adds);
    let supply = cluster.supply(pool.subnets());
    let scaler = nnc.delivered.scaler;
    // A node has no use for more addresses than it can run pods.
    let scaler = cluster.most_pods().map_or(scaler, |pods| scaler.at_most(pods));
    let step = scaling::reconcile(holding, scaler, supply);
    Some(Step {
        demand: holding.demand,
        requested: i64::try_from(step.requested).unwrap_or(i64::MAX),
        release: usize::try_from(step.release).unwrap_or(usize::MAX),
    })
}

/// The next write, if the spec differs from it. `releasing` are the names that are being given back
/// and are still delivered: every write names all of them. Names that are gone by now do no harm,
/// and the next write leaves them out.
pub fn request(
    nnc: &NncFacts,
    requested: i64,
    releasing: BTreeSet<String>,
    is_misnamed: bool,
    held: Vec<IpAssignment>,
) -> Option<Request> {
    let is_said = nnc.requested == requested
        && releasing.is_subset(&nnc.not_in_use)
        && !is_misnamed
        && nnc.held == held;
    (!is_said).then(|| Request {
        uid: nnc.delivered.uid.clone(),
        requested,
        not_in_use: releasing,
        held,
    })
}
