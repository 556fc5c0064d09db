//! What nodes and tests need of the system: programs, and the Debian packages that have them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::init::is_root;
use crate::node::network::PLUGINS;
use crate::shell;

/// Looked for by their programs: who has these from elsewhere keeps them.
const PACKAGES: &[(&str, &str)] = &[
    ("busybox", "busybox-static"),
    ("containerd", "containerd"),
    ("cloud-init", "cloud-init"),
    ("ip", "iproute2"),
    ("netplan", "netplan.io"),
    ("runc", "runc"),
];

/// Only its commands are wanted: at the next start of this machine it must do nothing.
const CLOUD_INIT_DISABLED: &str = "/etc/cloud/cloud-init.disabled";

const PLUGINS_PACKAGE: &str = "containernetworking-plugins";

/// The packages that are missing.
pub fn missing() -> Vec<&'static str> {
    let programs = PACKAGES.iter().filter(|(program, _)| shell::find(program).is_none());
    let mut missing: Vec<&str> = programs.map(|(_, package)| *package).collect();
    if !Path::new(PLUGINS).join("ptp").exists() {
        missing.push(PLUGINS_PACKAGE);
    }
    missing
}

/// Installs what is missing when we are root, and else names it.
pub fn install(say: &dyn Fn(&str)) -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    ensure!(is_root(), "packages are missing: as root, run apt-get install {names}");
    ensure!(
        shell::find("apt-get").is_some(),
        "packages are missing, and there is no apt-get: install what Debian has in {names}"
    );
    say(&format!("installing {names}"));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        shell::run(command.arg("--quiet").args(arguments))
    };
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(&missing);
    // The lists of packages may be old, or were never fetched.
    if apt(&arguments).is_err() {
        apt(&["update"])
            .and_then(|_| apt(&arguments))
            .context("installing packages")?;
    }
    if missing.contains(&"cloud-init") {
        std::fs::write(CLOUD_INIT_DISABLED, "")
            .with_context(|| format!("writing {CLOUD_INIT_DISABLED}"))?;
    }
    Ok(())
}

/// What stands in the way of installing them, if anything does.
pub fn obstacle() -> Option<String> {
    let missing = missing();
    (!missing.is_empty() && shell::find("apt-get").is_none())
        .then(|| format!("there is no apt-get to install {}", missing.join(", ")))
}
