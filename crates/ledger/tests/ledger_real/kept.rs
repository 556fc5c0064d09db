//! What earlier programs wrote into etcd, see `testdata/stores`: this one finds every unit with its
//! owner. What a later one wrote is refused, and stays as it is.

#[path = "../ledger/kept/content.rs"]
mod content;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Plan;
use berth_ledger::store::{EtcdDocument, EtcdStore, Store};
use berth_ledger::{Clock, Ledger, LedgerMetrics, check_format};
use berth_testkit::stores;
use content::Owners;

use crate::servers;

/// Values in hexadecimal, by their keys without the prefix.
type Dump = BTreeMap<String, String>;

/// A key below the ledger's prefix, as it is.
fn raw(prefix: &str, key: &str) -> EtcdDocument {
    EtcdDocument::new(&[servers::etcd().to_owned()], prefix, key, None).unwrap()
}

async fn connect(prefix: &str) -> Arc<dyn Store> {
    let endpoints = [servers::etcd().to_owned()];
    Arc::new(EtcdStore::connect(&endpoints, prefix, None).await.unwrap())
}

/// The names of all keys.
async fn keys(store: &dyn Store) -> Vec<String> {
    let mut keys = vec!["plan".to_owned()];
    for subnet in store.subnets().await.unwrap() {
        for block in store.load(&subnet).await.unwrap() {
            let name = match block.key.first.first() {
                std::net::IpAddr::V4(address) => address.to_string(),
                std::net::IpAddr::V6(address) => {
                    address.segments().map(|group| format!("{group:x}")).join(".")
                }
            };
            keys.push(format!("blocks/{subnet}/{name}"));
        }
    }
    keys
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn write(path: &Path, content: &impl serde::Serialize) {
    let text = serde_json::to_string_pretty(content).unwrap();
    std::fs::write(path, text + "\n").unwrap();
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .map(|digit| digit.to_digit(16).unwrap().try_into().unwrap())
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[tokio::test]
#[ignore = "writes test data: see docs/testing.md"]
async fn write_what_is_kept() {
    let prefix = "/write-what-is-kept";
    let directory = stores::keep();
    let store = connect(prefix).await;
    content::fill(Arc::clone(&store)).await;
    let mut dump = Dump::new();
    for key in keys(&*store).await {
        let (_, value) = raw(prefix, &key).read().await.unwrap().unwrap();
        let hex: Vec<String> = value.iter().map(|byte| format!("{byte:02x}")).collect();
        dump.insert(key, hex.concat());
    }
    write(&directory.join("etcd.json"), &dump);
    let ledger = content::open(store).await;
    write(&directory.join("etcd.owners.json"), &content::owners(&ledger).await);
}

#[tokio::test]
async fn every_unit_of_kept_etcd_keys_has_its_owner() {
    for (n, kept) in stores::kept().into_iter().enumerate() {
        let prefix = format!("/kept-{n}");
        for (key, value) in read::<Dump>(&kept.join("etcd.json")) {
            assert!(raw(&prefix, &key).swap(from_hex(&value), None).await.unwrap());
        }
        let ledger = content::open(connect(&prefix).await).await;
        let expected: Owners = read(&kept.join("etcd.owners.json"));
        assert!(!expected.is_empty());
        assert_eq!(content::owners(&ledger).await, expected, "{}", kept.display());
    }
}

/// The kept keys under this prefix, with one of them as a later program would have it. Gives why a
/// ledger does not use it.
async fn refused(prefix: &str, changed: &str, change: impl Fn(&mut Vec<u8>)) -> String {
    let kept: Dump = read(&stores::kept().pop().unwrap().join("etcd.json"));
    let mut before = Vec::new();
    for (key, value) in kept {
        let mut value = from_hex(&value);
        if key == changed {
            change(&mut value);
        }
        let document = raw(prefix, &key);
        assert!(document.swap(value, None).await.unwrap());
        before.push((document.read().await.unwrap(), document));
    }
    let store = connect(prefix).await;
    let known = check_format(&*store).await;
    let ledger = Ledger::new(store, Clock::system(), LedgerMetrics::unregistered());
    let plan = Plan {
        cidrs: vec!["10.64.0.0/22".parse().unwrap(), "fd64::/64".parse().unwrap()],
        ..Plan::default()
    };
    let error = match known {
        Ok(()) => ledger.set_subnet("pods", &plan, Duration::ZERO).await.unwrap_err(),
        Err(error) => {
            assert!(ledger.begin_epoch().await.is_err());
            error.into()
        }
    };
    for (before, document) in before {
        // With their revisions: nobody has written them since.
        assert_eq!(document.read().await.unwrap(), before, "{}", document.key());
    }
    error.to_string()
}

#[tokio::test]
async fn a_block_of_a_later_format_is_refused_and_left_as_it_is() {
    let key = "blocks/pods/10.64.0.0";
    let error = refused("/later-block", key, |value| value[0] = 9).await;
    let expected = "the block /later-block/blocks/pods/10.64.0.0 can't be read: it is in format 9, \
                    and this program knows formats up to 2; run the newer Berth that wrote it";
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn a_plan_of_a_later_format_is_refused_and_left_as_it_is() {
    let later = |value: &mut Vec<u8>| {
        let text = String::from_utf8(std::mem::take(value)).unwrap();
        *value = text.replacen('{', r#"{"format": 9, "new": 1, "#, 1).into_bytes();
    };
    let error = refused("/later-plan", "plan", later).await;
    let expected = "the address plan in etcd's key /later-plan/plan can't be read: it is in format \
                    9, and this program knows formats up to 1: run the newer Berth that wrote it";
    assert!(error.contains(expected), "{error}");
}
