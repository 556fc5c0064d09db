//! The kubelets' state: the nodes, the pods on them, and the attachment of each pod's sandbox.
//!
//! A Pod object is kept only until it has been synced, so thousands of unchanged pods take little
//! memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use super::attachment::{Attachment, bound_to};
use super::network::{Sandbox, sandbox_id};
use berth_kit::watch::{Change, Key};

/// How many sandboxes are attached at a time. Each may wait for an address, and other work must not
/// queue behind them.
const MAX_ATTACHING: usize = 8;

#[derive(Debug)]
struct Known {
    uid: String,
    node: String,
    attachment: Attachment,
    /// Whether the pod is in [`Index::waiting`].
    queued: bool,
}

impl Known {
    fn sandbox(&self, pod: &Key) -> Sandbox {
        Sandbox {
            id: sandbox_id(&self.uid),
            node: self.node.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

#[derive(Debug)]
pub struct Index {
    /// Whether sandboxes are attached at all.
    networked: bool,
    unsynced: u8,
    nodes: BTreeSet<String>,
    pods: BTreeMap<Key, Known>,
    changed: BTreeMap<Key, Arc<Pod>>,
    /// Pods that went from the API before their sandbox was detached.
    leftovers: BTreeMap<Key, Vec<Known>>,
    attaching: usize,
    /// Pods that wait until fewer sandboxes are being attached.
    waiting: VecDeque<Key>,
    /// Nodes whose cleanup runs or has not begun yet, with the pods that wait for it.
    collecting: BTreeMap<String, Vec<Key>>,
}

/// The answer to [`Index::begin_attaching`].
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    Now {
        sandbox: Sandbox,
        tried: bool,
    },
    /// The pod is queued again when it is its turn.
    Later,
    /// The pod is no longer in the index.
    Never,
}

impl Index {
    /// `nodes` are those that run. With a network, a node attaches no sandbox before its first
    /// [`Index::collected`].
    pub fn new(networked: bool, nodes: impl Iterator<Item = String>) -> Self {
        let to_collect = nodes.filter(|_| networked).map(|node| (node, Vec::new()));
        Self {
            networked,
            unsynced: 2,
            nodes: BTreeSet::new(),
            pods: BTreeMap::new(),
            changed: BTreeMap::new(),
            leftovers: BTreeMap::new(),
            attaching: 0,
            waiting: VecDeque::new(),
            collecting: to_collect.collect(),
        }
    }

    /// Whether both watches are synced. Before that, pods would seem to have lost their nodes.
    pub fn is_synced(&self) -> bool {
        self.unsynced == 0
    }

    /// Returns the pods to sync after the change.
    pub fn apply_node(&mut self, change: Change<Node>) -> Vec<Key> {
        match change {
            Change::Apply(node) => {
                self.nodes.insert(node.name_any());
            }
            Change::Delete(node) => {
                self.nodes.remove(&node.name);
                let pods = self.pods.iter().filter(|(_, known)| known.node == node.name);
                return pods.map(|(pod, _)| pod.clone()).collect();
            }
            Change::Synced => self.unsynced -= 1,
            Change::Restarted => {}
        }
        Vec::new()
    }

    /// Returns the pod to sync after the change.
    pub fn apply_pod(&mut self, change: Change<Pod>) -> Option<Key> {
        match change {
            Change::Apply(pod) => {
                let key = Key::of(pod.as_ref());
                let node = bound_to(&pod)?.to_owned();
                let uid = pod.uid().unwrap_or_default();
                if self.pods.get(&key).is_none_or(|known| known.uid != uid) {
                    let on_host =
                        pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
                    let attachment = if self.networked && !on_host {
                        Attachment::Unknown { tried: false }
                    } else {
                        Attachment::Unneeded
                    };
                    let known = Known {
                        uid,
                        node,
                        attachment,
                        queued: false,
                    };
                    let before = self.pods.insert(key.clone(), known);
                    self.add_leftover(&key, before);
                }
                self.changed.insert(key.clone(), pod);
                Some(key)
            }
            Change::Delete(key) => {
                let known = self.pods.remove(&key);
                self.changed.remove(&key);
                self.add_leftover(&key, known).then_some(key)
            }
            Change::Synced => {
                self.unsynced -= 1;
                None
            }
            Change::Restarted => None,
        }
    }

    /// Remembers a sandbox that may hold addresses. Returns whether there is one to detach.
    fn add_leftover(&mut self, pod: &Key, known: Option<Known>) -> bool {
        let held = known.filter(|known| known.attachment.may_hold());
        let leaves = held.is_some();
        if let Some(held) = held {
            self.leftovers.entry(pod.clone()).or_default().push(held);
        }
        leaves
    }

    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// The pod's last state from the watch, if it has not been synced since.
    pub fn take_changed(&mut self, pod: &Key) -> Option<Arc<Pod>> {
        self.changed.remove(pod)
    }

    /// Keeps the pod for its next sync, unless the watch has brought a newer state.
    pub fn put_back(&mut self, key: &Key, pod: Arc<Pod>) {
        self.changed.entry(key.clone()).or_insert(pod);
    }

    /// `None` if the watch has not brought the pod yet, or has brought its end.
    pub fn attachment(&self, pod: &Key, uid: &str) -> Option<Attachment> {
        let known = self.pods.get(pod).filter(|known| known.uid == uid);
        known.map(|known| known.attachment.clone())
    }

    /// The sandbox of a pod in the index.
    pub fn sandbox(&self, pod: &Key, uid: &str) -> Option<Sandbox> {
        let known = self.pods.get(pod).filter(|known| known.uid == uid)?;
        Some(known.sandbox(pod))
    }

    /// The sandboxes still to detach of deleted pods with this name.
    pub fn leftovers(&self, pod: &Key) -> Vec<Sandbox> {
        let leftovers = self.leftovers.get(pod).into_iter().flatten();
        leftovers.map(|known| known.sandbox(pod)).collect()
    }

    /// Whether the sandbox may be attached now. After [`Turn::Now`], the caller must report the
    /// outcome with [`Index::attached`].
    pub fn begin_attaching(&mut self, pod: &Key, uid: &str) -> Turn {
        let Some(known) = self.pods.get_mut(pod).filter(|known| known.uid == uid) else {
            return Turn::Never;
        };
        if let Some(waiting) = self.collecting.get_mut(&known.node) {
            waiting.push(pod.clone());
            return Turn::Later;
        }
        if self.attaching == MAX_ATTACHING {
            if !std::mem::replace(&mut known.queued, true) {
                self.waiting.push_back(pod.clone());
            }
            return Turn::Later;
        }
        self.attaching += 1;
        let tried = matches!(known.attachment, Attachment::Unknown { tried: true });
        known.attachment = Attachment::Unknown { tried: true };
        Turn::Now {
            sandbox: known.sandbox(pod),
            tried,
        }
    }

    /// `addresses` is `None` if it is unknown whether the sandbox has any.
    pub fn attached(&mut self, pod: &Key, uid: &str, addresses: Option<Vec<IpAddr>>) {
        self.attaching -= 1;
        let known = self.pods.get_mut(pod).filter(|known| known.uid == uid);
        // A pod that has gone meanwhile is among the leftovers.
        if let (Some(known), Some(addresses)) = (known, addresses) {
            known.attachment = Attachment::Attached(addresses);
        }
    }

    pub fn detached(&mut self, pod: &Key, uid: &str) {
        if let Some(known) = self.pods.get_mut(pod).filter(|known| known.uid == uid) {
            known.attachment = Attachment::Detached;
        }
        if let Some(leftovers) = self.leftovers.get_mut(pod) {
            leftovers.retain(|known| known.uid != uid);
            if leftovers.is_empty() {
                self.leftovers.remove(pod);
            }
        }
    }

    /// The next pod that waits to be attached, if there is room for one. Called after every sync,
    /// so a pod that no longer needs its turn passes it on.
    pub fn next_waiting(&mut self) -> Option<Key> {
        if self.attaching == MAX_ATTACHING {
            return None;
        }
        let pod = self.waiting.pop_front()?;
        if let Some(known) = self.pods.get_mut(&pod) {
            known.queued = false;
        }
        Some(pod)
    }

    /// The sandboxes that the cleanup of the node must keep. Until [`Index::collected`] no other
    /// sandbox is attached there.
    pub fn begin_collecting(&mut self, node: &str) -> Vec<String> {
        self.collecting.entry(node.to_owned()).or_default();
        let pods = self
            .pods
            .values()
            .filter(|known| known.node == node && known.attachment.may_hold());
        pods.map(|known| sandbox_id(&known.uid)).collect()
    }

    /// Ends one try of the cleanup. Returns the pods that waited for it.
    pub fn collected(&mut self, node: &str) -> Vec<Key> {
        self.collecting.remove(node).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
