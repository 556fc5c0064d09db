//! Calls cargo from a program that cargo has started.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result, ensure};

/// Cargo in the workspace's root, with the environment of a user's call.
pub fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    for (name, _) in std::env::vars_os() {
        if describes_xtask(&name) {
            command.env_remove(name);
        }
    }
    command
}

/// Cargo's metadata of the workspace's packages, as JSON.
pub fn metadata() -> Result<Vec<u8>> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("starting cargo metadata")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {stderr}");
    Ok(output.stdout)
}

/// `cargo run` describes the package it runs in the environment. Some build scripts (ring's, for
/// one) run again when these variables change. If we passed them on, `cargo xtask` and a plain
/// `cargo test` would each recompile half of the dependencies after a run of the other.
fn describes_xtask(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
            || name == "CARGO_PRIMARY_PACKAGE"
    })
}

/// Cargo's target directory, with one directory for each profile: this program is in one of them.
pub fn target_directory() -> Result<PathBuf> {
    let xtask = std::env::current_exe().context("looking for the target directory")?;
    let target = xtask.parent().and_then(Path::parent);
    target.map(Path::to_owned).context("xtask is not in a target directory")
}

/// Succeeds if cargo did.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_says_about_this_package_is_not_handed_on() {
        // The variables are set here, too: cargo runs this test.
        let command = cargo();
        let removed =
            |name: &str| command.get_envs().any(|(key, value)| key == name && value.is_none());
        assert!(removed("CARGO_PKG_NAME") && removed("CARGO_MANIFEST_DIR"));
        assert!(!removed("PATH") && !removed("CARGO"));
    }
}
