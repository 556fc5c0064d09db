//! What an earlier allocator kept, see `testdata/stores`: this one has the same subnets, and every
//! address is its owner's.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_kit::metrics::Metrics;
use berth_ledger::store::RedbStore;
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::allocator::{Allocator, Registry};
use berth_nodenet::service::{Limits, PlanFile, Service};
use berth_testkit::{stores, until_ok};
use tokio_util::sync::CancellationToken;

use super::world::{World, of, plan, request};

const NODES: [(&str, &str); 3] = [("blue", "a"), ("blue", "b"), ("green", "a")];

/// Containers, by address.
type Owners = BTreeMap<String, String>;

/// A service on the files of a directory.
async fn open(directory: &Path) -> World {
    let path = directory.join("ledger.redb");
    let store = until_ok("it is closed", async || RedbStore::open(&path)).await;
    World::beside(Arc::new(store), Arc::new(PlanFile::beside(&path))).await
}

async fn owners(world: &World) -> Owners {
    let mut owners = Owners::new();
    for (cluster, name) in NODES {
        let nc = world
            .client(cluster)
            .get("pods", &of(cluster, name))
            .await
            .unwrap()
            .unwrap();
        let pods = nc.secondaries.iter().flat_map(|lease| &lease.units);
        for unit in nc.primary.iter().chain(pods) {
            let before = owners.insert(unit.to_string(), format!("{cluster}/{name}"));
            assert_eq!(before, None, "{unit} has two owners");
        }
    }
    owners
}

#[tokio::test]
#[ignore = "writes test data: see docs/testing.md"]
async fn write_what_is_kept() {
    let kept = stores::keep();
    let directory = kept.join("allocator");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir(&directory).unwrap();
    let mut world = open(&directory).await;
    let subnet = plan(&["10.64.0.0/24", "fd64::/64"]);
    for (number, (cluster, name)) in (1..).zip(NODES) {
        let client = world.client(cluster);
        client
            .set_subnet("pods", &subnet, Duration::from_secs(30))
            .await
            .unwrap();
        client.create("pods", &of(cluster, name)).await.unwrap();
        client
            .update("pods", &of(cluster, name), request(number, 4))
            .await
            .unwrap();
    }
    let text = serde_json::to_string_pretty(&owners(&world).await).unwrap();
    world.stop().await;
    std::fs::write(kept.join("allocator.owners.json"), text + "\n").unwrap();
}

#[tokio::test]
async fn a_kept_allocator_has_its_subnets_and_every_address_its_owner() {
    for kept in stores::kept() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["ledger.redb", "ledger.redb.subnets.json"] {
            std::fs::copy(kept.join("allocator").join(name), directory.path().join(name)).unwrap();
        }
        let world = open(directory.path()).await;
        let expected = std::fs::read(kept.join("allocator.owners.json")).unwrap();
        let expected: Owners = serde_json::from_slice(&expected).unwrap();
        assert!(!expected.is_empty());
        assert_eq!(owners(&world).await, expected, "{}", kept.display());
    }
}

#[tokio::test]
async fn an_address_plan_of_a_newer_format_is_refused_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.redb");
    let kept = stores::kept().pop().unwrap().join("allocator/ledger.redb.subnets.json");
    let text = std::fs::read_to_string(kept).unwrap();
    let later = text.replacen('{', r#"{"format": 9, "new": 1, "#, 1);
    let file = directory.path().join("ledger.redb.subnets.json");
    std::fs::write(&file, &later).unwrap();
    let store = Arc::new(RedbStore::open(&path).unwrap());
    let ledger = Ledger::new(store, Clock::system(), LedgerMetrics::unregistered());
    let (metrics, stop) = (Metrics::new("0.0.0"), CancellationToken::new());
    let plan = Arc::new(PlanFile::beside(&path));
    let opened = Service::open(ledger, plan, &metrics, Limits::default(), stop).await;
    let error = opened.err().unwrap().to_string();
    let expected = "ledger.redb.subnets.json: it is in format 9, and this program knows formats up \
                    to 1: run the newer Berth that wrote it";
    assert!(error.contains(expected), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), later);
}
