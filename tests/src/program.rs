//! Our own program, as cargo has built it.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// The one that `BERTH_PROGRAM` names, or the one beside this test: cargo builds it with the tests
/// of the workspace.
pub fn berth() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("BERTH_PROGRAM") {
        return Ok(PathBuf::from(named));
    }
    // <target>/debug/deps/<test>, <target>/debug/berth
    let test = std::env::current_exe().context("looking for this program")?;
    let profile = test.parent().and_then(|deps| deps.parent());
    let berth = profile.context("this test is in no target directory")?.join("berth");
    ensure!(
        berth.is_file(),
        "{} is not built: run the tests with `cargo xtask test e2e`, or `cargo build` before",
        berth.display()
    );
    Ok(berth)
}
