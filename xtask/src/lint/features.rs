//! Checks that each crate has the same features, whichever package is selected. Cargo unifies the
//! features that the selected packages ask for. A crate with other features is compiled again, and
//! so is everything that uses it: for tokio or kube nearly everything.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use crate::cargo::cargo;
use crate::crates::Package;

/// A crate that uses this one uses most of the rest.
const BASE: &str = "berth-kit";
/// The package that `cargo run` selects.
const PROGRAM: &str = "berth";
/// The suites and benchmarks on a real cluster.
const SUITES: &str = "berth-e2e";
/// Only tests use it.
const TESTKIT: &str = "berth-testkit";

/// The feature lists of each crate, by name and version. Macros may have another list than the
/// program.
type Features = BTreeMap<String, BTreeSet<String>>;

pub fn differ(packages: &[Package]) -> Result<Vec<String>> {
    let whole = of(&["--workspace", "--edges=normal,build,dev"])?;
    let program = of(&["--package", PROGRAM, "--edges=normal,build"])?;
    let mut findings = others("cargo run", &program, &whole);
    for package in packages {
        let name = package.name.as_str();
        if package.uses.contains(BASE) || [BASE, SUITES].contains(&name) {
            let selected = of(&["--package", name, "--edges=normal,build,dev"])?;
            findings.extend(others(&format!("cargo test -p {name}"), &selected, &whole));
        }
    }
    Ok(findings)
}

fn of(selection: &[&str]) -> Result<Features> {
    let output = cargo()
        .args(["tree", "--locked", "--prefix=none", "--format={p} | {f}"])
        .args(selection)
        .output()
        .context("starting cargo tree")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo tree: {stderr}");
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses lines such as `tokio v1.54.1 | default,full`. After the version may come the source and a
/// mark of macros; after the list, a mark that the package was shown before.
fn parse(tree: &str) -> Features {
    let mut features = Features::new();
    for line in tree.lines() {
        if let Some((package, list)) = line.split_once(" | ") {
            let named: Vec<&str> = package.split(' ').take(2).collect();
            let lists = features.entry(named.join(" ")).or_default();
            lists.insert(list.trim_end_matches("(*)").trim().to_owned());
        }
    }
    features
}

fn others(command: &str, selected: &Features, whole: &Features) -> Vec<String> {
    let differs = |(package, lists): (&String, &BTreeSet<String>)| {
        let all = whole.get(package)?;
        let other = lists.difference(all).next()?;
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        (!package.starts_with(TESTKIT)).then(|| {
            format!(
                "{command} compiles {package} again, with the features [{other}]; the workspace \
                 has [{}]: ask for them in the workspace's Cargo.toml or in {BASE}",
                all.join("] and [")
            )
        })
    };
    selected.iter().filter_map(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_wherever_the_package_is_from() {
        let features = parse("berth v0.1.0 (/a path) | x (*)\nring v0.17.0 | \n\n[dev]\n");
        assert_eq!(features["berth v0.1.0"], BTreeSet::from(["x".to_owned()]));
        assert_eq!(features["ring v0.17.0"], BTreeSet::from([String::new()]));
        assert_eq!(features.len(), 2);
    }

    #[test]
    fn fewer_features_are_found_and_the_same_are_not() {
        let whole = parse("tokio v1.0.0 | full,time\nsyn v2.0.1 | a\nsyn v2.0.1 | a,b\n");
        let same = parse("tokio v1.0.0 | full,time\nsyn v2.0.1 | a\nnew v1.0.0 | \n");
        assert_eq!(others("x", &same, &whole), [""; 0]);
        let found = others("cargo run", &parse("tokio v1.0.0 | full\n"), &whole);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("cargo run compiles tokio v1.0.0 again"),
            "{found:?}"
        );
        assert!(found[0].contains("[full]; the workspace has [full,time]"), "{found:?}");
    }
}
