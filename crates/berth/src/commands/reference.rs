//! Generated files: the tables of flags and metrics in `docs`, from the command line and the
//! registries, and the CRDs under `deploy`.
//!
//! A page says where a table goes: `<!-- generated: flags agent -->`, or `metrics agent`, up to
//! `<!-- end -->`. Only tests are built with this: `cargo xtask codegen` runs them with
//! `BERTH_CODEGEN` set, and they write; without that they say which files differ.

mod crds;
mod flags;
mod metrics;

use std::fs;
use std::path::{Path, PathBuf};

/// Only at the beginning of a line: a page may mention it elsewhere.
const BEGIN: &str = "\n<!-- generated: ";
const END: &str = "<!-- end -->";

/// The page with its generated parts filled in.
///
/// # Panics
///
/// If a mark names no table, or has no end: this code is for tests only.
fn filled(page: &str) -> String {
    let mut rest = page;
    let mut made = String::new();
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (what, after) = after.split_once(" -->\n").unwrap();
        let (_, after) = after.split_once(END).unwrap_or_else(|| panic!("{what} has no {END}"));
        let table = match what.split_once(' ') {
            None if what == "commands" => flags::commands(),
            None if what == "flags" => flags::of_all(),
            Some(("flags", command)) => flags::of(command),
            Some(("metrics", component)) => metrics::of(component),
            _ => panic!("`{what}` is neither flags nor metrics of something"),
        };
        made += &format!("{before}{BEGIN}{what} -->\n\n{table}\n{END}");
        rest = after;
    }
    made + rest
}

fn pages() -> Vec<PathBuf> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let entries = fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages
}

fn writes() -> bool {
    std::env::var_os("BERTH_CODEGEN").is_some()
}

/// # Panics
///
/// If files differ and are not written.
fn report(differ: &[String]) {
    if writes() {
        differ.iter().for_each(|file| println!("{file}"));
        return;
    }
    assert!(
        differ.is_empty(),
        "{} differ from the code: run `cargo xtask codegen` and commit what it writes",
        differ.join(", ")
    );
}

#[test]
fn tables_of_flags_and_metrics_are_those_of_the_code() {
    let mut stale = Vec::new();
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        let now = filled(&page);
        if now != page {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            stale.push(format!("docs/{name}"));
            if writes() {
                fs::write(&path, now).unwrap();
            }
        }
    }
    report(&stale);
}

#[test]
fn every_command_and_every_process_has_its_table() {
    let docs: String = pages().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let has = |mark: String| docs.contains(&format!("{BEGIN}{mark} -->\n"));
    for command in flags::names() {
        assert!(has(format!("flags {command}")), "flags {command} is in no page");
    }
    for component in metrics::COMPONENTS {
        assert!(has(format!("metrics {component}")), "metrics {component} is in no page");
    }
}
