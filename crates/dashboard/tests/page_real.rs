//! The committed files in `page/` are what their sources make, with the packages of the lock file.
//! The test needs Node.js; `cargo xtask test real` installs the packages.

#![cfg(test)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn node(arguments: &[&str], at: &Path) {
    assert!(
        here("web/node_modules/esbuild").exists(),
        "run `npm ci` in crates/dashboard/web, or `cargo xtask test real`, which does"
    );
    let mut command = Command::new("node");
    let output = command
        .args(arguments)
        .arg(at)
        .current_dir(here("web"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let file = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    };
    entries.map(file).collect()
}

#[test]
fn the_committed_page_is_what_its_sources_make() {
    let built = tempfile::tempdir().unwrap();
    node(&["build.mjs"], built.path());
    let (built, committed) = (files(built.path()), files(&here("page")));
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&built), names(&committed));
    for (name, bytes) in built {
        assert!(
            committed[&name] == bytes,
            "page/{name} is old: run `npm run build` in crates/dashboard/web and commit it"
        );
    }
}

#[test]
fn the_sources_keep_to_their_types() {
    node(
        &["node_modules/typescript/bin/tsc", "--noEmit", "--project"],
        &here("web"),
    );
}

#[test]
fn the_page_asks_nobody_else_for_anything() {
    for (name, bytes) in files(&here("page")) {
        let text = String::from_utf8(bytes).unwrap();
        // Names of XML namespaces look like URLs, but nothing calls them.
        let text = text.replace("http://www.w3.org/", "");
        assert!(!text.contains("http://") && !text.contains("https://"), "{name}");
    }
}
