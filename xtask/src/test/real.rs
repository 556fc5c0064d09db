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

/// How Kubernetes and etcd are to collect garbage, as a variable that every Go program reads: a
/// heap may grow by so many percent before that. The default of 100 is for a process that stays;
/// a test ends a minute later, and the cores are what a run waits for.
pub const RARE_COLLECTION: (&str, &str) = ("GOGC", "400");

/// Why this machine can't have it, in one line.
pub fn obstacle() -> Option<String> {
    if !is_root() {
        return Some("nodes need namespaces, and only root can make them".to_owned());
    }
    Programs::obstacle().or_else(packages::obstacle)
}

/// Builds and installs what is missing. Who downloads waits for the network, who builds for the
/// cores: so they go on beside each other.
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

/// For the API suite, which makes and removes whatever it likes in it.
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
pub fn aim(command: &mut Command, cluster: &Cluster) {
    command.env("BERTH_TEST_KUBECONFIG", cluster.kubeconfig());
    command.env("BERTH_TEST_IMAGE", POD_IMAGE);
}

/// The machine's kubectl and the one that was built, as far as there are any: each test runs with
/// each.
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
