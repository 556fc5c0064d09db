//! `cargo xtask plugins`: the CNI plugins as they are installed on nodes, static and quick to
//! start.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::cargo::{cargo, target_folder};

/// By the names that conf files call them.
const PLUGINS: [&str; 2] = ["berth-ipam", "berth-cni"];
/// Of Cargo.toml.
const PROFILE: &str = "plugin";

pub fn run() -> Result<ExitCode> {
    let folder = build()?;
    for plugin in PLUGINS {
        println!("{}", folder.join(plugin).display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The folder that has them. A node's libraries are none of their concern, and where their code is
/// in memory is settled when they are linked, not at each of their many starts.
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
    Ok(target_folder()?.join(PROFILE))
}
