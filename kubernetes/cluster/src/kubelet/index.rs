//! What the kubelets know: which nodes there are, which pods are on them, and what each pod's
//! sandbox has.
//!
//! A pod is kept only until it has been looked at: thousands of pods at rest cost little.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use super::attachment::{Attachment, bound_to};
use super::network::{Sandbox, sandbox_id};
use berth_kit::watch::{Change, Key};

/// How many sandboxes are attached at a time. Each may wait for an address, and what does not wait
/// must not stand behind them.
const ATTACHING: usize = 8;

#[derive(Debug)]
struct Known {
    uid: String,
    node: String,
    attachment: Attachment,
    /// It is among those that wait for their turn.
    waits: bool,
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
    /// Of pods that went from the API before their sandbox was detached.
    left: BTreeMap<Key, Vec<Known>>,
    attaching: usize,
    /// Pods that are to be attached once another one is.
    waiting: VecDeque<Key>,
    /// Nodes of which unknown sandboxes are being detached or still to be, with the pods that are
    /// to be attached afterwards.
    collecting: BTreeMap<String, Vec<Key>>,
}

/// What came of asking to attach a pod's sandbox.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    Now {
        sandbox: Sandbox,
        tried: bool,
    },
    /// The pod is called again when it is its turn.
    Later,
    /// It is not known any more.
    Never,
}

impl Index {
    /// The nodes are those that run. Where sandboxes are attached at all, [`Index::collected`] is
    /// what each begins with.
    pub fn new(networked: bool, nodes: impl Iterator<Item = String>) -> Self {
        let to_collect = nodes.filter(|_| networked).map(|node| (node, Vec::new()));
        Self {
            networked,
            unsynced: 2,
            nodes: BTreeSet::new(),
            pods: BTreeMap::new(),
            changed: BTreeMap::new(),
            left: BTreeMap::new(),
            attaching: 0,
            waiting: VecDeque::new(),
            collecting: to_collect.collect(),
        }
    }

    /// Before all nodes are known, pods would seem to have lost theirs.
    pub fn is_synced(&self) -> bool {
        self.unsynced == 0
    }

    /// The pods to look at after the change.
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

    /// The pod to look at after the change.
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
                        waits: false,
                    };
                    let before = self.pods.insert(key.clone(), known);
                    self.leave(&key, before);
                }
                self.changed.insert(key.clone(), pod);
                Some(key)
            }
            Change::Delete(key) => {
                let known = self.pods.remove(&key);
                self.changed.remove(&key);
                self.leave(&key, known).then_some(key)
            }
            Change::Synced => {
                self.unsynced -= 1;
                None
            }
            Change::Restarted => None,
        }
    }

    /// Whether something is left to be detached.
    fn leave(&mut self, pod: &Key, known: Option<Known>) -> bool {
        let held = known.filter(|known| known.attachment.may_hold());
        let leaves = held.is_some();
        if let Some(held) = held {
            self.left.entry(pod.clone()).or_default().push(held);
        }
        leaves
    }

    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// The pod as it was when it last changed, if it has not been looked at since.
    pub fn take_changed(&mut self, pod: &Key) -> Option<Arc<Pod>> {
        self.changed.remove(pod)
    }

    /// The pod will be looked at again soon.
    pub fn keep(&mut self, key: &Key, pod: Arc<Pod>) {
        self.changed.entry(key.clone()).or_insert(pod);
    }

    /// `None` for a pod that the watch has not brought yet, or has brought the end of.
    pub fn attachment(&self, pod: &Key, uid: &str) -> Option<Attachment> {
        let known = self.pods.get(pod).filter(|known| known.uid == uid);
        known.map(|known| known.attachment.clone())
    }

    /// The sandbox of a pod that is known.
    pub fn sandbox(&self, pod: &Key, uid: &str) -> Option<Sandbox> {
        let known = self.pods.get(pod).filter(|known| known.uid == uid)?;
        Some(known.sandbox(pod))
    }

    /// Sandboxes of pods of this name that are gone.
    pub fn left(&self, pod: &Key) -> Vec<Sandbox> {
        let left = self.left.get(pod).into_iter().flatten();
        left.map(|known| known.sandbox(pod)).collect()
    }

    /// Whether the sandbox may be attached now. If so, [`Index::attached`] is called with what came
    /// of it.
    pub fn begin_attaching(&mut self, pod: &Key, uid: &str) -> Turn {
        let Some(known) = self.pods.get_mut(pod).filter(|known| known.uid == uid) else {
            return Turn::Never;
        };
        if let Some(waiting) = self.collecting.get_mut(&known.node) {
            waiting.push(pod.clone());
            return Turn::Later;
        }
        if self.attaching == ATTACHING {
            if !std::mem::replace(&mut known.waits, true) {
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

    /// `None`: it is not known whether the sandbox has something.
    pub fn attached(&mut self, pod: &Key, uid: &str, addresses: Option<Vec<IpAddr>>) {
        self.attaching -= 1;
        let known = self.pods.get_mut(pod).filter(|known| known.uid == uid);
        // One that has gone meanwhile is among those that are left.
        if let (Some(known), Some(addresses)) = (known, addresses) {
            known.attachment = Attachment::Attached(addresses);
        }
    }

    pub fn detached(&mut self, pod: &Key, uid: &str) {
        if let Some(known) = self.pods.get_mut(pod).filter(|known| known.uid == uid) {
            known.attachment = Attachment::Detached;
        }
        if let Some(left) = self.left.get_mut(pod) {
            left.retain(|known| known.uid != uid);
            if left.is_empty() {
                self.left.remove(pod);
            }
        }
    }

    /// A pod that waits for its turn to be attached, when there is room for one. Asked for whenever
    /// a pod has been looked at: one that is called and does not need it any more calls the next.
    pub fn next_waiting(&mut self) -> Option<Key> {
        if self.attaching == ATTACHING {
            return None;
        }
        let pod = self.waiting.pop_front()?;
        if let Some(known) = self.pods.get_mut(&pod) {
            known.waits = false;
        }
        Some(pod)
    }

    /// The sandboxes of the node that may have something by right. Until [`Index::collected`] no
    /// other pod's is attached there.
    pub fn begin_collecting(&mut self, node: &str) -> Vec<String> {
        self.collecting.entry(node.to_owned()).or_default();
        let pods = self
            .pods
            .values()
            .filter(|known| known.node == node && known.attachment.may_hold());
        pods.map(|known| sandbox_id(&known.uid)).collect()
    }

    /// The pods to look at again.
    pub fn collected(&mut self, node: &str) -> Vec<Key> {
        self.collecting.remove(node).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
