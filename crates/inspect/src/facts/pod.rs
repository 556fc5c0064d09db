//! Of a Pod, what its address depends on.

use std::net::IpAddr;

use berth_api::ObservedPod;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use kube::ResourceExt;

/// On the pod that stands in the API for a static one.
const MIRROR: &str = "kubernetes.io/config.mirror";

#[derive(Clone, Debug, Default)]
pub struct PodFacts {
    pub uid: String,
    /// By which its node's runtime knows it: a static pod is shown in the API under another.
    pub sandbox_uid: String,
    /// A controller, such as a ReplicaSet, makes another one when this one is deleted.
    pub is_replaced: bool,
    pub node: Option<String>,
    pub phase: String,
    pub is_on_host_network: bool,
    pub is_deleting: bool,
    pub addresses: Vec<IpAddr>,
    pub created: Option<Timestamp>,
    /// What the scheduler says of a pod that it can't place.
    pub unschedulable: Option<String>,
    /// What its kubelet says of a pod that it can't start, such as `WaitingForAddress`.
    pub waiting: Option<String>,
}

impl PodFacts {
    pub fn of(pod: &ObservedPod) -> Self {
        let condition = |kind: &str| {
            let mut failing = pod.conditions().iter().filter(|one| one.status == "False");
            failing.find(|one| one.type_ == kind).map(said)
        };
        let owners = pod.owner_references();
        let uid = pod.uid().unwrap_or_default();
        Self {
            sandbox_uid: pod.annotations().get(MIRROR).unwrap_or(&uid).clone(),
            uid,
            is_replaced: owners.iter().any(|owner| {
                // A static pod is its Node's, and comes back as it was.
                owner.controller == Some(true) && owner.kind != "Node"
            }),
            node: pod.node().map(str::to_owned),
            phase: pod.phase_name().to_owned(),
            is_on_host_network: pod.is_on_host_network(),
            is_deleting: pod.metadata.deletion_timestamp.is_some(),
            addresses: pod.addresses().collect(),
            created: pod.creation_timestamp().map(|time| time.0),
            unschedulable: condition("PodScheduled"),
            waiting: condition("PodReadyToStartContainers").filter(|said| !said.is_empty()),
        }
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether its address is in use: finished pods have given theirs back.
    pub fn is_living(&self) -> bool {
        !self.is_finished() && !self.is_on_host_network
    }

    /// It is on a node, needs an address and has none.
    pub fn waits_for_address(&self) -> bool {
        self.is_living() && self.node.is_some() && self.addresses.is_empty() && !self.is_deleting
    }
}

fn said(condition: &PodCondition) -> String {
    let message = condition.message.clone().filter(|message| !message.is_empty());
    message.or_else(|| condition.reason.clone()).unwrap_or_default()
}
