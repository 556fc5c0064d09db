//! The crates of the workspace and what they use: `cargo xtask crates` prints them, the lowest
//! first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::cargo::metadata;

/// The maximum share of one crate in all lines.
const MAX_PERCENT: usize = 15;
/// The crate in `crates/` that the other wing may use: it knows nothing of addresses.
const SHARED: &str = "berth-kit";
/// The crate in `crates/` that only tests may use. It uses none of ours, so that all of them can
/// use it.
const TESTKIT: &str = "berth-testkit";
/// The crate in `crates/` that may use the other wing.
const PROGRAM: &str = "berth";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wing {
    Berth,
    Kubernetes,
    /// Tools for both wings: xtask and the suites on a real cluster.
    Tools,
}

#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    pub wing: Wing,
    /// The crates of the workspace that it uses, without those for tests only.
    pub uses: BTreeSet<String>,
    /// The directory of its `lib.rs` or `main.rs`.
    pub source: PathBuf,
    pub lines: usize,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Described>,
}

#[derive(Deserialize)]
struct Described {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

pub fn of_workspace() -> Result<Vec<Package>> {
    let metadata: Metadata =
        serde_json::from_slice(&metadata()?).context("reading cargo metadata")?;
    let mut packages = Vec::new();
    for described in metadata.packages {
        let directory = described.manifest_path.parent().context("a manifest has a directory")?;
        let used = described.dependencies.iter();
        let used = used.filter(|used| used.path.is_some() && used.kind.is_none());
        packages.push(Package {
            wing: wing_of(directory),
            uses: used.map(|used| used.name.clone()).collect(),
            source: directory.join("src"),
            lines: lines(&directory.join("src"))?,
            name: described.name,
        });
    }
    Ok(packages)
}

fn wing_of(directory: &Path) -> Wing {
    let above = directory.parent().and_then(Path::file_name);
    match above.and_then(|name| name.to_str()) {
        Some("crates") => Wing::Berth,
        Some("kubernetes") => Wing::Kubernetes,
        _ => Wing::Tools,
    }
}

/// All Rust files below the directory, in order.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn lines(directory: &Path) -> Result<usize> {
    let mut count = 0;
    for file in files(directory)? {
        count += std::fs::read_to_string(file)?.lines().count();
    }
    Ok(count)
}

/// The uses and sizes of crates that break the rules, a line each.
pub fn forbidden_uses(packages: &[Package]) -> Vec<String> {
    let wings: BTreeMap<&str, Wing> = packages
        .iter()
        .map(|package| (package.name.as_str(), package.wing))
        .collect();
    let all: usize = packages.iter().map(|package| package.lines).sum();
    let mut findings = Vec::new();
    for package in packages {
        for used in &package.uses {
            let may = match (package.wing, wings.get(used.as_str())) {
                (Wing::Berth, Some(Wing::Kubernetes)) => package.name == PROGRAM,
                (Wing::Kubernetes, Some(Wing::Berth)) => used == SHARED,
                (Wing::Berth | Wing::Kubernetes, Some(Wing::Tools)) => false,
                _ => true,
            };
            if used == TESTKIT {
                findings.push(format!("{} uses {used}: that is for tests only", package.name));
            } else if package.name == TESTKIT {
                findings
                    .push(format!("{TESTKIT} uses {used}: the tests of {used} then can't use it"));
            } else if !may {
                findings.push(format!("{} uses {used}: that is another wing's", package.name));
            }
        }
        let percent = package.lines * 100 / all.max(1);
        if percent > MAX_PERCENT {
            let name = &package.name;
            findings.push(format!("{name} has {percent} % of all lines: at most {MAX_PERCENT} %"));
        }
    }
    findings
}

/// Prints the lowest crate first: each line uses only crates above it.
pub fn print() -> Result<()> {
    let mut left = of_workspace()?;
    left.sort_by(|one, other| one.name.cmp(&other.name));
    let all: usize = left.iter().map(|package| package.lines).sum();
    let mut above = BTreeSet::new();
    while !left.is_empty() {
        let stands = |package: &Package| package.uses.iter().all(|used| above.contains(used));
        let (next, waiting): (Vec<Package>, Vec<Package>) = left.into_iter().partition(stands);
        ensure!(!next.is_empty(), "these crates use each other: {waiting:?}");
        for package in &next {
            let uses: Vec<&str> = package.uses.iter().map(String::as_str).collect();
            let percent = package.lines * 100 / all.max(1);
            let (name, lines) = (&package.name, package.lines);
            println!("{name:<20} {lines:>6} lines {percent:>3} %   {}", uses.join(", "));
        }
        above.extend(next.into_iter().map(|package| package.name));
        left = waiting;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, wing: Wing, uses: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            wing,
            uses: uses.iter().map(|used| (*used).to_owned()).collect(),
            source: PathBuf::new(),
            lines: 0,
        }
    }

    #[test]
    fn the_wings_keep_apart() {
        let packages = [
            package("berth-kit", Wing::Berth, &[]),
            package("berth-agent", Wing::Berth, &["berth-kit", "berth-apiserver"]),
            package("berth-apiserver", Wing::Kubernetes, &["berth-kit", "berth-agent"]),
            package("berth", Wing::Berth, &["berth-apiserver"]),
        ];
        let found = forbidden_uses(&packages);
        assert_eq!(
            found,
            [
                "berth-agent uses berth-apiserver: that is another wing's",
                "berth-apiserver uses berth-agent: that is another wing's",
            ]
        );
    }

    #[test]
    fn the_testkit_stands_apart_but_for_tests() {
        let packages = [
            package("berth-kit", Wing::Berth, &[]),
            package("berth-testkit", Wing::Berth, &["berth-kit"]),
            package("berth-agent", Wing::Berth, &["berth-testkit"]),
        ];
        assert_eq!(
            forbidden_uses(&packages),
            [
                "berth-testkit uses berth-kit: the tests of berth-kit then can't use it",
                "berth-agent uses berth-testkit: that is for tests only",
            ]
        );
    }

    #[test]
    fn a_crate_that_holds_too_much_is_named() {
        let mut packages = vec![package("berth-kit", Wing::Berth, &[]); 10];
        packages[0].lines = 20;
        packages[1..].iter_mut().for_each(|package| package.lines = 10);
        assert_eq!(
            forbidden_uses(&packages),
            ["berth-kit has 18 % of all lines: at most 15 %"]
        );
    }
}
