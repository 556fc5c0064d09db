//! Stores that earlier versions of our programs wrote, kept as test data: `testdata/stores`, with a
//! directory for each commit before a stored format changed.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/stores")
}

/// The directories, ordered by name.
pub fn kept() -> Vec<PathBuf> {
    let found = std::fs::read_dir(root()).unwrap();
    let mut kept: Vec<PathBuf> = found.map(|found| found.unwrap().path()).collect();
    kept.sort();
    assert!(!kept.is_empty(), "nothing is kept in {}", root().display());
    kept
}

/// The directory for a test that writes such data: the one of `testdata/stores` that
/// `BERTH_KEEP_STORES` names, created if needed.
pub fn keep() -> PathBuf {
    let name = std::env::var("BERTH_KEEP_STORES").expect("BERTH_KEEP_STORES names a directory");
    assert!(!name.is_empty() && !name.contains('/'), "{name:?} is not a name");
    let directory = root().join(name);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// The path and bytes of each file in a directory, to check that nothing changed.
pub fn bytes_of(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let found = std::fs::read_dir(&path).unwrap();
            left.extend(found.map(|found| found.unwrap().path()));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            files.push((path, bytes));
        }
    }
    files.sort();
    files
}
