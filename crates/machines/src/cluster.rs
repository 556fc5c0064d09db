//! The cluster controller: machine IPAM for every Cluster whose machines have networks.
//!
//! In the seed cluster, in the Cluster's own namespace: a Deployment of `berth machine-ipam` that
//! has the user cluster's kubeconfig, and a ServiceAccount with no rights and no token. In the user
//! cluster: our CRDs, what machine IPAM may do there, and the gate. A Cluster without networks has
//! none of it, and no gate.
//!
//! Everything in the seed cluster belongs to the Cluster, and goes with it.

mod manifests;
mod reconcile;

use std::fmt;

use berth_kit::events::EventMetrics;
use berth_kit::queue::QueueMetrics;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::webhook::Webhook;

pub use berth_api::machines::cluster::{ClusterError, appended, networks, resource};
pub use manifests::{NETWORKS, seed_manifests, user_manifests};
pub use reconcile::run;

/// Where the user cluster's kubeconfig is, in the Cluster's namespace.
pub const KUBECONFIG_SECRET: &str = "admin-kubeconfig";
pub const KUBECONFIG_KEY: &str = "kubeconfig";

#[derive(Clone)]
pub struct Options {
    /// A client of the seed cluster.
    pub client: Client,
    /// The image with `berth` in it.
    pub image: String,
    /// The gate of user clusters whose API server has no MutatingAdmissionPolicy.
    pub webhook: Option<Webhook>,
    pub queues: QueueMetrics,
    pub events: EventMetrics,
    pub instance: Option<String>,
    pub stop: CancellationToken,
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Options")
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}
