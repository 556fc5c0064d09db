//! Clusters that the tests of one program share.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow};

use crate::cluster::Cluster;

/// A control plane for all tests of this program, started by the first caller. It ends with the
/// program.
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

/// A control plane that only one test at a time uses, while this lives. The next test gets the same
/// one, so each must leave it as it was.
#[derive(Debug)]
pub struct Loan {
    cluster: &'static Cluster,
}

/// Control planes that no test uses now. They end with the program.
static FREE: Mutex<Vec<&'static Cluster>> = Mutex::new(Vec::new());

/// Starts another one if none is free: there are as many as tests run at the same time.
pub fn borrow_control_plane() -> Result<Loan> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let cluster = match free {
        Some(cluster) => cluster,
        None => {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{}-{number}", program()?);
            let cluster = Cluster::named(&name).logs(logs_of(&name)?).start()?;
            Box::leak(Box::new(cluster))
        }
    };
    Ok(Loan { cluster })
}

impl Deref for Loan {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        self.cluster
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.cluster);
    }
}

/// `target/e2e/<test>`: logs that a test leaves for people. Empty at first.
pub fn logs_of(test: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("looking for the target directory")?;
    // Programs are in <target>/<profile>, test programs one directory deeper.
    let profile = program
        .ancestors()
        .skip(1)
        .find(|directory| !directory.ends_with("deps"));
    let target = profile
        .and_then(Path::parent)
        .context("this program is not in a target directory")?;
    let directory = target.join("e2e").join(test);
    if directory.exists() {
        std::fs::remove_dir_all(&directory)
            .with_context(|| format!("removing {}", directory.display()))?;
    }
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("making {}", directory.display()))?;
    Ok(directory)
}

/// The name of the test program, without the hash that cargo adds.
fn program() -> Result<String> {
    let program = std::env::current_exe().context("looking for this program's name")?;
    let stem = program.file_stem().map(Path::new).context("this program has no name")?;
    let name = stem.to_string_lossy();
    Ok(name.rsplit_once('-').map_or(name.as_ref(), |(name, _)| name).to_owned())
}
