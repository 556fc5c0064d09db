//! Stores that earlier programs wrote, see `testdata/stores`: this one finds every unit with its
//! owner. What a later one wrote is refused, and stays as it is.

mod content;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Plan;
use berth_api::AddressBlock;
use berth_api::names::NAMESPACE;
use berth_apiserver::{Options, Server};
use berth_ledger::store::{KubernetesStore, RedbStore};
use berth_ledger::{Clock, Ledger, LedgerMetrics, check_format};
use berth_testkit::stores;
use content::Owners;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use tempfile::TempDir;

use crate::stores::crds;

const PLAN: &str = "berth-address-plan";

async fn server() -> Server {
    let server = Server::open(Options::default()).await.unwrap();
    crds::establish(server.client()).await;
    server
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn write(path: &Path, content: &impl serde::Serialize) {
    let mut text = serde_json::to_string_pretty(content).unwrap();
    text.push('\n');
    std::fs::write(path, text).unwrap();
}

/// Without what a server adds.
fn bare(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        labels: metadata.labels.clone(),
        ..ObjectMeta::default()
    }
}

fn objects(client: &Client) -> (Api<AddressBlock>, Api<ConfigMap>) {
    let plans = Api::namespaced(client.clone(), NAMESPACE);
    (Api::all(client.clone()), plans)
}

#[tokio::test]
#[ignore = "writes test data: see docs/testing.md"]
async fn write_what_is_kept() {
    let directory = stores::keep();
    let path = directory.join("ledger.redb");
    let _ = std::fs::remove_file(&path);
    content::fill(Arc::new(RedbStore::open(&path).unwrap())).await;
    // What was filled may still hold the file for a moment.
    let store = berth_testkit::until_ok("it is closed", async || RedbStore::open(&path)).await;
    let owners = content::owners(&content::open(Arc::new(store)).await).await;
    write(&directory.join("ledger.redb.owners.json"), &owners);

    let server = server().await;
    content::fill(Arc::new(KubernetesStore::new(server.client()))).await;
    let (blocks, plans) = objects(&server.client());
    let mut listed = blocks.list(&ListParams::default()).await.unwrap().items;
    for block in &mut listed {
        block.metadata = bare(&block.metadata);
    }
    write(&directory.join("address-blocks.json"), &listed);
    let mut plan = plans.get(PLAN).await.unwrap();
    plan.metadata = bare(&plan.metadata);
    write(&directory.join("address-plan.json"), &plan);
    let store = Arc::new(KubernetesStore::new(server.client()));
    let owners = content::owners(&content::open(store).await).await;
    write(&directory.join("address-blocks.owners.json"), &owners);
}

#[tokio::test]
async fn every_unit_of_a_kept_redb_file_has_its_owner() {
    for kept in stores::kept() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("ledger.redb");
        std::fs::copy(kept.join("ledger.redb"), &path).unwrap();
        let ledger = content::open(Arc::new(RedbStore::open(&path).unwrap())).await;
        let expected: Owners = read(&kept.join("ledger.redb.owners.json"));
        assert!(!expected.is_empty());
        assert_eq!(content::owners(&ledger).await, expected, "{}", kept.display());
    }
}

#[tokio::test]
async fn every_unit_of_kept_address_blocks_has_its_owner() {
    for kept in stores::kept() {
        let server = server().await;
        let (blocks, plans) = objects(&server.client());
        for block in read::<Vec<AddressBlock>>(&kept.join("address-blocks.json")) {
            blocks.create(&PostParams::default(), &block).await.unwrap();
        }
        let plan: ConfigMap = read(&kept.join("address-plan.json"));
        plans.create(&PostParams::default(), &plan).await.unwrap();
        let store = Arc::new(KubernetesStore::new(server.client()));
        let ledger = content::open(store).await;
        let expected: Owners = read(&kept.join("address-blocks.owners.json"));
        assert!(!expected.is_empty());
        assert_eq!(content::owners(&ledger).await, expected, "{}", kept.display());
    }
}

/// AddressBlocks and plan as they are kept, with these changes of a later program.
async fn changed(
    block: impl Fn(&mut AddressBlock),
    plan: impl Fn(&mut String),
) -> (Server, serde_json::Value) {
    let kept = stores::kept().pop().unwrap();
    let server = server().await;
    let (blocks, plans) = objects(&server.client());
    for mut one in read::<Vec<AddressBlock>>(&kept.join("address-blocks.json")) {
        block(&mut one);
        blocks.create(&PostParams::default(), &one).await.unwrap();
    }
    let mut one: ConfigMap = read(&kept.join("address-plan.json"));
    one.data.as_mut().unwrap().values_mut().for_each(plan);
    plans.create(&PostParams::default(), &one).await.unwrap();
    let all = all(&server.client()).await;
    (server, all)
}

/// With their resourceVersions: nobody has written them since.
async fn all(client: &Client) -> serde_json::Value {
    let (blocks, plans) = objects(client);
    let blocks = blocks.list(&ListParams::default()).await.unwrap().items;
    serde_json::json!([blocks, plans.get(PLAN).await.unwrap()])
}

fn ledger(server: &Server) -> Ledger {
    let store = Arc::new(KubernetesStore::new(server.client()));
    Ledger::new(store, Clock::system(), LedgerMetrics::unregistered())
}

fn pods() -> Plan {
    Plan {
        cidrs: vec!["10.64.0.0/22".parse().unwrap(), "fd64::/64".parse().unwrap()],
        ..Plan::default()
    }
}

#[tokio::test]
async fn an_address_block_of_a_newer_format_is_refused_and_kept() {
    let later = |block: &mut AddressBlock| {
        if block.spec.first == "10.64.0.0/32" {
            block.spec.format = Some(9);
        }
    };
    let (server, before) = changed(later, |_| {}).await;
    let error = ledger(&server).set_subnet("pods", &pods(), Duration::ZERO).await;
    let error = error.unwrap_err().to_string();
    let expected = "AddressBlock pods-10.64.0.0 can't be read: spec.format: it is in format 9, and \
                    this program knows formats up to 1: run the newer Berth that wrote it";
    assert!(error.contains(expected), "{error}");
    assert_eq!(all(&server.client()).await, before);
}

#[tokio::test]
async fn an_address_plan_of_a_newer_format_is_refused_and_kept() {
    let later = |text: &mut String| *text = text.replacen('{', r#"{"format": 9, "new": 1, "#, 1);
    let (server, before) = changed(|_| {}, later).await;
    let ledger = ledger(&server);
    // As controllers do: then the plan says whose subnets these are.
    ledger.require_claims("blue");
    let store = KubernetesStore::new(server.client());
    let errors = [
        ledger.set_subnet("pods", &pods(), Duration::ZERO).await.unwrap_err(),
        ledger
            .set_subnet("other", &plan_of("10.9.0.0/24"), Duration::ZERO)
            .await
            .unwrap_err(),
        ledger.begin_epoch().await.unwrap_err(),
        check_format(&store).await.unwrap_err().into(),
    ];
    for error in errors.map(|error| error.to_string()) {
        let expected = "the address plan in ConfigMap kube-system/berth-address-plan can't be \
                        read: it is in format 9, and this program knows formats up to 1: run the \
                        newer Berth";
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(all(&server.client()).await, before);
}

fn plan_of(cidr: &str) -> Plan {
    Plan {
        cidrs: vec![cidr.parse().unwrap()],
        ..Plan::default()
    }
}
