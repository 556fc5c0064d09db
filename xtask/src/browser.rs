//! A browser for the page of the dashboard, and the packages that drive it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use berth_testbed::packages;

/// Installs what is missing.
pub fn set_up(say: &dyn Fn(&str)) -> Result<()> {
    packages::install_browser(say)?;
    web_packages(say)
}

/// The packages that build and test the page of the dashboard, from its lock file.
fn web_packages(say: &dyn Fn(&str)) -> Result<()> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/dashboard/web");
    let modified = |file: &str| web.join(file).metadata().and_then(|file| file.modified()).ok();
    // npm writes the second file when it is done.
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
