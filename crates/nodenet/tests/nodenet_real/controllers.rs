//! The scenarios of `embedded`, on a real kube-apiserver with the controllers that clusters have,
//! and with the ledger in AddressBlocks. Those that wait for many minutes, or need faults on the
//! way to the server, are played there alone.

#[path = "../nodenet/embedded/agents.rs"]
mod agents;
#[path = "../nodenet/embedded/bad_input.rs"]
mod bad_input;
#[path = "../nodenet/embedded/containers.rs"]
mod containers;
#[path = "../nodenet/embedded/families.rs"]
mod families;
#[path = "../nodenet/embedded/pod_cidrs.rs"]
mod pod_cidrs;
#[path = "../nodenet/embedded/restarts.rs"]
mod restarts;
#[allow(dead_code, reason = "some of its words are for scenarios that are not played here")]
#[path = "../nodenet/embedded/scene.rs"]
mod scene;
#[path = "../nodenet/embedded/subnet_states.rs"]
mod subnet_states;
#[path = "../nodenet/embedded/subnets.rs"]
mod subnets;
#[path = "../nodenet/embedded/waiting.rs"]
mod waiting;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use berth_api::names::NAMESPACE;
use berth_api::{AddressBlock, ClusterSubnetState, NodeNetworkConfig, Subnet};
use berth_ledger::store::KubernetesStore;
use berth_testbed::Cluster;
use berth_testkit::until;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, Resource, ResourceExt};
use scene::{Pace, Scene};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::runtime::Runtime;

/// Each has a whole cluster, and leaves it empty.
fn play(scenario: impl AsyncFnOnce(Scene)) {
    let cluster = berth_testbed::borrow_control_plane().unwrap();
    let runtime = Runtime::new().unwrap();
    let ended = runtime.block_on(async {
        let acting = controller(&cluster).await;
        let store = Arc::new(KubernetesStore::new(acting.clone()));
        let scene = Scene::new(connect(&cluster).await, store, Pace::Running).await;
        let scene = scene.acting_as(acting);
        AssertUnwindSafe(scenario(scene)).catch_unwind().await
    });
    // Whatever the scenario has started ends with its runtime, before its objects go.
    drop(runtime);
    Runtime::new().unwrap().block_on(clear(&cluster));
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
}

/// An administrator.
async fn connect(cluster: &Cluster) -> Client {
    connect_by(&cluster.kubeconfig()).await
}

/// The controllers act under their own roles.
async fn controller(cluster: &Cluster) -> Client {
    let roles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/rbac");
    for file in ["controller.yaml", "nodeipam.yaml"] {
        cluster.apply(&roles.join(file)).unwrap();
    }
    let kubeconfig = cluster.kubeconfig_of_account(NAMESPACE, "berth-controller", None);
    connect_by(&kubeconfig.unwrap()).await
}

async fn connect_by(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn clear(cluster: &Cluster) {
    let client = connect(cluster).await;
    remove_all::<Node>(Api::all(client.clone())).await;
    remove_all::<NodeNetworkConfig>(Api::namespaced(client.clone(), NAMESPACE)).await;
    remove_all::<Subnet>(Api::all(client.clone())).await;
    remove_all::<ClusterSubnetState>(Api::namespaced(client.clone(), NAMESPACE)).await;
    remove_all::<AddressBlock>(Api::all(client.clone())).await;
    for namespace in ["default", NAMESPACE] {
        remove_all::<Event>(Api::namespaced(client.clone(), namespace)).await;
    }
}

async fn remove_all<K>(api: Api<K>)
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let (all, params) = (ListParams::default(), PatchParams::default());
    let unheld = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    until("all are gone", async || {
        // Each time again: the cluster's own controllers go on to write, events above all.
        api.delete_collection(&DeleteParams::background(), &all).await.unwrap();
        let left = api.list(&all).await.unwrap().items;
        for object in left.iter().filter(|object| !object.finalizers().is_empty()) {
            // It may be gone by now.
            drop(api.patch(&object.name_any(), &params, &unheld).await);
        }
        left.is_empty().then_some(())
    })
    .await;
}
