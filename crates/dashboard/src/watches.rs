//! The I/O between the API server and the index: a watch for each kind.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use berth_api::machines::cluster;
use berth_api::{
    AddressBlock, ClusterSubnetState, NodeNetworkConfig, ObservedNode, ObservedPod, Subnet, names,
};
use berth_kit::api_error::is_not_found;
use berth_kit::watch::{Change, Key, changes};
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Resource};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::debug;

use crate::index::Index;

/// The delay before a missing kind is looked for again.
const MISSING_INTERVAL: Duration = Duration::from_secs(15);

/// Machines are in one of two groups.
const MACHINE_GROUPS: [&str; 2] = ["machine.k8s.io", "cluster.k8s.io"];

/// The group of Clusters with their own machines.
const CLUSTER_GROUP: &str = "kubermatic.k8s.io";

/// The target of the watches: the index, and a number that grows with every change.
#[derive(Clone, Debug)]
pub struct Feed {
    pub index: Arc<RwLock<Index>>,
    pub version: watch::Sender<u64>,
}

/// All kinds that are watched, by the names that [`run`] gives them.
const KINDS: [&str; 11] = [
    "Node",
    "NodeNetworkConfig",
    "Subnet",
    "ClusterSubnetState",
    "AddressBlock",
    "Pod",
    "Event",
    "Lease",
    MACHINE_GROUPS[0],
    MACHINE_GROUPS[1],
    CLUSTER_GROUP,
];

/// Runs for ever.
pub async fn run(client: Client, feed: Feed) {
    let machines = MACHINE_GROUPS.map(|group| {
        let kind = GroupVersionKind::gvk(group, "v1alpha1", "Machine");
        let resource = ApiResource::from_gvk_with_plural(&kind, "machines");
        (group, Api::<DynamicObject>::all_with(client.clone(), &resource))
    });
    let [(group, one), (other_group, other)] = machines;
    let clusters = Api::<DynamicObject>::all_with(client.clone(), &cluster::resource());
    let leases = Api::<Lease>::namespaced(client.clone(), names::NAMESPACE);
    let all = &feed;
    tokio::join!(
        all.kind::<ObservedNode>(Api::all(client.clone()), "Node", |index, change| match change {
            Update::Apply(node) => index.apply_node(node),
            Update::Delete(key) => index.delete_node(&key.name),
        }),
        all.kind::<NodeNetworkConfig>(
            Api::all(client.clone()),
            "NodeNetworkConfig",
            |index, change| match change {
                Update::Apply(nnc) => index.apply_nnc(nnc),
                Update::Delete(key) => index.delete_nnc(&key.name),
            }
        ),
        all.kind::<Subnet>(Api::all(client.clone()), "Subnet", |index, change| match change {
            Update::Apply(subnet) => index.apply_subnet(subnet),
            Update::Delete(key) => index.delete_subnet(&key.name),
        }),
        all.kind::<ClusterSubnetState>(
            Api::all(client.clone()),
            "ClusterSubnetState",
            |index, change| match change {
                Update::Apply(state) => index.apply_subnet_state(state),
                Update::Delete(key) => index.delete_subnet_state(&key.name),
            }
        ),
        all.kind::<AddressBlock>(Api::all(client.clone()), "AddressBlock", |index, change| {
            match change {
                Update::Apply(block) => index.apply_block(block),
                Update::Delete(key) => index.delete_block(&key.name),
            }
        }),
        all.kind::<ObservedPod>(Api::all(client.clone()), "Pod", |index, change| match change {
            Update::Apply(pod) => index.apply_pod(pod),
            Update::Delete(key) => index.delete_pod(key),
        }),
        all.kind::<Event>(Api::all(client.clone()), "Event", |index, change| match change {
            Update::Apply(event) => index.apply_event(event),
            Update::Delete(key) => index.delete_event(key),
        }),
        all.kind::<Lease>(leases, "Lease", |index, change| match change {
            Update::Apply(lease) => index.apply_lease(lease),
            Update::Delete(key) => index.delete_lease(&key.name),
        }),
        all.kind(one, group, move |index, change| match change {
            Update::Apply(machine) => index.apply_machine(group, machine),
            Update::Delete(key) => index.delete_machine(group, key),
        }),
        all.kind(other, other_group, move |index, change| match change {
            Update::Apply(machine) => index.apply_machine(other_group, machine),
            Update::Delete(key) => index.delete_machine(other_group, key),
        }),
        all.kind(clusters, CLUSTER_GROUP, |index, change| match change {
            Update::Apply(cluster) => index.apply_cluster(cluster),
            Update::Delete(key) => index.delete_cluster(&key.name),
        }),
    );
}

enum Update<'a, K> {
    Apply(&'a K),
    Delete(&'a Key),
}

impl Feed {
    /// Makes a feed for a cluster of which nothing is known yet.
    pub fn new() -> Self {
        let mut index = Index::default();
        index.unsynced.extend(KINDS.map(str::to_owned));
        Self {
            index: Arc::new(RwLock::new(index)),
            version: watch::Sender::new(0),
        }
    }

    /// Boxed: together these futures are too large for the stack of a thread.
    fn kind<'a, K>(
        &'a self,
        api: Api<K>,
        name: &'a str,
        apply: impl Fn(&mut Index, Update<'_, K>) + Send + Sync + 'a,
    ) -> BoxFuture<'a, ()>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let watching = async move {
            self.wait_until_defined(&api, name).await;
            changes(api, ListParams::default(), |change| match change {
                Change::Apply(object) => self.write(|index| apply(index, Update::Apply(&object))),
                Change::Delete(key) => self.write(|index| apply(index, Update::Delete(&key))),
                Change::Restarted => {}
                Change::Synced => self.write(|index| {
                    index.unsynced.remove(name);
                }),
            })
            .await;
        };
        watching.boxed()
    }

    /// A missing kind counts as empty, and is looked for again at intervals. The watch retries and
    /// logs any other error.
    async fn wait_until_defined<K>(&self, api: &Api<K>, name: &str)
    where
        K: Clone + Debug + DeserializeOwned,
    {
        loop {
            match api.list_metadata(&ListParams::default().limit(1)).await {
                Err(error) if is_not_found(&error) => {}
                _ => break,
            }
            debug!(
                kind = name,
                "the cluster does not serve this kind; treating it as empty"
            );
            self.write(|index| {
                index.unsynced.remove(name);
                index.mark_missing(name);
            });
            tokio::time::sleep(MISSING_INTERVAL).await;
        }
        self.write(|index| index.mark_found(name));
    }

    /// Holds the lock for one change only: readers wait no longer.
    fn write(&self, on: impl FnOnce(&mut Index)) {
        on(&mut self.index.write());
        self.version.send_modify(|version| *version += 1);
    }
}
