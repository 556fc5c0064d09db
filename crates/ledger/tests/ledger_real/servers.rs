//! The servers that all tests of this program share.

#[path = "../ledger/stores/crds.rs"]
mod crds;

use std::sync::LazyLock;

use berth_testbed::{Cluster, logs_of};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::sync::OnceCell;

fn cluster() -> &'static Cluster {
    static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| {
        let program = env!("CARGO_CRATE_NAME");
        let cluster = Cluster::named(program).without_controllers();
        cluster.logs(logs_of(program).unwrap()).start().unwrap()
    });
    &CLUSTER
}

/// Where etcd serves clients.
pub fn etcd() -> &'static str {
    cluster().control_plane().etcd()
}

/// For a client of the API server, which knows AddressBlocks.
pub async fn config() -> Config {
    static CRDS: OnceCell<()> = OnceCell::const_new();
    let kubeconfig = Kubeconfig::read_from(cluster().kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = Client::try_from(config.clone()).unwrap();
    CRDS.get_or_init(async || crds::establish(client).await).await;
    config
}
