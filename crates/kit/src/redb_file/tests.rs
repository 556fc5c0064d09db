use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;

const CACHE: usize = 1 << 20;

fn at(path: &Path) -> File {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

/// A file in this format with this many numbers, left as a crash leaves it, or closed.
fn written(directory: &TempDir, format: u64, numbers: u64, crash: bool) -> std::path::PathBuf {
    let path = directory.path().join("it.redb");
    let (database, found) = open(at(&path), CACHE, format).unwrap();
    assert_eq!(found, None);
    for number in 0..numbers {
        let transaction = database.begin_write().unwrap();
        let mut table = transaction.open_table(NUMBERS).unwrap();
        table.insert(FORMAT, format).unwrap();
        table.insert(number.to_string().as_str(), number).unwrap();
        drop(table);
        transaction.commit().unwrap();
    }
    if !crash {
        return path;
    }
    let crashed = directory.path().join("crashed.redb");
    fs::copy(&path, &crashed).unwrap();
    crashed
}

#[test]
fn a_file_of_a_later_format_is_refused_and_left_as_it_is() {
    for crash in [false, true] {
        let directory = TempDir::new().unwrap();
        let path = written(&directory, 9, 50, crash);
        let before = fs::read(&path).unwrap();
        let refused = open(at(&path), CACHE, 2).unwrap_err();
        assert!(matches!(refused, OpenError::Newer { found: 9, known: 2 }), "{refused}");
        assert!(fs::read(&path).unwrap() == before, "crashed: {crash}");
        // It is not locked any more either.
        drop(open(at(&path), CACHE, 9).unwrap());
    }
}

#[test]
fn all_that_was_in_a_file_is_there_and_so_is_what_comes() {
    for crash in [false, true] {
        let directory = TempDir::new().unwrap();
        let path = written(&directory, 1, 50, crash);
        for round in 0..3_u64 {
            let (database, format) = open(at(&path), CACHE, 1).unwrap();
            assert_eq!(format, Some(1));
            let reading = database.begin_read().unwrap();
            let numbers = reading.open_table(NUMBERS).unwrap();
            for number in 0..50 + round {
                let found = numbers.get(number.to_string().as_str()).unwrap();
                assert_eq!(found.unwrap().value(), number);
            }
            let transaction = database.begin_write().unwrap();
            let next = 50 + round;
            let mut table = transaction.open_table(NUMBERS).unwrap();
            table.insert(next.to_string().as_str(), next).unwrap();
            drop(table);
            transaction.commit().unwrap();
        }
    }
}

#[test]
fn a_file_that_is_open_is_refused() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("it.redb");
    let _open = open(at(&path), CACHE, 1).unwrap();
    let refused = open(at(&path), CACHE, 1).unwrap_err();
    let in_use = DatabaseError::DatabaseAlreadyOpen.to_string();
    assert_eq!(refused.to_string(), in_use);
}
