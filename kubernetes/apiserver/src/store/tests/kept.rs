//! Files of earlier programs, see `testdata/stores`: this program finds every object in them. It
//! refuses a file of a later program and leaves it as it is.

use berth_kit::redb_file;
use berth_testkit::stores;

use super::*;

const COUNT: u64 = 20;

#[tokio::test]
#[ignore = "writes test data: see docs/testing.md"]
async fn write_what_is_kept() {
    let directory = stores::keep().join("objects");
    let _ = std::fs::remove_dir_all(&directory);
    let store = Store::open(&directory, 100).unwrap();
    for number in 0..COUNT {
        let name = format!("pod-{number}");
        put(&store, &name, Change::Create(draft(&name, number))).await.unwrap();
    }
}

#[tokio::test]
async fn every_object_of_a_kept_file_is_found() {
    for kept in stores::kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("objects.redb");
        std::fs::copy(kept.join("objects/objects.redb"), path).unwrap();
        let store = Store::open(directory.path(), 100).unwrap();
        for number in 0..COUNT {
            let found = store.get(&Key::new(TABLE, "ns", &format!("pod-{number}"))).unwrap();
            assert_eq!(mark(&found), number, "{}", kept.display());
        }
        let made = put(&store, "new", Change::Create(draft("new", 1))).await.unwrap();
        assert!(made.version > COUNT, "versions go on");
    }
}

#[test]
fn a_file_of_a_later_format_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("objects.redb");
    let database = redb::Builder::new().create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut numbers = transaction.open_table(redb_file::NUMBERS).unwrap();
    numbers.insert(redb_file::FORMAT, 9).unwrap();
    drop(numbers);
    transaction.commit().unwrap();
    drop(database);
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(directory.path(), 100).unwrap_err().to_string();
    let expected = "objects.redb: it is in format 9, and this program knows formats up to 1: run \
                    the newer Berth";
    assert!(error.contains(expected), "{error}");
    assert!(std::fs::read(&path).unwrap() == before, "not a byte of it has changed");
}
