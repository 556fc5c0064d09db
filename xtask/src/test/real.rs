//! The real Kubernetes of the test run: whether this machine can have it, setting it up, and a
//! cluster for the API suite.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use berth_testbed::{Cluster, POD_IMAGE, Programs, is_root, packages, peers};

/// Why this machine can't have it, in one line.
pub fn obstacle() -> Option<String> {
    if !is_root() {
        return Some("nodes need namespaces, and only root can make them".to_owned());
    }
    Programs::obstacle().or_else(packages::obstacle)
}

/// Builds and installs what is missing.
pub fn set_up() -> Result<()> {
    let say = |line: &str| println!("{line}");
    Programs::find_or_build(&say)?;
    peers::build(&say)?;
    peers::install_clouds(&say)?;
    packages::install(&say)?;
    packages::install_browser(&say)?;
    web_packages(&say)
}

/// What the page of the dashboard is built and tested with, as its lock file has it.
fn web_packages(say: &dyn Fn(&str)) -> Result<()> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/dashboard/web");
    let modified = |file: &str| web.join(file).metadata().and_then(|file| file.modified()).ok();
    // npm writes the second when it is through.
    let installed = modified("node_modules/.package-lock.json");
    if installed.is_some() && installed >= modified("package-lock.json") {
        return Ok(());
    }
    say("installing the packages of crates/dashboard/web");
    let mut command = Command::new("npm");
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    let status = command.current_dir(&web).stdout(Stdio::null()).status();
    let status = status.context("starting npm")?;
    ensure!(status.success(), "npm ci in {} ended with {status}", web.display());
    Ok(())
}

/// For the API suite, which makes and removes whatever it likes in it.
pub fn cluster(shown: &mut impl Write) -> Result<Cluster> {
    let said = RefCell::new(Vec::new());
    let cluster = Cluster::named("api-real")
        .nodes(3)
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
