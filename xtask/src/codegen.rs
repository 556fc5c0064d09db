//! `cargo xtask codegen`: the CRDs under `deploy`, from the types in `berth-api`, and the tables of
//! flags and metrics in `docs`, from the program.

use anyhow::{Context, Result, ensure};

use crate::cargo::cargo;

/// The tests of `berth` that compare what is generated, and write it when they are told to. So this
/// program needs none of our crates, and is built in seconds.
const TESTS: &str = "commands::reference::";

/// Writes the CRDs and the tables, or with `check` only says which files differ from what would be
/// written. All of the workspace is selected, so that what is built for this is what `cargo xtask
/// test` uses.
pub fn run(check: bool) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--quiet", "--workspace", "--bin", "berth", "--", TESTS]);
    if !check {
        command.args(["--nocapture"]).env("BERTH_CODEGEN", "write");
    }
    let status = command.status().context("starting cargo test")?;
    ensure!(
        status.success(),
        "generated files are not as the code has them: {status}"
    );
    Ok(())
}
