//! The CRDs under `deploy`, from the types in `berth-api`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use berth_api::crds;

/// The files that each directory must have.
fn directories() -> [(&'static str, Vec<(String, String)>); 2] {
    [
        ("deploy/crds", crds::files().unwrap()),
        ("deploy/machines/crds", crds::machine_files().unwrap()),
    ]
}

/// Files that are missing, that differ, or that nothing generates any more.
fn stale(directory: &Path, files: &[(String, String)]) -> Vec<String> {
    let mut stale = present(directory);
    for (name, yaml) in files {
        if fs::read_to_string(directory.join(name)).is_ok_and(|found| found == *yaml) {
            stale.remove(name);
        } else {
            stale.insert(name.clone());
        }
    }
    stale.into_iter().collect()
}

fn present(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn write(directory: &Path, files: &[(String, String)], stale: &[String]) {
    fs::create_dir_all(directory).unwrap();
    for name in stale {
        let path = directory.join(name);
        match files.iter().find(|(file, _)| file == name) {
            Some((_, yaml)) => fs::write(&path, yaml).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
    }
}

#[test]
fn crds_in_deploy_are_those_of_the_types() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut differ = Vec::new();
    for (shown, files) in directories() {
        let directory = root.join(shown);
        let stale = stale(&directory, &files);
        if super::writes() {
            write(&directory, &files, &stale);
        }
        differ.extend(stale.iter().map(|name| format!("{shown}/{name}")));
    }
    super::report(&differ);
}

#[test]
fn only_missing_changed_and_extra_files_are_stale() {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("same", "a"), ("changed", "old"), ("superfluous", "c")] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let files = [("same", "a"), ("changed", "new"), ("missing", "d")]
        .map(|(name, text)| (name.to_owned(), text.to_owned()));
    let found = stale(directory.path(), &files);
    assert_eq!(found, ["changed", "missing", "superfluous"]);

    write(directory.path(), &files, &found);
    assert_eq!(stale(directory.path(), &files), [""; 0]);
    assert_eq!(fs::read_to_string(directory.path().join("changed")).unwrap(), "new");
}

#[test]
fn without_the_directory_every_file_is_stale() {
    let directory = tempfile::tempdir().unwrap();
    let files = [("a.yaml".to_owned(), String::new())];
    assert_eq!(stale(&directory.path().join("none"), &files), ["a.yaml"]);
}
