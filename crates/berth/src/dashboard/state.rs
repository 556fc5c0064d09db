//! What the dashboard knows: a row for each node and pod, fed by watches.

use std::collections::BTreeMap;

use berth_kit::watch::{Change, Key};
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

/// How many pods a page shows: more can't be read, and would have to be sent every two seconds.
const SHOWN: usize = 500;

/// What does not change while `berth up` runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    pub version: &'static str,
    pub api: String,
    pub kept_in: String,
    #[serde(skip)]
    started: Timestamp,
}

impl Facts {
    pub fn new(api: String, kept_in: String) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            api,
            kept_in,
            started: Timestamp::now(),
        }
    }
}

#[derive(Debug)]
struct NodeRow {
    status: String,
    address: String,
    created: Timestamp,
}

/// Short strings for each pod, not the pod: ten thousand of them stay small.
#[derive(Debug)]
struct PodRow {
    node: String,
    status: String,
    address: String,
    created: Timestamp,
}

#[derive(Debug)]
pub struct State {
    facts: Facts,
    nodes: BTreeMap<String, NodeRow>,
    pods: BTreeMap<Key, PodRow>,
}

/// The state at one moment, as the page and the JSON show it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    #[serde(flatten)]
    pub facts: Facts,
    pub uptime: String,
    pub nodes: Vec<NodeLine>,
    pub pods: Vec<PodLine>,
    /// All of them, shown or not.
    pub pod_count: usize,
}

#[derive(Debug, Serialize)]
pub struct NodeLine {
    pub name: String,
    pub status: String,
    pub address: String,
    pub pods: usize,
    pub age: String,
}

#[derive(Debug, Serialize)]
pub struct PodLine {
    pub namespace: String,
    pub name: String,
    pub node: String,
    pub status: String,
    pub address: String,
    pub age: String,
}

impl State {
    pub fn new(facts: Facts) -> Self {
        Self {
            facts,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
        }
    }

    pub fn apply_node(&mut self, change: Change<Node>) {
        match change {
            Change::Apply(node) => drop(self.nodes.insert(node.name_any(), NodeRow::of(&node))),
            Change::Delete(key) => drop(self.nodes.remove(&key.name)),
            Change::Restarted | Change::Synced => {}
        }
    }

    pub fn apply_pod(&mut self, change: Change<Pod>) {
        match change {
            Change::Apply(pod) => drop(self.pods.insert(Key::of(pod.as_ref()), PodRow::of(&pod))),
            Change::Delete(key) => drop(self.pods.remove(&key)),
            Change::Restarted | Change::Synced => {}
        }
    }

    pub fn snapshot(&self, now: Timestamp) -> Snapshot {
        let mut on_node = BTreeMap::<&str, usize>::new();
        for pod in self.pods.values() {
            *on_node.entry(&pod.node).or_default() += 1;
        }
        let node = |(name, row): (&String, &NodeRow)| NodeLine {
            name: name.clone(),
            status: row.status.clone(),
            address: row.address.clone(),
            pods: on_node.get(name.as_str()).copied().unwrap_or(0),
            age: age(row.created, now),
        };
        let pod = |(key, row): (&Key, &PodRow)| PodLine {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            node: row.node.clone(),
            status: row.status.clone(),
            address: row.address.clone(),
            age: age(row.created, now),
        };
        Snapshot {
            facts: self.facts.clone(),
            uptime: age(self.facts.started, now),
            nodes: self.nodes.iter().map(node).collect(),
            pods: self.pods.iter().take(SHOWN).map(pod).collect(),
            pod_count: self.pods.len(),
        }
    }
}

impl NodeRow {
    fn of(node: &Node) -> Self {
        let status = node.status.as_ref();
        let mut conditions = status.iter().flat_map(|s| s.conditions.iter().flatten());
        let ready = conditions.any(|c| c.type_ == "Ready" && c.status == "True");
        let mut words = vec![if ready { "Ready" } else { "NotReady" }];
        if node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true) {
            words.push("cordoned");
        }
        let mut addresses = status.iter().flat_map(|s| s.addresses.iter().flatten());
        let internal = addresses.find(|address| address.type_ == "InternalIP");
        Self {
            status: words.join(", "),
            address: internal.map(|address| address.address.clone()).unwrap_or_default(),
            created: created(node),
        }
    }
}

impl PodRow {
    fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let addresses = status.iter().flat_map(|s| s.pod_ips.iter().flatten());
        let addresses: Vec<_> = addresses.map(|ip| ip.ip.clone()).collect();
        Self {
            node: pod.spec.as_ref().and_then(|s| s.node_name.clone()).unwrap_or_default(),
            status: pod_status(pod),
            address: addresses.join(", "),
            created: created(pod),
        }
    }
}

/// The phase, or what says more.
fn pod_status(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    if pod.metadata.deletion_timestamp.is_some() {
        return "Terminating".to_owned();
    }
    let failing = status.conditions.iter().flatten().filter(|c| c.status == "False");
    let telling = ["Unschedulable", "SchedulingGated", "WaitingForAddress"];
    let mut reasons = failing.filter_map(|c| c.reason.clone());
    let condition = reasons.find(|reason| telling.contains(&reason.as_str()));
    let waiting = |c: &ContainerStatus| c.state.as_ref()?.waiting.as_ref()?.reason.clone();
    let container = status.container_statuses.iter().flatten().find_map(waiting);
    condition
        .or(container)
        .or(status.reason)
        .or(status.phase)
        .unwrap_or_else(|| "Unknown".to_owned())
}

fn created(object: &impl ResourceExt) -> Timestamp {
    object.creation_timestamp().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

/// The largest unit that is left, as kubectl has it: `5s`, `12m`, `3h`, `9d`.
fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, status: Value) -> Change<Pod> {
        let metadata = json!({"namespace": "default", "name": name, "creationTimestamp": "2026-01-01T00:00:00Z"});
        let pod = json!({"metadata": metadata, "spec": {"nodeName": "n", "containers": []}, "status": status});
        Change::Apply(Arc::new(serde_json::from_value(pod).unwrap()))
    }

    fn state() -> State {
        State::new(Facts::new("https://127.0.0.1:1".into(), "memory".into()))
    }

    fn status_of(status: Value) -> String {
        let mut state = state();
        state.apply_pod(pod("p", status));
        state.snapshot(Timestamp::now()).pods[0].status.clone()
    }

    #[test]
    fn a_pod_says_what_it_waits_for() {
        let waiting = json!({"phase": "Pending", "conditions": [
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
            {"type": "PodReadyToStartContainers", "status": "False", "reason": "WaitingForAddress"},
        ]});
        assert_eq!(status_of(waiting), "WaitingForAddress");
        let refused = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
        assert_eq!(status_of(refused), "Unschedulable");
        assert_eq!(status_of(json!({"phase": "Running"})), "Running");
    }

    #[test]
    fn more_pods_than_can_be_read_are_counted_and_not_shown() {
        let mut state = state();
        for number in 0..SHOWN + 7 {
            state.apply_pod(pod(&format!("p{number:04}"), json!({})));
        }
        let snapshot = state.snapshot(Timestamp::now());
        assert_eq!((snapshot.pods.len(), snapshot.pod_count), (SHOWN, SHOWN + 7));
    }

    #[test]
    fn a_node_counts_its_pods_until_they_are_gone() {
        let mut state = state();
        let node = json!({"metadata": {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        state.apply_node(Change::Apply(Arc::new(serde_json::from_value(node).unwrap())));
        state.apply_pod(pod("a", json!({})));
        state.apply_pod(pod("b", json!({})));
        let key = |name: &str| Key {
            namespace: "default".into(),
            name: name.into(),
        };
        state.apply_pod(Change::Delete(key("b")));
        let line = &state.snapshot(Timestamp::now()).nodes[0];
        assert_eq!((line.status.as_str(), line.pods), ("Ready", 1));
    }

    #[test]
    fn an_age_is_given_in_its_largest_unit() {
        let age =
            |seconds| super::age(Timestamp::UNIX_EPOCH, Timestamp::from_second(seconds).unwrap());
        assert_eq!(
            [age(5), age(119), age(130), age(7_300), age(200_000)],
            ["5s", "119s", "2m", "2h", "2d"]
        );
    }
}
