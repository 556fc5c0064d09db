//! The programs of Kubernetes: from the directory in `KUBEBUILDER_ASSETS`, or built from
//! `xtask/kubernetes`.

mod build;
mod go;
pub mod peers;
mod python;

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use build::{Command, Module};

/// The servers are one binary with many names, see `main.go`.
const KUBERNETES: Module = Module {
    title: "Kubernetes",
    directory: "kubernetes",
    sources: &["go.mod", "go.sum", "main.go", "kubectl/main.go", "english/english.go"],
    requirement: "k8s.io/kubernetes",
    commands: &[
        Command {
            package: ".",
            names: &[
                "etcd",
                "kube-apiserver",
                "kube-controller-manager",
                "kube-scheduler",
                "kubelet",
            ],
        },
        Command {
            package: "./kubectl",
            names: &["kubectl"],
        },
    ],
    tags: "",
    variables: kubernetes_version,
    takes: "about 8 minutes on 2 cores",
};

/// For Go programs that end within a second, as kubectl does: garbage collection would be a quarter
/// of their CPU time.
pub const WITHOUT_COLLECTOR: (&str, &str) = ("GOGC", "off");

/// Without these variables, clients see the server as v0.0.0.
fn kubernetes_version(version: &str) -> Vec<(&'static str, String)> {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::to_owned);
    vec![
        ("k8s.io/component-base/version.gitVersion", version.to_owned()),
        (
            "k8s.io/component-base/version.gitMajor",
            numbers.next().unwrap_or_default(),
        ),
        (
            "k8s.io/component-base/version.gitMinor",
            numbers.next().unwrap_or_default(),
        ),
    ]
}

/// The variable that other tools use for such a directory, such as envtest of controller-runtime.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// A directory with programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    directory: PathBuf,
    /// What to do when a program is missing.
    advice: &'static str,
}

impl Programs {
    /// Finds existing programs; builds nothing.
    pub fn find() -> Result<Self> {
        if let Some(programs) = Self::given() {
            return Ok(programs);
        }
        let programs = Self::built()?;
        ensure!(
            programs.path("kube-apiserver").exists(),
            "Kubernetes is not built yet: run `cargo xtask kubernetes build`, or set \
             {ASSETS} to a directory that has it"
        );
        Ok(programs)
    }

    /// Finds the programs, or builds them, which takes minutes. `say` gets lines about the
    /// progress.
    pub fn find_or_build(say: &dyn Fn(&str)) -> Result<Self> {
        if let Some(programs) = Self::given() {
            return Ok(programs);
        }
        KUBERNETES.build(say)?;
        Self::find()
    }

    /// Why the programs cannot be built; `None` if they can, or are there.
    pub fn obstacle() -> Option<String> {
        if Self::find().is_ok() {
            return None;
        }
        KUBERNETES
            .go_version()
            .and_then(|needed| go::check_available(&needed))
            .err()
            .map(|error| format!("{error:#}"))
    }

    fn given() -> Option<Self> {
        let directory = std::env::var_os(ASSETS).filter(|value| !value.is_empty())?;
        Some(Self {
            directory: PathBuf::from(directory),
            advice: "add it to the directory that KUBEBUILDER_ASSETS names, or unset that variable",
        })
    }

    /// The directory of the built programs; they may not be built yet.
    fn built() -> Result<Self> {
        Ok(Self {
            directory: KUBERNETES.built()?,
            advice: "run `cargo xtask kubernetes build`",
        })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Fails with the names of missing programs.
    pub fn need(&self, names: &[&str]) -> Result<()> {
        let missing: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| !self.path(name).is_file())
            .collect();
        ensure!(
            missing.is_empty(),
            "{} has no {}: {}",
            self.directory.display(),
            missing.join(", "),
            self.advice
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_directory_lacks_is_named_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("etcd"), "").unwrap();
        let programs = Programs {
            directory: directory.path().to_owned(),
            advice: "do this",
        };
        programs.need(&["etcd"]).unwrap();
        let error = programs.need(&["etcd", "kubelet", "kubectl"]).unwrap_err().to_string();
        assert!(error.ends_with("has no kubelet, kubectl: do this"), "{error}");
    }
}
