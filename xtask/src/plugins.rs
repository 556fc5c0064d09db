//! `cargo xtask plugins`: the CNI plugins as they are installed on nodes, static and quick to
//! start.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::cargo::{cargo, target_directory};

/// The plugins, by their names in conf files.
const PLUGINS: [&str; 2] = ["berth-ipam", "berth-cni"];
/// The profile in Cargo.toml.
const PROFILE: &str = "plugin";

pub fn run() -> Result<ExitCode> {
    let directory = build()?;
    for plugin in PLUGINS {
        println!("{}", directory.join(plugin).display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds the plugins and returns their directory. They are static, so they need no libraries of
/// the node; and their code is at a fixed address, which saves relocations at each of their many
/// starts.
pub fn build() -> Result<PathBuf> {
    for plugin in PLUGINS {
        let mut command = cargo();
        command.args([
            "rustc",
            "--profile",
            PROFILE,
            "--package",
            "berth-cni",
            "--bin",
            plugin,
            "--",
        ]);
        command.args(["-C", "target-feature=+crt-static", "-C", "relocation-model=static"]);
        let built = command.status().context("starting cargo rustc")?;
        ensure!(built.success(), "{plugin} could not be built");
    }
    Ok(target_directory()?.join(PROFILE))
}
