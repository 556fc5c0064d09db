//! The central promise, on stores that others share: a real etcd, and a real kube-apiserver.

#[path = "../ledger/model/faults.rs"]
mod faults;
#[path = "../ledger/model/run.rs"]
mod run;

use std::sync::Arc;

use berth_ledger::store::{EtcdStore, KubernetesStore, Store};
use kube::Client;
use run::{Amount, Run};

use crate::servers;

const AMOUNT: Amount = Amount {
    crashes: 400,
    steps: 20,
    waits: false,
};

async fn run(store: Arc<dyn Store>, seed: u64) {
    let mut run = Run::new(seed, AMOUNT);
    while !run.is_over() {
        run.round(Arc::clone(&store)).await;
    }
}

#[tokio::test]
async fn hundreds_of_deaths_on_etcd() {
    let endpoints = [servers::etcd().to_owned()];
    let store = EtcdStore::connect(&endpoints, "/model", None).await.unwrap();
    run(Arc::new(store), 1).await;
}

#[tokio::test]
async fn hundreds_of_deaths_on_kubernetes() {
    let client = Client::try_from(servers::config().await).unwrap();
    run(Arc::new(KubernetesStore::new(client)), 2).await;
}
