//! Which test belongs to which part. A test file that is not named here is an integration test, so
//! no test can be left out.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail};
use berth_testbed::WITHOUT_COLLECTOR;
use clap::ValueEnum;
use serde::Deserialize;

use super::real;
use crate::cargo::metadata;

/// In the order in which their results are printed. Quick parts come first, and parts whose failure
/// is close to its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    Unit,
    Doc,
    Integration,
    Api,
    Crash,
    Real,
    ApiReal,
    Scheduling,
    E2e,
    Cluster,
}

/// Parts of one lane run one after the other, those of different lanes at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Uses the CPU all the time.
    Busy,
    /// Mostly waits for its servers.
    Waiting,
    /// Waits for kubelets. Short parts are in this lane, too, so that no lane takes much longer
    /// than the others.
    Nodes,
    /// Runs alone, after all others.
    Alone,
}

impl Part {
    pub fn lane(self) -> Lane {
        match self {
            Self::Unit | Self::Doc | Self::Integration => Lane::Busy,
            Self::Real | Self::ApiReal | Self::Scheduling => Lane::Waiting,
            Self::Api | Self::Crash | Self::E2e => Lane::Nodes,
            Self::Cluster => Lane::Alone,
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Self::Unit => "tests beside the code, property tests, bounded fuzz runs",
            Self::Doc => "examples in the documentation",
            Self::Integration => "each crate by its public names",
            Self::Api => "the embedded API, driven by requests, kubectl and kube-rs",
            Self::Crash => {
                "kill -9 of `berth up` in a storm of writes, and of `berth agent` in a \
                 storm of plugin calls"
            }
            Self::Real => "crates by their public names, on a real etcd and a real kube-apiserver",
            Self::ApiReal => {
                "the same suite as in api, on kube-apiserver with controllers and three kubelets"
            }
            Self::Scheduling => "IP-aware scheduling by a real kube-scheduler, on real clusters",
            Self::E2e => "whole flows on a real cluster",
            Self::Cluster => "the real cluster itself, and what is left behind by it",
        }
    }

    /// Whether it takes only seconds.
    pub fn is_quick(self) -> bool {
        matches!(self, Self::Unit | Self::Doc)
    }

    /// Whether it needs a real Kubernetes.
    pub fn is_real(self) -> bool {
        match self {
            Self::Real | Self::ApiReal | Self::Scheduling | Self::E2e | Self::Cluster => true,
            Self::Unit | Self::Doc | Self::Integration | Self::Api | Self::Crash => false,
        }
    }

    /// The garbage collection of the Go programs that its tests start.
    pub fn collector(self) -> (&'static str, &'static str) {
        match self {
            Self::Real | Self::Scheduling | Self::E2e | Self::Cluster => real::RARE_COLLECTION,
            // The only Go program that they start is kubectl.
            Self::Unit
            | Self::Doc
            | Self::Integration
            | Self::Crash
            | Self::Api
            | Self::ApiReal => WITHOUT_COLLECTOR,
        }
    }

    /// The part whose test programs it runs: one suite tests two servers.
    fn programs(self) -> Self {
        match self {
            Self::ApiReal => Self::Api,
            other => other,
        }
    }

    fn of(package: &str, test: &str) -> Self {
        match (package, test) {
            // Pure arithmetic: all its tests are property tests, vectors and fuzz bodies.
            ("berth-addr", _) => Self::Unit,
            ("berth-cluster", "api" | "kube_rs") => Self::Api,
            ("berth", "crash") => Self::Crash,
            // They look for leftovers of a cluster, and would mistake another running cluster for
            // one.
            ("xtask", "kubernetes") => Self::Cluster,
            ("berth-e2e", "scheduling") => Self::Scheduling,
            ("berth-e2e", _) | ("berth", "deploy_real") => Self::E2e,
            (_, test) if test.ends_with("_real") => Self::Real,
            _ => Self::Integration,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unit => "unit",
            Self::Doc => "doc",
            Self::Integration => "integration",
            Self::Api => "api",
            Self::Crash => "crash",
            Self::Real => "real",
            Self::ApiReal => "api-real",
            Self::Scheduling => "scheduling",
            Self::E2e => "e2e",
            Self::Cluster => "cluster",
        })
    }
}

/// The test programs under `tests/` of all crates, by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Targets {
    parts: BTreeMap<String, Part>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

impl Targets {
    pub fn of_workspace() -> Result<Self> {
        Self::from_metadata(&metadata()?)
    }

    /// Cargo's filter names a test program but not its package, so one name cannot be in two parts.
    fn from_metadata(json: &[u8]) -> Result<Self> {
        let metadata: Metadata = serde_json::from_slice(json).context("reading cargo metadata")?;
        let mut parts = BTreeMap::new();
        for package in metadata.packages {
            for target in package
                .targets
                .into_iter()
                .filter(|target| target.kind.iter().any(|kind| kind == "test"))
            {
                let part = Part::of(&package.name, &target.name);
                match parts.insert(target.name.clone(), part) {
                    Some(other) if other != part => {
                        bail!(
                            "tests named {} are in {other} and in {part}: rename one",
                            target.name
                        )
                    }
                    _ => {}
                }
            }
        }
        Ok(Self { parts })
    }

    /// Cargo's flags that select the part.
    pub fn filters(&self, part: Part) -> Vec<String> {
        let own: &[&str] = match part {
            Part::Unit => &["--lib", "--bins"],
            Part::Doc => &["--doc"],
            Part::Integration
            | Part::Api
            | Part::Crash
            | Part::Real
            | Part::ApiReal
            | Part::Scheduling
            | Part::E2e
            | Part::Cluster => &[],
        };
        let named = self
            .parts
            .iter()
            .filter(|(_, of)| **of == part.programs())
            .flat_map(|(name, _)| ["--test", name]);
        own.iter().copied().chain(named).map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn package(name: &str, tests: &[&str]) -> Value {
        let library = json!({"kind": ["lib"], "name": name});
        let tests = tests.iter().map(|test| json!({"kind": ["test"], "name": test}));
        json!({"name": name, "targets": std::iter::once(library).chain(tests).collect::<Vec<_>>()})
    }

    fn targets(packages: &[Value]) -> Result<Targets> {
        Targets::from_metadata(json!({"packages": packages}).to_string().as_bytes())
    }

    #[test]
    fn a_test_nobody_has_named_is_an_integration_test() {
        let targets =
            targets(&[package("berth-kit", &["brand_new"]), package("berth", &["crash"])]).unwrap();
        assert_eq!(targets.filters(Part::Integration), ["--test", "brand_new"]);
        assert_eq!(targets.filters(Part::Crash), ["--test", "crash"]);
    }

    #[test]
    fn unit_takes_libraries_programs_and_the_pure_crates_tests() {
        let targets = targets(&[package("berth-addr", &["sets"])]).unwrap();
        assert_eq!(targets.filters(Part::Unit), ["--lib", "--bins", "--test", "sets"]);
    }

    #[test]
    fn a_name_tells_what_needs_real_servers() {
        let targets = targets(&[package("berth-ledger", &["stores", "stores_real"])]).unwrap();
        assert_eq!(targets.filters(Part::Real), ["--test", "stores_real"]);
        assert_eq!(targets.filters(Part::Integration), ["--test", "stores"]);
    }

    #[test]
    fn tests_that_check_for_leftover_clusters_run_alone() {
        let targets =
            targets(&[package("xtask", &["kubernetes"]), package("berth-e2e", &["agents"])])
                .unwrap();
        assert_eq!(targets.filters(Part::Cluster), ["--test", "kubernetes"]);
        assert_eq!(targets.filters(Part::E2e), ["--test", "agents"]);
        assert_eq!(Part::Cluster.lane(), Lane::Alone);
    }

    #[test]
    fn one_suite_runs_on_both_servers() {
        let targets = targets(&[package("berth-cluster", &["api"])]).unwrap();
        assert_eq!(targets.filters(Part::Api), targets.filters(Part::ApiReal));
    }

    #[test]
    fn one_name_in_two_parts_is_refused() {
        let error = targets(&[package("berth-addr", &["sets"]), package("berth-kit", &["sets"])])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "tests named sets are in unit and in integration: rename one"
        );
    }
}
