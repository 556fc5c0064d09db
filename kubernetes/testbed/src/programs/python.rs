//! Servers from PyPI, each in its own virtual environment: made once, in a directory of the cache
//! that is named after the hash of its requirements.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::digest::sha256;
use crate::{cache, shell};

/// An environment to install.
#[derive(Debug)]
pub struct Environment {
    /// Its name for people.
    pub title: &'static str,
    /// Its directory under `xtask/`, with `requirements.txt`, and under the cache.
    pub directory: &'static str,
    /// How long it takes, in words.
    pub takes: &'static str,
}

impl Environment {
    /// The Python of the installed environment.
    pub fn python(&self) -> Result<PathBuf> {
        let python = self.made()?.join("bin/python");
        ensure!(
            python.exists(),
            "{} is not installed yet: run `cargo xtask test real`",
            self.title
        );
        Ok(python)
    }

    /// Installs the environment unless it is there already. Only one process installs at a time;
    /// the others wait and use its result.
    pub fn make(&self, say: &dyn Fn(&str)) -> Result<()> {
        let directory = self.made()?;
        if directory.exists() {
            return Ok(());
        }
        let parent = directory.parent().context("the cache has no parent")?;
        std::fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))?;
        let lock = File::create(parent.join("lock")).context("opening the lock of the cache")?;
        lock.lock().context("locking the cache")?;
        if directory.exists() {
            return Ok(());
        }
        let start = Instant::now();
        say(&format!("installing {} from PyPI: {}, once", self.title, self.takes));
        // The directory is renamed into place when it is complete. What a killed run left is
        // removed.
        let unfinished = directory.with_extension("unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished)?;
        }
        let mut venv = Command::new("python3");
        shell::run(venv.args(["-m", "venv"]).arg(&unfinished))?;
        let mut pip = Command::new(unfinished.join("bin/python"));
        pip.args("-m pip install --quiet --disable-pip-version-check --no-deps -r".split(' '));
        shell::run(pip.arg(self.requirements()))
            .with_context(|| format!("installing {}", self.title))?;
        std::fs::rename(&unfinished, &directory).context("putting the environment in place")?;
        say(&format!("installed in {} s", start.elapsed().as_secs()));
        Ok(())
    }

    fn requirements(&self) -> PathBuf {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xtask");
        xtask.join(self.directory).join("requirements.txt")
    }

    fn made(&self) -> Result<PathBuf> {
        let path = self.requirements();
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let hash = sha256([text.as_slice()]);
        Ok(cache::directory()?.join(self.directory).join(&hash[..16]))
    }
}
