//! The scheduler's state, fed by watches: nodes, the resources in use on each, and the pods that
//! wait for a node.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::{Resource, ResourceExt};

use super::limit::{Candidate, PodLimit};
use super::place::{Demand, Host, place};
use super::resources::Resources;
use berth_kit::watch::Key;

/// A pod on a node: bound, or about to be bound by this scheduler.
#[derive(Debug)]
struct Placed {
    uid: String,
    node: String,
    requests: Resources,
}

/// A pod that waits for this scheduler to find a node.
#[derive(Debug)]
struct Waiting {
    reference: ObjectReference,
    demand: Demand,
    host_network: bool,
    rank: Rank,
    /// The reason in its status why it could not be placed.
    reported: Option<String>,
}

/// The order of the queue: the higher priority first, then the older pod, then by name.
type Rank = (Reverse<i32>, i64, Key);

/// The decision about one waiting pod.
#[derive(Debug, PartialEq)]
pub enum Decision {
    Bind {
        pod: ObjectReference,
        node: String,
    },
    /// `reported`: the pod's status gives this reason already.
    Unschedulable {
        pod: ObjectReference,
        message: String,
        reported: bool,
    },
}

#[derive(Debug, Default)]
pub struct Index {
    hosts: BTreeMap<String, Host>,
    used: BTreeMap<String, Resources>,
    placed: BTreeMap<Key, Placed>,
    waiting: BTreeMap<Key, Waiting>,
    /// Waiting pods to decide on, in order. Those that are not queued did not fit anywhere, and
    /// nothing has become free since.
    queue: BTreeSet<Rank>,
    /// A limit on the pods of a node beside its resources.
    limit: Option<Arc<dyn PodLimit>>,
}

impl Index {
    pub fn new(limit: Option<Arc<dyn PodLimit>>) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    pub fn apply_node(&mut self, node: &Node) {
        let host = Host::of(node);
        let name = node.name_any();
        // A heartbeat changes nothing here, so it must not requeue every waiting pod.
        if self.hosts.get(&name) != Some(&host) {
            self.hosts.insert(name, host);
            self.requeue_waiting();
        }
    }

    pub fn delete_node(&mut self, name: &str) {
        if self.hosts.remove(name).is_some() {
            self.requeue_waiting();
        }
    }

    pub fn apply_pod(&mut self, pod: &Pod) {
        let key = Key::of(pod);
        let Some(spec) = &pod.spec else { return };
        let uid = pod.uid().unwrap_or_default();
        let finished = matches!(
            pod.status.as_ref().and_then(|s| s.phase.as_deref()),
            Some("Succeeded" | "Failed")
        );
        let bound = spec.node_name.as_deref().filter(|node| !node.is_empty());
        match (bound, self.placed.get(&key)) {
            _ if finished => self.delete_pod(&key),
            (Some(node), Some(placed)) if placed.node == node && placed.uid == uid => {}
            (Some(node), _) => {
                self.delete_pod(&key);
                self.add_placed(key, uid, node.to_owned(), Resources::of_pod(spec));
            }
            // A stale state of a pod that is being bound. The event of the binding will follow.
            (None, Some(placed)) if placed.uid == uid => {}
            (None, _) => {
                self.delete_pod(&key);
                if needs_scheduling(pod) {
                    self.enqueue(key, pod);
                }
            }
        }
    }

    pub fn delete_pod(&mut self, key: &Key) {
        if let Some(waiting) = self.waiting.remove(key) {
            self.queue.remove(&waiting.rank);
        }
        if let Some(placed) = self.placed.remove(key) {
            if let Some(used) = self.used.get_mut(&placed.node) {
                used.subtract(&placed.requests);
            }
            self.requeue_waiting();
        }
    }

    /// Decides on the next pod in the queue. A pod to bind counts as placed from here on.
    pub fn decide(&mut self) -> Option<Decision> {
        let (_, _, key) = self.queue.pop_first()?;
        let waiting = self.waiting.get_mut(&key)?;
        let uid = waiting.reference.uid.clone().unwrap_or_default();
        let candidate = Candidate {
            uid: &uid,
            host_network: waiting.host_network,
        };
        let limit = self.limit.as_deref();
        let refuse = |node: &str| limit.and_then(|limit| limit.refuse(&candidate, node));
        let placed = place(&waiting.demand, &self.hosts, &self.used, &refuse);
        let placed = placed.and_then(|node| match limit {
            Some(limit) => limit.reserve(&candidate, &node).map(|()| node),
            None => Ok(node),
        });
        match placed {
            Ok(node) => {
                let waiting = self.waiting.remove(&key)?;
                self.add_placed(key, uid, node.clone(), waiting.demand.requests);
                Some(Decision::Bind {
                    pod: waiting.reference,
                    node,
                })
            }
            Err(message) => {
                let reported = waiting.reported.as_ref() == Some(&message);
                waiting.reported = Some(message.clone());
                Some(Decision::Unschedulable {
                    pod: waiting.reference.clone(),
                    message,
                    reported,
                })
            }
        }
    }

    pub fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    fn add_placed(&mut self, key: Key, uid: String, node: String, requests: Resources) {
        self.used.entry(node.clone()).or_default().add(&requests);
        let placed = Placed { uid, node, requests };
        self.placed.insert(key, placed);
    }

    fn enqueue(&mut self, key: Key, pod: &Pod) {
        let Some(spec) = &pod.spec else { return };
        let created = pod.creation_timestamp().map_or(0, |t| t.0.as_second());
        let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let mut scheduled = conditions.filter(|c| c.type_ == "PodScheduled" && c.status == "False");
        let waiting = Waiting {
            reference: pod.object_ref(&()),
            demand: Demand::of(spec),
            host_network: spec.host_network.unwrap_or(false),
            rank: (Reverse(spec.priority.unwrap_or(0)), created, key.clone()),
            reported: scheduled.next().and_then(|c| c.message.clone()),
        };
        self.queue.insert(waiting.rank.clone());
        self.waiting.insert(key, waiting);
    }

    /// Queues every waiting pod again, because a node may have room now.
    pub fn requeue_waiting(&mut self) {
        let ranks = self.waiting.values().map(|waiting| waiting.rank.clone());
        self.queue.extend(ranks);
    }
}

/// Whether the pod is for this scheduler: it names no other scheduler, has no scheduling gates and
/// is not being deleted.
fn needs_scheduling(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    matches!(spec.scheduler_name.as_deref(), None | Some("" | "default-scheduler"))
        && spec.scheduling_gates.as_ref().is_none_or(Vec::is_empty)
        && pod.metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str, cpu: &str) -> Node {
        let node = json!({
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "10"}},
        });
        serde_json::from_value(node).unwrap()
    }

    fn pod(name: &str, mut spec: Value) -> Pod {
        let requests = json!({"requests": {"cpu": "1"}});
        spec["containers"] = json!([{"name": "c", "resources": requests}]);
        let pod =
            json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec});
        serde_json::from_value(pod).unwrap()
    }

    fn key(name: &str) -> Key {
        Key {
            namespace: "default".into(),
            name: name.into(),
        }
    }

    /// Decides on all queued pods: `pod→node`, or `pod: message`.
    fn decide_all(index: &mut Index) -> Vec<String> {
        std::iter::from_fn(|| index.decide())
            .map(|decision| match decision {
                Decision::Bind { pod, node } => format!("{}→{node}", pod.name.unwrap()),
                Decision::Unschedulable { pod, message, .. } => {
                    format!("{}: {message}", pod.name.unwrap())
                }
            })
            .collect()
    }

    /// Two pods on each node.
    #[derive(Debug, Default)]
    struct Two(std::sync::Mutex<Vec<(String, String)>>);

    impl PodLimit for Two {
        fn refuse(&self, pod: &Candidate<'_>, node: &str) -> Option<String> {
            let held = self.0.lock().unwrap();
            let there = held.iter().filter(|(_, there)| there == node).count();
            (!pod.host_network && there == 2).then(|| "no room".to_owned())
        }

        fn reserve(&self, pod: &Candidate<'_>, node: &str) -> Result<(), String> {
            if !pod.host_network {
                self.0.lock().unwrap().push((pod.uid.to_owned(), node.to_owned()));
            }
            Ok(())
        }

        fn release(&self, uid: &str) {
            self.0.lock().unwrap().retain(|(held, _)| held != uid);
        }

        fn changed(&self) -> futures::future::BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn a_node_takes_no_more_pods_than_the_limit_that_is_handed_in() {
        let mut index = Index::new(Some(Arc::new(Two::default())));
        index.apply_node(&node("n1", "8"));
        ["a", "b", "c"]
            .iter()
            .for_each(|name| index.apply_pod(&pod(name, json!({}))));
        index.apply_pod(&pod("d", json!({"hostNetwork": true})));
        assert_eq!(
            decide_all(&mut index),
            ["a→n1", "b→n1", "c: 0/1 nodes are available: 1 no room.", "d→n1"]
        );
        index.limit.as_ref().unwrap().release("a");
        index.requeue_waiting();
        assert_eq!(decide_all(&mut index), ["c→n1"]);
    }

    #[test]
    fn a_pod_about_to_be_bound_counts_before_the_watch_says_so() {
        let mut index = Index::default();
        index.apply_node(&node("n1", "1"));
        index.apply_pod(&pod("a", json!({})));
        index.apply_pod(&pod("b", json!({})));
        assert_eq!(
            decide_all(&mut index),
            ["a→n1", "b: 0/1 nodes are available: 1 Insufficient cpu."]
        );
        index.apply_pod(&pod("a", json!({})));
        assert!(!index.has_work());
        index.apply_pod(&pod("a", json!({"nodeName": "n1"})));
        assert!(!index.has_work());
    }

    #[test]
    fn a_refused_pod_is_looked_at_again_when_something_comes_free() {
        let mut index = Index::default();
        index.apply_node(&node("n1", "1"));
        index.apply_pod(&pod("a", json!({"nodeName": "n1"})));
        index.apply_pod(&pod("b", json!({})));
        assert_eq!(decide_all(&mut index).len(), 1);
        index.apply_node(&node("n1", "1"));
        assert!(!index.has_work(), "a heartbeat frees nothing");
        let mut done = pod("a", json!({"nodeName": "n1"}));
        done.status.get_or_insert_default().phase = Some("Succeeded".into());
        index.apply_pod(&done);
        assert_eq!(decide_all(&mut index), ["b→n1"]);
    }

    #[test]
    fn a_new_node_serves_refused_pods() {
        let mut index = Index::default();
        index.apply_pod(&pod("a", json!({})));
        assert_eq!(decide_all(&mut index), ["a: no nodes available to schedule pods"]);
        index.apply_node(&node("n1", "1"));
        assert_eq!(decide_all(&mut index), ["a→n1"]);
    }

    #[test]
    fn the_same_reason_is_said_once() {
        let mut index = Index::default();
        index.apply_node(&node("n1", "0"));
        index.apply_pod(&pod("a", json!({})));
        let reported = |index: &mut Index| match index.decide() {
            Some(Decision::Unschedulable { reported, .. }) => reported,
            other => panic!("{other:?}"),
        };
        assert!(!reported(&mut index));
        index.requeue_waiting();
        assert!(reported(&mut index));
    }

    #[test]
    fn a_pod_with_a_higher_priority_is_placed_first() {
        let mut index = Index::default();
        index.apply_node(&node("n1", "1"));
        index.apply_pod(&pod("a", json!({})));
        index.apply_pod(&pod("b", json!({"priority": 5})));
        assert_eq!(decide_all(&mut index)[0], "b→n1");
    }

    #[test]
    fn pods_of_other_schedulers_and_gated_pods_are_left_alone() {
        let mut index = Index::default();
        index.apply_node(&node("n1", "9"));
        index.apply_pod(&pod("a", json!({"schedulerName": "other"})));
        index.apply_pod(&pod("b", json!({"schedulingGates": [{"name": "g"}]})));
        assert!(!index.has_work());
        index.apply_pod(&pod("b", json!({})));
        assert_eq!(decide_all(&mut index), ["b→n1"]);
    }

    #[test]
    fn a_pod_recreated_under_the_same_name_is_placed_again() {
        let mut index = Index::default();
        index.apply_node(&node("n1", "1"));
        index.apply_pod(&pod("a", json!({"nodeName": "n1"})));
        let mut again = pod("a", json!({}));
        again.metadata.uid = Some("another".into());
        index.apply_pod(&again);
        assert_eq!(decide_all(&mut index), ["a→n1"]);
        index.delete_pod(&key("a"));
        index.apply_pod(&pod("c", json!({})));
        assert_eq!(decide_all(&mut index), ["c→n1"]);
    }
}
