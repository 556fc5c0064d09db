//! What only this store promises. What all of them promise is in `tests/ledger/stores.rs`.

use std::os::unix::fs::PermissionsExt;

use redb::{Builder, ReadableTable};
use tempfile::TempDir;

use super::*;
use crate::owner::{Kind, Owner};
use crate::record::{LeaseId, Record, Tenure};
use crate::store::Version;

fn key(first: &str) -> BlockKey {
    BlockKey {
        subnet: "pods".to_owned(),
        first: first.parse().unwrap(),
    }
}

fn write(first: &str, expected: Option<Version>) -> Write {
    let owner = Owner::new(Kind::Machine, "c", "m", "").unwrap();
    let lease = LeaseId::from_u128(1);
    let record = Record::new(
        [(
            7,
            Tenure {
                owner,
                lease,
                since: 3,
            },
        )],
        [(8, 5)],
    )
    .unwrap();
    Write {
        key: key(first),
        expected,
        record: Some(Arc::new(record)),
    }
}

async fn done(store: &RedbStore, write: Write) -> Option<Version> {
    match store.write(vec![write]).await[..] {
        [Written::Done(version)] => version,
        ref other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn nothing_is_lost_when_the_file_is_opened_again() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("ledger.redb");
    let store = RedbStore::open(&path).unwrap();
    done(&store, write("10.64.0.0/32", None)).await;
    done(&store, write("fd64::100/128", None)).await;
    let before = store.load("pods").await.unwrap();
    drop(store);
    let store = RedbStore::open(&path).unwrap();
    assert_eq!(store.load("pods").await.unwrap(), before);
    assert_eq!(before.len(), 2);
}

#[tokio::test]
async fn versions_keep_growing_after_the_file_is_reopened_empty() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("ledger.redb");
    let store = RedbStore::open(&path).unwrap();
    let first = done(&store, write("10.64.0.0/32", None)).await;
    let removal = Write {
        record: None,
        ..write("10.64.0.0/32", first)
    };
    assert_eq!(done(&store, removal).await, None);
    drop(store);
    let store = RedbStore::open(&path).unwrap();
    assert!(done(&store, write("10.64.0.0/32", None)).await > first);
}

#[tokio::test]
async fn an_unreadable_block_is_an_error_that_names_it_and_is_kept() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("ledger.redb");
    let store = RedbStore::open(&path).unwrap();
    let version = done(&store, write("10.64.0.0/32", None)).await;
    drop(store);
    let database = Builder::new().open(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let place = file::place("10.64.0.0/32".parse().unwrap());
        let mut blocks = transaction.open_table(file::BLOCKS).unwrap();
        let mut value = blocks.get(("pods", &place)).unwrap().unwrap().value().to_vec();
        value[20] ^= 1;
        blocks.insert(("pods", &place), value.as_slice()).unwrap();
        blocks.insert(("other", &place), &[0; 3][..]).unwrap();
    }
    transaction.commit().unwrap();
    drop(database);

    let store = RedbStore::open(&path).unwrap();
    let error = store.load("pods").await.unwrap_err().to_string();
    assert!(error.contains("10.64.0.0/32 of subnet pods"), "{error}");
    assert_eq!(store.read(&key("10.64.0.0/32")).await.unwrap_err().to_string(), error);
    let mut torn = write("10.64.0.0/32", version);
    torn.key.subnet = "other".to_owned();
    assert_eq!(store.write(vec![torn]).await, [Written::Unknown]);
    assert!(store.load("other").await.is_err());
}

#[test]
fn the_file_is_for_its_owner_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("ledger.redb");
    let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
    drop(RedbStore::open(&path).unwrap());
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    drop(RedbStore::open(&path).unwrap());
    assert_eq!(mode(), 0o600);
}

#[test]
fn what_cannot_be_opened_names_the_file_and_what_to_do() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("ledger.redb");
    let why = |path: &Path| RedbStore::open(path).unwrap_err().to_string();
    let store = RedbStore::open(&path).unwrap();
    let in_use = why(&path);
    assert!(
        in_use.contains("ledger.redb: it is in use by another process"),
        "{in_use}"
    );
    drop(store);

    std::fs::write(&path, [7; 4096]).unwrap();
    let damaged = why(&path);
    assert!(damaged.contains("ledger.redb: it is damaged"), "{damaged}");
    let missing = why(&directory.path().join("none/ledger.redb"));
    assert!(missing.contains("name a file that you may write to"), "{missing}");
}

#[test]
fn a_file_of_a_newer_format_is_left_as_it_is() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("ledger.redb");
    let database = Builder::new().create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction
        .open_table(file::NUMBERS)
        .unwrap()
        .insert(file::FORMAT, 9)
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    let before = std::fs::read(&path).unwrap();
    let error = RedbStore::open(&path).unwrap_err().to_string();
    let expected = "ledger.redb: it is in format 9, and this program knows formats up to 1: run the \
                    newer Berth";
    assert!(error.contains(expected), "{error}");
    assert!(std::fs::read(&path).unwrap() == before, "not a byte of it has changed");
}
