//! `cargo xtask plugins`: the CNI plugins as they are installed on nodes, static and quick to
//! start.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::cargo::{cargo, target_directory};

/// By the names that conf files call them.
const PLUGINS: [&str; 2] = ["berth-ipam", "berth-cni"];
/// Of Cargo.toml.
const PROFILE: &str = "plugin";

pub fn run() -> Result<ExitCode> {
    let directory = build()?;
    for plugin in PLUGINS {
        println!("{}", directory.join(plugin).display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory that has them. A node's libraries are none of their concern, and where their code
/// is in memory is settled when they are linked, not at each of their many starts.
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
