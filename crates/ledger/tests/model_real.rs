//! The central promise, on stores that others share: a real etcd, and a real kube-apiserver.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "model/faults.rs"]
mod faults;
#[path = "model/run.rs"]
mod run;
#[path = "stores_real/servers.rs"]
mod servers;

use std::sync::Arc;

use berth_ledger::store::{EtcdStore, KubernetesStore};
use kube::Client;
use run::Amount;

const AMOUNT: Amount = Amount {
    crashes: 400,
    steps: 20,
};

#[tokio::test]
async fn hundreds_of_deaths_on_etcd() {
    let endpoints = [servers::etcd().to_owned()];
    let store = EtcdStore::connect(&endpoints, "/model", None).await.unwrap();
    run::run(Arc::new(store), 1, AMOUNT).await;
}

#[tokio::test]
async fn hundreds_of_deaths_on_kubernetes() {
    let client = Client::try_from(servers::config().await).unwrap();
    run::run(Arc::new(KubernetesStore::new(client)), 2, AMOUNT).await;
}
