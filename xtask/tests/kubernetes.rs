//! `cargo xtask kubernetes up` and `down` as a developer calls them: with a registry of their own,
//! so that a cluster that is up is left alone.

#![cfg(test)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_testbed::Programs;

struct Place {
    /// Tests run one at a time: the cluster of one would look like a leftover of another.
    _turn: MutexGuard<'static, ()>,
    directory: tempfile::TempDir,
    before: BTreeSet<String>,
}

impl Place {
    fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            _turn: turn,
            directory: tempfile::tempdir().unwrap(),
            before: traces(),
        }
    }

    fn clusters(&self) -> PathBuf {
        self.directory.path().join("berth/clusters")
    }

    fn xtask(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(line.split(' ')).stdin(Stdio::null());
        command.env("XDG_CACHE_HOME", self.directory.path());
        command.env("KUBEBUILDER_ASSETS", Programs::find().unwrap().directory());
        command
    }

    fn run(&self, line: &str) -> String {
        let output = self.xtask(line).output().unwrap();
        assert!(output.status.success(), "{line}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What kubectl says in a shell that has evaluated `env`.
    fn kubectl(&self, line: &str) -> String {
        let script = format!("{}\nkubectl {line}", self.run("kubernetes env"));
        let output = Command::new("sh").args(["-ec", &script]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Checks that there is no new trace, and no directory of a cluster.
    fn nothing_is_left(&self) {
        let left: Vec<String> = traces().difference(&self.before).cloned().collect();
        assert!(left.is_empty(), "{left:#?}");
        let directories = std::fs::read_dir(self.clusters()).unwrap();
        let directories: Vec<PathBuf> = directories
            .map(|item| item.unwrap().path())
            .filter(|path| path.is_dir())
            .collect();
        assert!(directories.is_empty(), "{directories:?}");
    }
}

fn text(output: &Output) -> String {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    format!("{}\n{out}{err}", output.status)
}

/// Links, named network namespaces, mounts, control groups, and processes in other process
/// namespaces than ours.
fn traces() -> BTreeSet<String> {
    let names = |directory: &str| -> Vec<String> {
        let items = std::fs::read_dir(directory).into_iter().flatten();
        items.map(|item| item.unwrap().path().display().to_string()).collect()
    };
    let mut found = BTreeSet::new();
    found.extend(names("/sys/class/net"));
    found.extend(names("/run/netns"));
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    found.extend(mounts.lines().map(str::to_owned));
    found.extend(groups(Path::new("/sys/fs/cgroup"), 4));
    let namespace = |process: &str| std::fs::read_link(format!("{process}/ns/pid")).ok();
    let ours = namespace("/proc/self");
    for process in names("/proc") {
        // One without a namespace has ended, and waits for its parent.
        if let Some(theirs) = namespace(&process).filter(|theirs| Some(theirs) != ours.as_ref()) {
            found.insert(format!("{process} in {}", theirs.display()));
        }
    }
    found
}

fn groups(directory: &Path, depth: usize) -> Vec<String> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if item.file_type().is_ok_and(|kind| kind.is_dir()) && depth > 0 {
            let path = item.path();
            if item.file_name().to_string_lossy().starts_with("berth-") {
                found.push(path.display().to_string());
            }
            found.extend(groups(&path, depth - 1));
        }
    }
    found
}

#[test]
fn up_env_and_down() {
    let place = Place::new();
    assert!(place.run("kubernetes up --nodes 2").contains("2 nodes are there after"));
    let nodes = place.kubectl("get nodes --no-headers");
    assert_eq!(
        nodes.lines().filter(|line| line.contains(" Ready ")).count(),
        2,
        "{nodes}"
    );
    assert!(
        place
            .run("kubernetes up --nodes 2")
            .starts_with("a cluster with 2 nodes is up already")
    );
    let other = place.xtask("kubernetes up --nodes 1").output().unwrap();
    assert!(!other.status.success());
    assert!(
        text(&other)
            .contains("a cluster with 2 nodes is up: `cargo xtask kubernetes down` ends it")
    );
    place.run("kubernetes down");
    place.nothing_is_left();
    assert_eq!(place.run("kubernetes down"), "no cluster is up\n");
}

#[test]
fn a_control_plane_alone_is_on_loopback() {
    let place = Place::new();
    place.run("kubernetes up --control-plane-only");
    assert!(place.kubectl("cluster-info").contains("https://127.0.0.1:"));
    assert_eq!(place.kubectl("get --raw /readyz"), "ok");
    place.run("kubernetes down");
    place.nothing_is_left();
}

/// Kills `up` at its first sign of life, when the control plane is there, and when the nodes are.
#[test]
fn what_a_killed_up_has_left_is_no_obstacle_to_the_next() {
    let place = Place::new();
    for sign in ["", "the control plane is ready", "nodes are there"] {
        let mut up = place
            .xtask("kubernetes up --nodes 2")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(up.stdout.take().unwrap());
        if sign.is_empty() {
            // The first sign of life: the lock, and the cluster's directory.
            while std::fs::read_dir(place.clusters()).map_or(0, Iterator::count) < 2 {
                std::thread::yield_now();
            }
        } else {
            until(&mut said, sign);
        }
        up.kill().unwrap();
        up.wait().unwrap();
        // The pipe ends when no process that holds it is left.
        said.read_to_string(&mut String::new()).unwrap();
    }
    place.run("kubernetes up --nodes 2");
    let nodes = place.kubectl("get nodes --no-headers");
    assert_eq!(
        nodes.lines().filter(|line| line.contains(" Ready ")).count(),
        2,
        "{nodes}"
    );
    place.run("kubernetes down");
    place.nothing_is_left();
}

fn until(said: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "ended without saying {words:?}");
    }
}

#[test]
fn an_up_that_fails_leaves_nothing() {
    let place = Place::new();
    // First there is no kubelet, then one that ends at once: the error says so.
    let programs = place.directory.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let real = Programs::find().unwrap();
    for name in [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
    ] {
        std::os::unix::fs::symlink(real.path(name).canonicalize().unwrap(), programs.join(name))
            .unwrap();
    }
    let fails = |expected: &str| {
        let output = place
            .xtask("kubernetes up --nodes 1")
            .env("KUBEBUILDER_ASSETS", &programs)
            .output()
            .unwrap();
        assert!(!output.status.success());
        assert!(text(&output).contains(expected), "{}", text(&output));
        place.nothing_is_left();
    };
    std::fs::create_dir_all(place.clusters()).unwrap();
    fails(
        "has no kubelet: add it to the directory that KUBEBUILDER_ASSETS names, or unset \
         that variable",
    );
    std::os::unix::fs::symlink("/bin/false", programs.join("kubelet")).unwrap();
    fails("kubelet ended with exit status: 1");
}
