//! `cargo xtask codegen`: the CRDs under `deploy`, from the types in `berth-api`, and the tables of
//! flags and metrics in `docs`, from the program.

use anyhow::{Context, Result, ensure};

use crate::cargo::cargo;

/// Tests of `berth` compare the generated files, and write them if asked to. So xtask uses no crate
/// of the product, and is built in seconds.
const TESTS: &str = "commands::reference::";

/// Writes the CRDs and the tables; with `check` only says which files differ. Selects the whole
/// workspace, so that `cargo xtask test` uses the same build.
pub fn run(check: bool) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--quiet", "--workspace", "--bin", "berth", "--", TESTS]);
    if !check {
        command.args(["--nocapture"]).env("BERTH_CODEGEN", "write");
    }
    let status = command.status().context("starting cargo test")?;
    ensure!(
        status.success(),
        "generated files differ from what the code generates: {status}"
    );
    Ok(())
}
