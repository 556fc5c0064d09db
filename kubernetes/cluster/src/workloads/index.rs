//! Deployments, ReplicaSets and their pods, as the watches have brought them: plain data, read by
//! the decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};

use super::member::{Found, Member};
use super::owner::{Pick, controller};
use berth_kit::watch::Key;

/// An object to sync after a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    Deployment(Key),
    ReplicaSet(Key),
}

#[derive(Debug, Default)]
pub struct Index {
    deployments: BTreeMap<Key, Arc<Deployment>>,
    replica_sets: BTreeMap<Key, Arc<ReplicaSet>>,
    pods: BTreeMap<Key, Member>,
    /// Pods by the uid of their controller. Pods without one are under the empty uid.
    pods_of: BTreeMap<String, BTreeSet<Key>>,
    /// Pods that this controller has deleted, with their uids. The watch may still bring older
    /// states of them.
    deleting_uids: BTreeMap<Key, String>,
}

impl Index {
    pub fn deployment(&self, key: &Key) -> Option<Arc<Deployment>> {
        self.deployments.get(key).cloned()
    }

    pub fn replica_set(&self, key: &Key) -> Option<Arc<ReplicaSet>> {
        self.replica_sets.get(key).cloned()
    }

    /// The ReplicaSets of a Deployment, and those without a controller that its selector picks.
    pub fn sets_of(&self, deployment: &Deployment) -> (Vec<Arc<ReplicaSet>>, Vec<Key>) {
        let uid = deployment.uid();
        let pick = Pick::of(deployment.spec.as_ref().map(|spec| &spec.selector));
        let mut owned = Vec::new();
        let mut orphans = Vec::new();
        for (key, set) in
            in_namespace(&self.replica_sets, &deployment.namespace().unwrap_or_default())
        {
            match controller(&set.metadata) {
                Some(owner) if Some(owner) == uid.as_deref() => owned.push(set.clone()),
                None if pick.matches(set.labels()) => orphans.push(key.clone()),
                _ => {}
            }
        }
        (owned, orphans)
    }

    /// The pods of a ReplicaSet, and those without a controller that its selector picks.
    pub fn members_of(&self, set: &ReplicaSet) -> (Vec<Found<'_>>, Vec<Found<'_>>) {
        let pick = Pick::of(set.spec.as_ref().map(|spec| &spec.selector));
        let namespace = set.namespace().unwrap_or_default();
        let owned = self.pods_of_owner(&set.uid().unwrap_or_default());
        let strays = self
            .pods_of_owner("")
            .filter(|(key, pod)| key.namespace == namespace && pick.matches(&pod.labels));
        (owned.collect(), strays.collect())
    }

    /// Whether a pod of these sets still exists, even if it is being deleted.
    pub fn any_pod_left(&self, sets: &[Arc<ReplicaSet>]) -> bool {
        let mut uids = sets.iter().filter_map(|set| set.uid());
        uids.any(|uid| self.pods_of_owner(&uid).any(|(_, pod)| !pod.finished))
    }

    fn pods_of_owner(&self, uid: &str) -> impl Iterator<Item = Found<'_>> + use<'_> {
        let keys = self.pods_of.get(uid).into_iter().flatten();
        keys.filter_map(|key| self.pods.get_key_value(key))
    }

    pub fn apply_deployment(&mut self, deployment: Arc<Deployment>) -> Vec<Task> {
        let key = Key::of(deployment.as_ref());
        if replaces(self.deployments.get(&key), &deployment) {
            self.deployments.insert(key.clone(), deployment);
        }
        vec![Task::Deployment(key)]
    }

    pub fn delete_deployment(&mut self, key: &Key) -> Vec<Task> {
        self.deployments.remove(key);
        Vec::new()
    }

    pub fn apply_replica_set(&mut self, set: Arc<ReplicaSet>) -> Vec<Task> {
        let key = Key::of(set.as_ref());
        if !replaces(self.replica_sets.get(&key), &set) {
            return Vec::new();
        }
        let mut tasks = self.deployments_for_set(&key, &set);
        if let Some(before) = self.replica_sets.insert(key.clone(), set) {
            tasks.extend(self.deployments_for_set(&key, &before));
        }
        tasks.push(Task::ReplicaSet(key));
        tasks
    }

    pub fn delete_replica_set(&mut self, key: &Key) -> Vec<Task> {
        let gone = self.replica_sets.remove(key);
        gone.map(|set| self.deployments_for_set(key, &set)).unwrap_or_default()
    }

    fn deployments_for_set(&self, key: &Key, set: &ReplicaSet) -> Vec<Task> {
        let owner = controller(&set.metadata);
        let deployments = in_namespace(&self.deployments, &key.namespace);
        let concerned = deployments.filter(|(_, deployment)| match owner {
            Some(uid) => deployment.metadata.uid.as_deref() == Some(uid),
            None => Pick::of(deployment.spec.as_ref().map(|s| &s.selector)).matches(set.labels()),
        });
        concerned.map(|(key, _)| Task::Deployment(key.clone())).collect()
    }

    pub fn apply_pod(&mut self, pod: &Pod) -> Vec<Task> {
        let key = Key::of(pod);
        let mut member = Member::of(pod);
        member.deleting |= self.deleting_uids.get(&key) == Some(&member.uid);
        // Most changes, such as a new node or status, make no difference for the pod's set.
        if let Some(known) = self.pods.get_mut(&key).filter(|known| known.counts_as(&member)) {
            *known = member;
            return Vec::new();
        }
        let mut tasks = self.remove_pod(&key);
        self.pods_of
            .entry(member.owner.clone())
            .or_default()
            .insert(key.clone());
        tasks.extend(self.sets_for_pod(&key, &member));
        self.pods.insert(key, member);
        tasks
    }

    pub fn delete_pod(&mut self, key: &Key) -> Vec<Task> {
        self.deleting_uids.remove(key);
        let mut tasks = self.remove_pod(key);
        // A Deployment that recreates its pods waits until the last old pod is gone, long after its
        // set counts no pods.
        for task in tasks.clone() {
            let Task::ReplicaSet(set) = task else {
                continue;
            };
            if let Some(owned) = self.replica_sets.get(&set) {
                tasks.extend(self.deployments_for_set(&set, owned));
            }
        }
        tasks
    }

    pub fn uid_of_pod(&self, key: &Key) -> Option<String> {
        self.pods.get(key).map(|pod| pod.uid.clone())
    }

    /// Counts the pod as being deleted from now on, even if the watch still brings older states.
    pub fn mark_deleting(&mut self, key: &Key) {
        if let Some(pod) = self.pods.get_mut(key) {
            pod.deleting = true;
            self.deleting_uids.insert(key.clone(), pod.uid.clone());
        }
    }

    fn remove_pod(&mut self, key: &Key) -> Vec<Task> {
        let Some(member) = self.pods.remove(key) else {
            return Vec::new();
        };
        if let Some(keys) = self.pods_of.get_mut(&member.owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.pods_of.remove(&member.owner);
            }
        }
        self.sets_for_pod(key, &member)
    }

    fn sets_for_pod(&self, key: &Key, pod: &Member) -> Vec<Task> {
        let sets = in_namespace(&self.replica_sets, &key.namespace);
        let concerned = sets.filter(|(_, set)| {
            if pod.owner.is_empty() {
                Pick::of(set.spec.as_ref().map(|s| &s.selector)).matches(&pod.labels)
            } else {
                set.metadata.uid.as_ref() == Some(&pod.owner)
            }
        });
        concerned.map(|(key, _)| Task::ReplicaSet(key.clone())).collect()
    }
}

/// Whether `incoming` is not older than `held`. The answers of writes are applied at once, and
/// older states from the watch must not undo them.
fn replaces<K: Resource>(held: Option<&Arc<K>>, incoming: &K) -> bool {
    let version = |object: &K| object.resource_version().and_then(|v| v.parse::<u64>().ok());
    let Some(held) = held.filter(|held| held.uid() == incoming.uid()) else {
        return true;
    };
    version(held) <= version(incoming)
}

fn in_namespace<'a, V>(
    map: &'a BTreeMap<Key, V>,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a Key, &'a V)> {
    let first = Key {
        namespace: namespace.to_owned(),
        name: String::new(),
    };
    map.range(first..)
        .take_while(move |(key, _)| key.namespace == namespace)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(name: &str, version: u64, replicas: i32) -> Arc<ReplicaSet> {
        let set = json!({
            "metadata": {"namespace": "default", "name": name, "uid": name, "resourceVersion": version.to_string()},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}},
        });
        Arc::new(serde_json::from_value(set).unwrap())
    }

    fn pod(name: &str, owner: Option<&str>, app: &str) -> Pod {
        let owners = owner.map(
            |uid| json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid, "controller": true}]),
        );
        let metadata = json!({"namespace": "default", "name": name, "uid": name, "labels": {"app": app}, "ownerReferences": owners});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn key(name: &str) -> Key {
        Key {
            namespace: "default".into(),
            name: name.into(),
        }
    }

    fn names(members: &[Found]) -> Value {
        json!(members.iter().map(|(key, _)| &key.name).collect::<Vec<_>>())
    }

    #[test]
    fn an_older_state_from_the_watch_does_not_undo_what_we_wrote() {
        let mut index = Index::default();
        index.apply_replica_set(set("a", 7, 5));
        assert_eq!(index.apply_replica_set(set("a", 6, 1)), []);
        let held = index.replica_set(&key("a")).unwrap();
        assert_eq!(held.spec.as_ref().unwrap().replicas, Some(5));
    }

    #[test]
    fn a_pod_concerns_the_set_that_owns_it_or_could() {
        let mut index = Index::default();
        index.apply_replica_set(set("a", 1, 1));
        index.apply_replica_set(set("b", 2, 1));
        assert_eq!(index.apply_pod(&pod("p", Some("b"), "a")), [Task::ReplicaSet(key("b"))]);
        assert_eq!(index.apply_pod(&pod("q", None, "a")), [Task::ReplicaSet(key("a"))]);
        let (owned, orphans) = index.members_of(&set("a", 1, 1));
        assert_eq!((names(&owned), names(&orphans)), (json!([]), json!(["q"])));
        index.apply_pod(&pod("q", Some("a"), "a"));
        let (owned, orphans) = index.members_of(&set("a", 1, 1));
        assert_eq!((names(&owned), names(&orphans)), (json!(["q"]), json!([])));
        assert_eq!(index.delete_pod(&key("q")), [Task::ReplicaSet(key("a"))]);
    }

    #[test]
    fn a_pod_that_is_gone_concerns_the_deployment_too() {
        let mut index = Index::default();
        let deployment = json!({"metadata": {"namespace": "default", "name": "d", "uid": "d"}});
        index.apply_deployment(Arc::new(serde_json::from_value(deployment).unwrap()));
        let mut owned = Arc::unwrap_or_clone(set("a", 1, 1));
        let owner = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "d", "controller": true}]);
        owned.metadata.owner_references = serde_json::from_value(owner).unwrap();
        index.apply_replica_set(Arc::new(owned));
        index.apply_pod(&pod("p", Some("a"), "a"));
        let concerned = [Task::ReplicaSet(key("a")), Task::Deployment(key("d"))];
        assert_eq!(index.delete_pod(&key("p")), concerned);
    }

    #[test]
    fn a_pod_that_counts_as_before_concerns_nobody() {
        let mut index = Index::default();
        index.apply_replica_set(set("a", 1, 1));
        index.apply_pod(&pod("p", Some("a"), "a"));
        let mut placed = pod("p", Some("a"), "a");
        placed.spec.get_or_insert_default().node_name = Some("n".into());
        assert_eq!(index.apply_pod(&placed), []);
        assert!(index.pods[&key("p")].placed, "but is known");
        placed.status.get_or_insert_default().phase = Some("Failed".into());
        assert_eq!(
            index.apply_pod(&placed),
            [Task::ReplicaSet(key("a")), Task::ReplicaSet(key("a"))]
        );
    }

    #[test]
    fn a_pod_that_we_deleted_counts_as_going_until_it_is_gone() {
        let mut index = Index::default();
        index.apply_pod(&pod("p", Some("a"), "a"));
        index.mark_deleting(&key("p"));
        index.apply_pod(&pod("p", Some("a"), "a"));
        assert!(index.pods[&key("p")].deleting);
        index.delete_pod(&key("p"));
        index.apply_pod(&pod("p", Some("a"), "a"));
        assert!(!index.pods[&key("p")].deleting);
    }
}
