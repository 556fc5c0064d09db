//! The part of a Pod that its address depends on.

use std::net::IpAddr;

use berth_api::ObservedPod;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodCondition;
use kube::ResourceExt;

/// The annotation of a mirror pod, which shows a static pod in the API.
const MIRROR: &str = "kubernetes.io/config.mirror";

#[derive(Clone, Debug, Default)]
pub struct PodFacts {
    pub uid: String,
    /// The UID that its node's runtime knows: a static pod has another UID in the API.
    pub sandbox_uid: String,
    /// A controller, such as a ReplicaSet, replaces this pod when it is deleted.
    pub is_replaced: bool,
    pub node: Option<String>,
    pub phase: String,
    pub is_on_host_network: bool,
    pub is_deleting: bool,
    pub addresses: Vec<IpAddr>,
    pub created: Option<Timestamp>,
    /// Why the scheduler cannot place the pod.
    pub unschedulable: Option<String>,
    /// Why its kubelet cannot start the pod, such as `WaitingForAddress`.
    pub waiting: Option<String>,
}

impl PodFacts {
    pub fn of(pod: &ObservedPod) -> Self {
        let condition = |kind: &str| {
            let mut failing = pod.conditions().iter().filter(|one| one.status == "False");
            failing.find(|one| one.type_ == kind).map(message_or_reason)
        };
        let owners = pod.owner_references();
        let uid = pod.uid().unwrap_or_default();
        Self {
            sandbox_uid: pod.annotations().get(MIRROR).unwrap_or(&uid).clone(),
            uid,
            is_replaced: owners.iter().any(|owner| {
                // A Node owns its static pods. Deleting one in the API changes nothing on the node.
                owner.controller == Some(true) && owner.kind != "Node"
            }),
            node: pod.node().map(str::to_owned),
            phase: pod.phase_name().to_owned(),
            is_on_host_network: pod.is_on_host_network(),
            is_deleting: pod.metadata.deletion_timestamp.is_some(),
            addresses: pod.addresses().collect(),
            created: pod.creation_timestamp().map(|time| time.0),
            unschedulable: condition("PodScheduled"),
            waiting: condition("PodReadyToStartContainers").filter(|message| !message.is_empty()),
        }
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether it uses or needs an address: a finished pod has given its address back, and a pod on
    /// the host's network has none of its own.
    pub fn is_living(&self) -> bool {
        !self.is_finished() && !self.is_on_host_network
    }

    /// It is on a node, needs an address and has none.
    pub fn waits_for_address(&self) -> bool {
        self.is_living() && self.node.is_some() && self.addresses.is_empty() && !self.is_deleting
    }
}

fn message_or_reason(condition: &PodCondition) -> String {
    let message = condition.message.clone().filter(|message| !message.is_empty());
    message.or_else(|| condition.reason.clone()).unwrap_or_default()
}
