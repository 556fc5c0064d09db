//! Programs that nodes and tests need, and the Debian packages that have them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::init::is_root;
use crate::node::network::PLUGINS;
use crate::shell;

/// Programs and their packages. A package is installed only if its program is missing.
const PACKAGES: &[(&str, &str)] = &[
    ("busybox", "busybox-static"),
    ("containerd", "containerd"),
    ("cloud-init", "cloud-init"),
    ("ip", "iproute2"),
    // Debian's portmap calls it.
    ("iptables", "iptables"),
    ("netplan", "netplan.io"),
    ("promtool", "prometheus"),
    ("runc", "runc"),
    // This package brings systemd itself.
    ("systemd-nspawn", "systemd-container"),
];

/// Tests need only the commands of cloud-init. With this file it does nothing when the machine
/// boots.
const CLOUD_INIT_DISABLED: &str = "/etc/cloud/cloud-init.disabled";

/// For the tests of the dashboard's page: a browser, and the tools that build the page.
const BROWSER_PACKAGES: &[(&str, &str)] =
    &[("chromium", "chromium"), ("node", "nodejs"), ("npm", "npm")];

/// Debian's package would start a server; tests start their own.
const PROMETHEUS_UNIT: &str = "/etc/systemd/system/prometheus.service";

const PLUGINS_PACKAGE: &str = "containernetworking-plugins";

/// The packages that are missing.
pub fn missing() -> Vec<&'static str> {
    let mut missing = missing_of(PACKAGES);
    if !Path::new(PLUGINS).join("ptp").exists() {
        missing.push(PLUGINS_PACKAGE);
    }
    missing
}

fn missing_of(packages: &[(&'static str, &'static str)]) -> Vec<&'static str> {
    let missing = packages.iter().filter(|(program, _)| shell::find(program).is_none());
    missing.map(|(_, package)| *package).collect()
}

/// Installs missing packages as root; otherwise fails with their names.
pub fn install(say: &dyn Fn(&str)) -> Result<()> {
    install_all(&missing(), say)
}

/// The same for a browser and Node.js, which no cluster needs.
pub fn install_browser(say: &dyn Fn(&str)) -> Result<()> {
    install_all(&missing_of(BROWSER_PACKAGES), say)
}

fn install_all(missing: &[&str], say: &dyn Fn(&str)) -> Result<()> {
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
    if missing.contains(&"prometheus") && !Path::new(PROMETHEUS_UNIT).exists() {
        // systemd starts no unit that is a link to /dev/null.
        let masked = std::fs::create_dir_all("/etc/systemd/system")
            .and_then(|()| std::os::unix::fs::symlink("/dev/null", PROMETHEUS_UNIT));
        masked.with_context(|| format!("masking {PROMETHEUS_UNIT}"))?;
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        shell::run(command.arg("--quiet").args(arguments))
    };
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(missing);
    // The package lists may be old, or missing.
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

/// Why the missing packages cannot be installed; `None` if they can.
pub fn obstacle() -> Option<String> {
    let missing = missing();
    (!missing.is_empty() && shell::find("apt-get").is_none())
        .then(|| format!("there is no apt-get to install {}", missing.join(", ")))
}
