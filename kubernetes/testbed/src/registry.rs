//! The clusters on this machine: a directory for each, with a record of its owner and its process
//! 1.
//!
//! One lock is held while directories are made, read and removed, so that a directory that was just
//! made is not taken for an abandoned one. A directory's name contains its owner's process number:
//! process 1 of an ended cluster may still be removing the directory of an earlier owner.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::component::POLL_INTERVAL;
use crate::node::cgroups;
use crate::process::Process;
use crate::wire::Wire;

/// The record of a cluster, `record.json` in its directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    /// The number of the wire between its nodes, if any; no two running clusters share one.
    pub wire: Option<u8>,
    pub owner: Process,
    /// `None` until process 1 runs. If the owner dies before that, process 1 reads the end of its
    /// pipe and ends.
    pub init: Option<Process>,
    /// Process 1 of each node, by name; set once the cluster is detached.
    pub nodes: BTreeMap<String, Process>,
    /// Whether the cluster outlives its owner.
    pub detached: bool,
    pub groups: Vec<PathBuf>,
    /// Where the output of the components goes.
    pub logs: PathBuf,
}

impl Record {
    /// Whether the cluster is still in use. If not, it may be removed.
    fn is_wanted(&self) -> bool {
        if self.detached {
            self.init.as_ref().is_some_and(Process::is_alive)
        } else {
            self.owner.is_alive()
        }
    }
}

/// The directory of clusters.
#[derive(Debug)]
pub struct Registry {
    directory: PathBuf,
}

/// A cluster's directory, and its record as last written.
#[derive(Clone, Debug)]
pub struct Entry {
    pub directory: PathBuf,
    pub record: Record,
}

impl Registry {
    pub fn open() -> Result<Self> {
        Self::at(cache::directory()?.join("clusters"))
    }

    fn at(directory: PathBuf) -> Result<Self> {
        private_directory(&directory)?;
        Ok(Self { directory })
    }

    /// Makes a directory with a record, and removes what crashed runs have left. Clusters with
    /// `nodes` have control groups.
    pub fn add(&self, name: &str, nodes: bool) -> Result<Entry> {
        let _lock = self.lock()?;
        let living = self.living()?;
        let taken = |wire: u8| {
            living.iter().any(|entry| entry.record.wire == Some(wire)) || Wire::new(wire).exists()
        };
        let owner = Process::current()?;
        let directory = (0..)
            .map(|attempt| self.directory.join(format!("{name}.{}.{attempt}", owner.pid())))
            .find(|directory| !directory.exists());
        let directory = directory.context("there is no free name")?;
        private_directory(&directory)?;
        let (wire, groups) = if nodes {
            let wire = (0..=u8::MAX).find(|wire| !taken(*wire));
            let directory_name = directory.file_name().unwrap_or_default();
            let groups = cgroups::of_cluster(&directory_name.to_string_lossy())?;
            (Some(wire.context("256 clusters are up: take some down")?), groups)
        } else {
            (None, Vec::new())
        };
        let record = Record {
            name: name.to_owned(),
            logs: directory.join("logs"),
            wire,
            owner,
            init: None,
            nodes: BTreeMap::new(),
            detached: false,
            groups,
        };
        let entry = Entry { directory, record };
        entry.write()?;
        Ok(entry)
    }

    /// The running cluster of that name. Removes what crashed runs have left.
    pub fn find(&self, name: &str) -> Result<Option<Entry>> {
        let _lock = self.lock()?;
        Ok(self.living()?.into_iter().find(|entry| entry.record.name == name))
    }

    /// Ends everything of a cluster and removes its directory.
    pub fn remove(&self, entry: &Entry) -> Result<()> {
        let _lock = self.lock()?;
        remove(entry)
    }

    fn lock(&self) -> Result<File> {
        let path = self.directory.join("lock");
        let file = File::create(&path).with_context(|| format!("opening {}", path.display()))?;
        file.lock().with_context(|| format!("locking {}", path.display()))?;
        Ok(file)
    }

    fn living(&self) -> Result<Vec<Entry>> {
        let mut living = Vec::new();
        let read = std::fs::read_dir(&self.directory);
        for item in read.with_context(|| format!("reading {}", self.directory.display()))? {
            let directory = item?.path();
            if !directory.is_dir() {
                continue;
            }
            match Entry::read(&directory) {
                Ok(entry) if entry.record.is_wanted() => living.push(entry),
                Ok(entry) => remove(&entry)?,
                // Made under the lock: its owner died before the record was complete, and had
                // started nothing yet.
                Err(_) => remove_directory(&directory)?,
            }
        }
        Ok(living)
    }
}

impl Entry {
    fn read(directory: &Path) -> Result<Self> {
        let text = std::fs::read(directory.join("record.json"))?;
        Ok(Self {
            directory: directory.to_owned(),
            record: serde_json::from_slice(&text)?,
        })
    }

    /// Replaces the record atomically.
    pub fn write(&self) -> Result<()> {
        let path = self.directory.join("record.json");
        let next = self.directory.join("record.json.next");
        std::fs::write(&next, serde_json::to_vec_pretty(&self.record)?)
            .and_then(|()| std::fs::rename(&next, &path))
            .with_context(|| format!("writing {}", path.display()))
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }
}

fn remove(entry: &Entry) -> Result<()> {
    if let Some(init) = &entry.record.init {
        init.kill()?;
        init.wait()?;
    }
    for groups in &entry.record.groups {
        cgroups::remove(groups)?;
    }
    // The kernel removes a network namespace, and with it the host's link, shortly after its last
    // process.
    if let Some(wire) = entry.record.wire {
        Wire::new(wire).wait_until_gone();
    }
    remove_directory(&entry.directory)
}

/// Tries again for a while: process 1 may be removing the directory, too, and children of a dead
/// owner may still write to it.
fn remove_directory(directory: &Path) -> Result<()> {
    let mut removed = Ok(());
    for _ in 0..100 {
        removed = std::fs::remove_dir_all(directory);
        if !directory.exists() {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    removed.with_context(|| format!("removing {}", directory.display()))
}

/// For keys and tokens: only the owner may read it.
fn private_directory(directory: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("making {}", directory.display()))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn registry() -> (tempfile::TempDir, Registry) {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path().join("clusters")).unwrap();
        (directory, registry)
    }

    fn sleeper() -> (Child, Process) {
        let child = Command::new("sleep").arg("infinity").spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        (child, process)
    }

    fn ended() -> Process {
        let (mut child, process) = sleeper();
        child.kill().unwrap();
        child.wait().unwrap();
        process
    }

    #[test]
    fn a_cluster_is_found_by_its_name_while_its_owner_lives() {
        let (_directory, registry) = registry();
        let mut entry = registry.add("one", false).unwrap();
        assert_eq!(registry.find("one").unwrap().unwrap().record, entry.record);
        assert!(registry.find("two").unwrap().is_none());
        entry.record.owner = ended();
        entry.write().unwrap();
        assert!(registry.find("one").unwrap().is_none());
        assert!(!entry.directory.exists(), "what a dead run left is removed");
    }

    #[test]
    fn what_a_dead_owner_left_running_is_ended() {
        let (_directory, registry) = registry();
        let mut entry = registry.add("one", false).unwrap();
        let (mut child, init) = sleeper();
        entry.record.owner = ended();
        entry.record.init = Some(init);
        entry.write().unwrap();
        registry.add("two", false).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!entry.directory.exists());
    }

    #[test]
    fn a_detached_cluster_lives_as_long_as_its_process_1() {
        let (_directory, registry) = registry();
        let mut entry = registry.add("one", false).unwrap();
        let (mut child, init) = sleeper();
        entry.record.owner = ended();
        entry.record.init = Some(init);
        entry.record.detached = true;
        entry.write().unwrap();
        assert!(registry.find("one").unwrap().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(registry.find("one").unwrap().is_none());
    }

    #[test]
    fn living_clusters_have_wires_of_their_own() {
        let (_directory, registry) = registry();
        let first = registry.add("one", true).unwrap();
        let second = registry.add("one", true).unwrap();
        assert_ne!(first.record.wire, second.record.wire);
        assert_ne!(first.directory, second.directory);
        registry.remove(&first).unwrap();
        assert_eq!(registry.add("three", true).unwrap().record.wire, first.record.wire);
    }

    #[test]
    fn a_directory_without_a_record_is_removed() {
        let (_directory, registry) = registry();
        let directory = registry.directory.join("half.1.0");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("record.json"), "{\"name\":").unwrap();
        registry.find("half").unwrap();
        assert!(!directory.exists());
    }
}
