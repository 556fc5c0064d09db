//! The accounting, shared, and fed by watches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::names::NAMESPACE;
use berth_api::subnet::Use;
use berth_api::{NodeNetworkConfig, ObservedNode, ObservedPod, Subnet};
use berth_kit::follow::follow;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::accounting::{Accounting, Settings};
use crate::facts::{NncFacts, NodeFacts, PodFacts, SubnetFacts};

/// How often to check whether a kind is defined by now. Without Berth's own kinds there are
/// podCIDRs, and that is enough.
const UNDEFINED_INTERVAL: Duration = Duration::from_secs(10);

/// How often to check whether a node has waited long enough for addresses.
const SETTLE_INTERVAL: Duration = Duration::from_secs(1);

/// Clones share it.
#[derive(Clone, Debug)]
pub struct Books {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    accounting: Mutex<Accounting>,
    /// Subnets that pods or podCIDRs come from.
    subnets: Mutex<BTreeSet<String>>,
    /// Something has changed.
    changed: watch::Sender<()>,
    /// A node has room again, and pods wait for it.
    woken: Notify,
    /// How many watches have not finished their first list.
    unsynced: watch::Sender<usize>,
}

impl Books {
    pub fn new(settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                accounting: Mutex::new(Accounting::new(settings)),
                subnets: Mutex::default(),
                changed: watch::Sender::new(()),
                woken: Notify::new(),
                unsynced: watch::Sender::new(0),
            }),
        }
    }

    /// For reads, and for changes that no watch sends. Never held across an await.
    pub fn lock(&self) -> MutexGuard<'_, Accounting> {
        self.shared.accounting.lock()
    }

    /// Changes the accounting and notifies all subscribers.
    pub fn change<T>(&self, change: impl FnOnce(&mut Accounting) -> T) -> T {
        let mut accounting = self.lock();
        let changed = change(&mut accounting);
        let has_woken = accounting.has_woken();
        drop(accounting);
        self.shared.changed.send_replace(());
        if has_woken {
            self.shared.woken.notify_one();
        }
        changed
    }

    /// Notifies of every change, until the books are dropped.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.shared.changed.subscribe()
    }

    /// Returns when nodes have been woken since the last call. One task may wait.
    pub async fn woken(&self) {
        self.shared.woken.notified().await;
    }

    pub fn subnets(&self) -> BTreeSet<String> {
        self.shared.subnets.lock().clone()
    }

    /// Starts the watches; they end with `stop`.
    pub fn follow(&self, client: &Client, tasks: &TaskTracker, stop: &CancellationToken) {
        let pods: Api<ObservedPod> = Api::all(client.clone());
        self.start(tasks, stop, pods, false, |books, event| books.pod_event(event));
        let nodes: Api<ObservedNode> = Api::all(client.clone());
        let mut known = Names::default();
        self.start(tasks, stop, nodes, false, move |books, event| {
            books.node_event(known.delta(event));
        });
        let nncs: Api<NodeNetworkConfig> = Api::namespaced(client.clone(), NAMESPACE);
        let mut known = Names::default();
        self.start(tasks, stop, nncs, true, move |books, event| {
            books.nnc_event(known.delta(event));
        });
        let subnets: Api<Subnet> = Api::all(client.clone());
        let mut known = Names::default();
        self.start(tasks, stop, subnets, true, move |books, event| {
            books.subnet_event(known.delta(event));
        });
        let (books, stop) = (self.clone(), stop.clone());
        tasks.spawn(async move { stop.run_until_cancelled(books.settle()).await });
    }

    /// Advances the time: no event does so.
    async fn settle(&self) {
        loop {
            tokio::time::sleep(SETTLE_INTERVAL).await;
            if self.lock().has_settling() {
                self.change(|accounting| accounting.advance(Timestamp::now()));
            }
        }
    }

    /// Returns once all watches have finished their first list. Nothing can be decided before.
    pub async fn synced(&self) {
        let mut unsynced = self.shared.unsynced.subscribe();
        // We own the sender: it cannot be dropped first.
        let _ = unsynced.wait_for(|unsynced| *unsynced == 0).await;
    }

    /// Returns once this many Nodes exist and the supply of each is known.
    pub async fn supplied(&self, nodes: usize) {
        let mut changes = self.changes();
        loop {
            {
                let accounting = self.lock();
                if accounting.node_count() >= nodes && accounting.is_supplied() {
                    return;
                }
            }
            // We own the sender: it cannot be dropped first.
            let _ = changes.changed().await;
        }
    }

    fn start<K>(
        &self,
        tasks: &TaskTracker,
        stop: &CancellationToken,
        api: Api<K>,
        may_be_undefined: bool,
        mut handle: impl FnMut(&Self, Event<K>) + Send + 'static,
    ) where
        K: Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Send
            + Sync
            + 'static,
    {
        self.shared.unsynced.send_modify(|unsynced| *unsynced += 1);
        let (books, stop) = (self.clone(), stop.clone());
        tasks.spawn(async move {
            let mut is_synced = false;
            let mut sync = || {
                if !std::mem::replace(&mut is_synced, true) {
                    books.shared.unsynced.send_modify(|unsynced| *unsynced -= 1);
                }
            };
            let following = async {
                if may_be_undefined && !is_defined(&api).await {
                    info!(
                        kind = %K::kind(&()),
                        "the cluster does not serve this kind; treating it as empty until it does"
                    );
                    sync();
                    while !is_defined(&api).await {
                        tokio::time::sleep(UNDEFINED_INTERVAL).await;
                    }
                }
                follow(api, ListParams::default(), |event| {
                    let is_last = matches!(event, Event::InitDone);
                    handle(&books, event);
                    if is_last {
                        sync();
                    }
                })
                .await;
            };
            stop.run_until_cancelled(following).await;
        });
    }

    fn pod_event(&self, event: Event<ObservedPod>) {
        let uid = |pod: &ObservedPod| pod.uid().unwrap_or_default();
        self.change(|accounting| match event {
            Event::Init => accounting.begin_pods(),
            Event::InitApply(pod) | Event::Apply(pod) => {
                accounting.apply_pod(&uid(&pod), &PodFacts::of(&pod))
            }
            Event::InitDone => accounting.end_pods(),
            Event::Delete(pod) => accounting.delete_pod(&uid(&pod)),
        });
    }

    fn node_event(&self, delta: Delta<ObservedNode>) {
        self.change(|accounting| {
            accounting.advance(Timestamp::now());
            let reserved = accounting.settings().reserved_per_cidr;
            if let Some(node) = delta.applied {
                accounting.apply_node(&node.name_any(), NodeFacts::of(&node, reserved));
            }
            delta.gone.iter().for_each(|name| accounting.delete_node(name));
        });
    }

    fn nnc_event(&self, delta: Delta<NodeNetworkConfig>) {
        self.change(|accounting| {
            accounting.advance(Timestamp::now());
            if let Some(nnc) = delta.applied {
                accounting.apply_nnc(&nnc.name_any(), NncFacts::of(&nnc));
            }
            delta.gone.iter().for_each(|name| accounting.delete_nnc(name));
        });
    }

    fn subnet_event(&self, delta: Delta<Subnet>) {
        {
            let mut subnets = self.shared.subnets.lock();
            subnets.retain(|name| !delta.gone.contains(name));
            if let Some(subnet) = &delta.applied
                && subnet.spec.usage != Use::Machines
            {
                subnets.insert(subnet.name_any());
            }
        }
        self.change(|accounting| {
            if let Some(subnet) = delta.applied {
                accounting.apply_subnet(&subnet.name_any(), SubnetFacts::of(&subnet));
            }
            delta.gone.iter().for_each(|name| accounting.apply_subnet(name, None));
        });
    }
}

/// One event: the object that was applied, and the names that are gone.
struct Delta<K> {
    applied: Option<K>,
    gone: Vec<String>,
}

/// The names that the watch has sent. A watch that starts again sends everything: a name that it no
/// longer sends is gone.
#[derive(Debug, Default)]
struct Names {
    known: BTreeSet<String>,
    fresh: BTreeSet<String>,
}

impl Names {
    fn delta<K: Resource<DynamicType = ()>>(&mut self, event: Event<K>) -> Delta<K> {
        let mut delta = Delta {
            applied: None,
            gone: Vec::new(),
        };
        match event {
            Event::Init => self.fresh.clear(),
            Event::InitApply(object) => {
                self.fresh.insert(object.name_any());
                self.known.insert(object.name_any());
                delta.applied = Some(object);
            }
            Event::InitDone => {
                let fresh = std::mem::take(&mut self.fresh);
                delta.gone = self.known.extract_if(.., |name| !fresh.contains(name)).collect();
            }
            Event::Apply(object) => {
                self.known.insert(object.name_any());
                delta.applied = Some(object);
            }
            Event::Delete(object) => {
                self.known.remove(&object.name_any());
                delta.gone.push(object.name_any());
            }
        }
        delta
    }
}

/// Whether the API server has the kind. On other errors the watch goes ahead and reports them.
async fn is_defined<K>(api: &Api<K>) -> bool
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => false,
        Err(error) => {
            warn!(
                %error,
                kind = %K::kind(&()),
                "cannot find out whether the cluster serves this kind; watching it anyway"
            );
            true
        }
        Ok(_) => true,
    }
}
