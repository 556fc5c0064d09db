//! Which clusters there are on this machine: a folder for each, with a record of who started it and
//! what its process 1 is.
//!
//! One lock is held while folders are made, looked through and removed, so that nobody takes a
//! folder that has just been made for one that was left behind. A folder is never made twice:
//! process 1 of an ended cluster may still be about to remove its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::component::PAUSE;
use crate::node::cgroups;
use crate::process::Process;
use crate::wire::Wire;

/// What is known about a cluster, in `record.json` in its folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    /// The number of the wire between its nodes, if it has any; no two living clusters share one.
    pub wire: Option<u8>,
    pub owner: Process,
    /// Missing until process 1 runs. If the owner dies in between, the end of its pipe ends process
    /// 1.
    pub init: Option<Process>,
    /// Process 1 of each node, by the node's name; known once the cluster is detached.
    pub nodes: BTreeMap<String, Process>,
    /// Whether the cluster outlives its owner.
    pub detached: bool,
    pub groups: Vec<PathBuf>,
    /// Where the output of the components goes.
    pub logs: PathBuf,
}

impl Record {
    /// Whether somebody still wants this cluster.
    fn is_wanted(&self) -> bool {
        if self.detached {
            self.init.as_ref().is_some_and(Process::is_alive)
        } else {
            self.owner.is_alive()
        }
    }
}

/// The folder of clusters.
#[derive(Debug)]
pub struct Registry {
    folder: PathBuf,
}

/// A cluster's folder, and its record as it was last written.
#[derive(Clone, Debug)]
pub struct Entry {
    pub folder: PathBuf,
    pub record: Record,
}

impl Registry {
    pub fn open() -> Result<Self> {
        Self::at(cache::folder()?.join("clusters"))
    }

    fn at(folder: PathBuf) -> Result<Self> {
        private_folder(&folder)?;
        Ok(Self { folder })
    }

    /// Makes a folder with a record, and removes what dead runs have left. Clusters with `nodes`
    /// have control groups.
    pub fn add(&self, name: &str, nodes: bool) -> Result<Entry> {
        let _lock = self.lock()?;
        let living = self.living()?;
        let taken = |wire: u8| {
            living.iter().any(|entry| entry.record.wire == Some(wire)) || Wire::new(wire).is_laid()
        };
        let owner = Process::current()?;
        let folder = (0..)
            .map(|attempt| self.folder.join(format!("{name}.{}.{attempt}", owner.pid())))
            .find(|folder| !folder.exists());
        let folder = folder.context("there is no free name")?;
        private_folder(&folder)?;
        let (wire, groups) = if nodes {
            let wire = (0..=u8::MAX).find(|wire| !taken(*wire));
            let folder_name = folder.file_name().unwrap_or_default();
            let groups = cgroups::of_cluster(&folder_name.to_string_lossy())?;
            (Some(wire.context("256 clusters are up: take some down")?), groups)
        } else {
            (None, Vec::new())
        };
        let record = Record {
            name: name.to_owned(),
            logs: folder.join("logs"),
            wire,
            owner,
            init: None,
            nodes: BTreeMap::new(),
            detached: false,
            groups,
        };
        let entry = Entry { folder, record };
        entry.write()?;
        Ok(entry)
    }

    /// The living cluster of that name. What dead runs have left is removed.
    pub fn find(&self, name: &str) -> Result<Option<Entry>> {
        let _lock = self.lock()?;
        Ok(self.living()?.into_iter().find(|entry| entry.record.name == name))
    }

    /// Ends everything of a cluster and removes its folder.
    pub fn remove(&self, entry: &Entry) -> Result<()> {
        let _lock = self.lock()?;
        remove(entry)
    }

    fn lock(&self) -> Result<File> {
        let path = self.folder.join("lock");
        let file = File::create(&path).with_context(|| format!("opening {}", path.display()))?;
        file.lock().with_context(|| format!("locking {}", path.display()))?;
        Ok(file)
    }

    fn living(&self) -> Result<Vec<Entry>> {
        let mut living = Vec::new();
        let read = std::fs::read_dir(&self.folder);
        for item in read.with_context(|| format!("reading {}", self.folder.display()))? {
            let folder = item?.path();
            if !folder.is_dir() {
                continue;
            }
            match Entry::read(&folder) {
                Ok(entry) if entry.record.is_wanted() => living.push(entry),
                Ok(entry) => remove(&entry)?,
                // Made under the lock, so whoever made it died before the record was whole: nothing
                // was started yet.
                Err(_) => remove_folder(&folder)?,
            }
        }
        Ok(living)
    }
}

impl Entry {
    fn read(folder: &Path) -> Result<Self> {
        let text = std::fs::read(folder.join("record.json"))?;
        Ok(Self {
            folder: folder.to_owned(),
            record: serde_json::from_slice(&text)?,
        })
    }

    /// Whole or not at all.
    pub fn write(&self) -> Result<()> {
        let path = self.folder.join("record.json");
        let next = self.folder.join("record.json.next");
        std::fs::write(&next, serde_json::to_vec_pretty(&self.record)?)
            .and_then(|()| std::fs::rename(&next, &path))
            .with_context(|| format!("writing {}", path.display()))
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
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
    // The kernel takes a network namespace apart a moment after its last process, and with it the
    // host's link.
    if let Some(wire) = entry.record.wire {
        Wire::new(wire).wait_until_gone();
    }
    remove_folder(&entry.folder)
}

/// Process 1 may be removing it, too, and what a dead owner was just running may still write to it.
fn remove_folder(folder: &Path) -> Result<()> {
    let mut removed = Ok(());
    for _ in 0..100 {
        removed = std::fs::remove_dir_all(folder);
        if !folder.exists() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    removed.with_context(|| format!("removing {}", folder.display()))
}

/// For keys and tokens: nobody else looks in.
fn private_folder(folder: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("making {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn registry() -> (tempfile::TempDir, Registry) {
        let folder = tempfile::tempdir().unwrap();
        let registry = Registry::at(folder.path().join("clusters")).unwrap();
        (folder, registry)
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
        let (_folder, registry) = registry();
        let mut entry = registry.add("one", false).unwrap();
        assert_eq!(registry.find("one").unwrap().unwrap().record, entry.record);
        assert!(registry.find("two").unwrap().is_none());
        entry.record.owner = ended();
        entry.write().unwrap();
        assert!(registry.find("one").unwrap().is_none());
        assert!(!entry.folder.exists(), "what a dead run left is removed");
    }

    #[test]
    fn what_a_dead_owner_left_running_is_ended() {
        let (_folder, registry) = registry();
        let mut entry = registry.add("one", false).unwrap();
        let (mut child, init) = sleeper();
        entry.record.owner = ended();
        entry.record.init = Some(init);
        entry.write().unwrap();
        registry.add("two", false).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!entry.folder.exists());
    }

    #[test]
    fn a_detached_cluster_lives_as_long_as_its_process_1() {
        let (_folder, registry) = registry();
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
        let (_folder, registry) = registry();
        let first = registry.add("one", true).unwrap();
        let second = registry.add("one", true).unwrap();
        assert_ne!(first.record.wire, second.record.wire);
        assert_ne!(first.folder, second.folder);
        registry.remove(&first).unwrap();
        assert_eq!(registry.add("three", true).unwrap().record.wire, first.record.wire);
    }

    #[test]
    fn a_folder_without_a_record_is_removed() {
        let (_folder, registry) = registry();
        let folder = registry.folder.join("half.1.0");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("record.json"), "{\"name\":").unwrap();
        registry.find("half").unwrap();
        assert!(!folder.exists());
    }
}
