//! What the tests of one program share.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow};

use crate::cluster::Cluster;

/// A control plane for all tests of this program, started by the first that asks. It ends with the program.
pub fn control_plane() -> Result<&'static Cluster> {
    static SHARED: LazyLock<Result<Cluster, String>> = LazyLock::new(|| {
        let start = || {
            let program = program()?;
            Cluster::named(&program).logs(logs_of(&program)?).start()
        };
        start().map_err(|error| format!("{error:#}"))
    });
    SHARED.as_ref().map_err(|error| anyhow!("{error}"))
}

/// `target/e2e/<test>`: what a test leaves for people to read. Empty at first.
pub fn logs_of(test: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("looking for the target directory")?;
    // Programs are in <target>/<profile>, those of tests one folder deeper.
    let profile = program.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    let target = profile
        .and_then(Path::parent)
        .context("this program is not in a target directory")?;
    let folder = target.join("e2e").join(test);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

/// The name of the test program, without the hash that cargo adds.
fn program() -> Result<String> {
    let program = std::env::current_exe().context("looking for this program's name")?;
    let stem = program.file_stem().map(Path::new).context("this program has no name")?;
    let name = stem.to_string_lossy();
    Ok(name.rsplit_once('-').map_or(name.as_ref(), |(name, _)| name).to_owned())
}
