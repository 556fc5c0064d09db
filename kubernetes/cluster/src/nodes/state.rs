//! The labels, taints and status of a virtual node. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo, Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::Fleet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Ready,
    /// An earlier start ran this node, but this one runs fewer.
    NotRun,
}

const NOT_RUN: &str = "node.kubernetes.io/unreachable";

fn labels(name: &str) -> BTreeMap<String, String> {
    [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// In the spelling of Go, which Kubernetes uses.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A new Node object.
pub fn node(name: &str) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels(name)),
            ..ObjectMeta::default()
        },
        ..Node::default()
    }
}

/// The merge patch that gives the node its labels and its taint, or `None` if it has them. A merge
/// patch replaces the whole list of taints, so the patch names the version it was made from.
pub fn metadata(node: &Node, health: Health) -> Option<Value> {
    let labels = labels(&node.name_any());
    let missing = labels.iter().any(|(key, value)| node.labels().get(key) != Some(value));
    let mut taints = node.spec.as_ref().and_then(|s| s.taints.clone()).unwrap_or_default();
    let before = taints.clone();
    match health {
        Health::Ready => taints.retain(|taint| taint.key != NOT_RUN),
        Health::NotRun if taints.iter().any(|taint| taint.key == NOT_RUN) => {}
        Health::NotRun => taints.push(Taint {
            key: NOT_RUN.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        }),
    }
    let mut patch =
        json!({"metadata": {"resourceVersion": node.resource_version(), "labels": labels}});
    if taints != before {
        patch["spec"] = json!({"taints": taints});
    } else if !missing {
        return None;
    }
    Some(patch)
}

/// The status that the node reports. An unchanged condition keeps its transition time.
pub fn status(node: &Node, health: Health, now: &Time) -> NodeStatus {
    let name = node.name_any();
    let conditions = conditions(health).map(|(type_, status, reason, message)| {
        let mut known = node.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let since = known
            .find(|c| c.type_ == type_ && c.status == status)
            .and_then(|c| c.last_transition_time.clone());
        NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(now.clone()),
            last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        }
    });
    NodeStatus {
        addresses: Some(addresses(&name)),
        capacity: Some(capacity()),
        allocatable: Some(capacity()),
        conditions: Some(conditions.into()),
        node_info: Some(info(&name)),
        ..NodeStatus::default()
    }
}

fn conditions(health: Health) -> [(&'static str, &'static str, &'static str, &'static str); 4] {
    let all_unknown = |type_| {
        let message = "This node is not run: berth up was started with fewer --nodes";
        (type_, "Unknown", "NodeStatusUnknown", message)
    };
    match health {
        Health::Ready => [
            (
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "A virtual node uses no memory",
            ),
            (
                "DiskPressure",
                "False",
                "KubeletHasNoDiskPressure",
                "A virtual node uses no disk",
            ),
            (
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "A virtual node runs no processes",
            ),
            ("Ready", "True", "KubeletReady", "The virtual node takes pods"),
        ],
        Health::NotRun => {
            ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(all_unknown)
        }
    }
}

fn addresses(name: &str) -> Vec<NodeAddress> {
    let address = |type_: &str, address: String| NodeAddress {
        type_: type_.to_owned(),
        address,
    };
    let internal = Fleet::address(name).map(|ip| address("InternalIP", ip.to_string()));
    internal
        .into_iter()
        .chain([address("Hostname", name.to_owned())])
        .collect()
}

fn capacity() -> BTreeMap<String, Quantity> {
    [
        ("cpu", "8"),
        ("memory", "16Gi"),
        ("ephemeral-storage", "100Gi"),
        ("pods", "110"),
    ]
    .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
    .into()
}

fn info(name: &str) -> NodeSystemInfo {
    let version = env!("CARGO_PKG_VERSION");
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        operating_system: "linux".to_owned(),
        os_image: "Berth virtual node".to_owned(),
        kernel_version: "virtual".to_owned(),
        container_runtime_version: format!("berth://{version}"),
        kubelet_version: berth_apimachinery::GIT_VERSION.to_owned(),
        // There is no machine behind the node, so its name identifies it.
        machine_id: name.to_owned(),
        system_uuid: name.to_owned(),
        boot_id: name.to_owned(),
        ..NodeSystemInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    fn reported(health: Health) -> Node {
        let mut node = node("berth-node-1");
        node.status = Some(status(&node, health, &at(100)));
        node
    }

    fn ready(status: &NodeStatus) -> &NodeCondition {
        let conditions = status.conditions.as_ref().unwrap();
        conditions.iter().find(|c| c.type_ == "Ready").unwrap()
    }

    #[test]
    fn a_heartbeat_keeps_the_time_since_when_a_node_is_ready() {
        let status = status(&reported(Health::Ready), Health::Ready, &at(200));
        assert_eq!(ready(&status).last_transition_time, Some(at(100)));
        assert_eq!(ready(&status).last_heartbeat_time, Some(at(200)));
    }

    #[test]
    fn a_node_that_is_not_run_any_more_says_so_and_keeps_pods_away() {
        let node = reported(Health::Ready);
        let status = status(&node, Health::NotRun, &at(200));
        assert_eq!(ready(&status).status, "Unknown");
        assert_eq!(ready(&status).last_transition_time, Some(at(200)));
        let patch = metadata(&node, Health::NotRun).unwrap();
        assert_eq!(patch["spec"]["taints"][0]["key"], NOT_RUN);
    }

    #[test]
    fn a_node_that_comes_back_loses_that_taint_and_no_other() {
        let mut node = reported(Health::NotRun);
        let taint = |key: &str| Taint {
            key: key.into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        node.spec.get_or_insert_default().taints = Some(vec![taint("mine"), taint(NOT_RUN)]);
        assert_eq!(metadata(&node, Health::NotRun), None);
        let patch = metadata(&node, Health::Ready).unwrap();
        assert_eq!(patch["spec"]["taints"], json!([taint("mine")]));
    }

    #[test]
    fn labels_of_the_user_stay_and_ours_come_back() {
        let mut node = reported(Health::Ready);
        assert_eq!(metadata(&node, Health::Ready), None);
        node.labels_mut().insert("mine".into(), "1".into());
        assert_eq!(metadata(&node, Health::Ready), None);
        node.labels_mut().remove("kubernetes.io/os");
        let patch = metadata(&node, Health::Ready).unwrap();
        assert_eq!(patch["metadata"]["labels"]["kubernetes.io/os"], "linux");
        assert_eq!(patch["metadata"]["labels"].get("mine"), None);
        assert_eq!(patch.get("spec"), None);
    }
}
