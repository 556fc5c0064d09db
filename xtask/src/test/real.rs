//! The real Kubernetes of the test run: whether this machine can have it, setting it up, and a
//! cluster for the API suite.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, anyhow};
use berth_testbed::{Cluster, POD_IMAGE, Programs, is_root, packages, peers};

use crate::browser;

/// The garbage collection of Kubernetes and etcd, as a variable that every Go program reads: the
/// heap may grow by this many percent before the next collection. The default of 100 suits a
/// long-lived process. Here a process lives for a minute, and the test run is short of CPU.
pub const RARE_COLLECTION: (&str, &str) = ("GOGC", "400");

/// Why this machine cannot run a real Kubernetes, in one line.
pub fn obstacle() -> Option<String> {
    if !is_root() {
        return Some("nodes need namespaces, and only root can make them".to_owned());
    }
    Programs::obstacle().or_else(packages::obstacle)
}

/// Builds and installs what is missing. Downloads wait for the network and builds for the CPU, so
/// both run at the same time.
pub fn set_up() -> Result<()> {
    let say = |line: &str| println!("{line}");
    std::thread::scope(|scope| {
        let installing = scope.spawn(move || {
            packages::install(&say)?;
            browser::set_up(&say)?;
            peers::install_clouds(&say)
        });
        Programs::find_or_build(&say)?;
        peers::build(&say)?;
        installing.join().map_err(|_| anyhow!("installing panicked"))?
    })
}

/// A cluster for the API suite, which creates and removes whatever it likes in it.
pub fn cluster(shown: &mut impl Write) -> Result<Cluster> {
    let said = RefCell::new(Vec::new());
    let cluster = Cluster::named("api-real")
        .nodes(3)
        .environment(RARE_COLLECTION.0, RARE_COLLECTION.1)
        .logs(berth_testbed::logs_of("api-real")?)
        .say(&|line| said.borrow_mut().push(line.to_owned()))
        .start();
    for line in said.into_inner() {
        writeln!(shown, "{line}")?;
    }
    cluster
}

/// Tells the API suite to use `cluster`.
pub fn use_cluster(command: &mut Command, cluster: &Cluster) {
    command.env("BERTH_TEST_KUBECONFIG", cluster.kubeconfig());
    command.env("BERTH_TEST_IMAGE", POD_IMAGE);
}

/// The machine's kubectl and the built one, if they exist: each test runs with each.
pub fn kubectls() -> Option<OsString> {
    if let Some(named) = std::env::var_os("BERTH_TEST_KUBECTL") {
        return Some(named);
    }
    let built = Programs::find().ok().map(|programs| programs.path("kubectl"));
    let candidates = [Some(PathBuf::from("kubectl")), built];
    let working: Vec<PathBuf> = candidates.into_iter().flatten().filter(works).collect();
    if working.is_empty() {
        return None;
    }
    std::env::join_paths(working).ok()
}

fn works(kubectl: &PathBuf) -> bool {
    let mut command = Command::new(kubectl);
    command.args(["version", "--client"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
