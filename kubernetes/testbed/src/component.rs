//! A process of the cluster, and its log. If the process ends, the error has its last lines.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::Process;

/// How often to check whether something is there yet.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A process that ends with the cluster.
#[derive(Debug)]
pub struct Component {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Component {
    /// `command` must enter the cluster's namespaces. Its output is appended to `NAME.log` in
    /// `logs`.
    pub fn start(name: &str, mut command: Command, logs: &Path) -> Result<Self> {
        std::fs::create_dir_all(logs).with_context(|| format!("making {}", logs.display()))?;
        let log = logs.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("opening {}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| format!("starting {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    /// The program itself, without the wrappers that started it.
    pub fn process(&self) -> Result<Process> {
        let outer = Process::find(self.child.id());
        let outer = outer.with_context(|| format!("{} has ended", self.name))?;
        Ok(outer.innermost())
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Fails if the process has ended; the error has the last lines of its log.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "{} ended with {status}; {} ends with:\n{}",
                self.name,
                self.log.display(),
                last_lines(&self.log)
            );
        }
        Ok(())
    }

    /// Returns when `there` is true; fails if the component has ended.
    pub fn wait_until(&mut self, mut there: impl FnMut() -> bool) -> Result<()> {
        while !there() {
            self.check()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

/// Enough lines to see the cause.
fn last_lines(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_that_ends_says_what_it_said_last() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo first; echo 'no such thing' >&2; exit 4"]);
        let mut component = Component::start("thing", command, directory.path()).unwrap();
        let error = component.wait_until(|| false).unwrap_err().to_string();
        assert!(
            error.contains("thing ended with exit status: 4") && error.contains("no such thing"),
            "{error}"
        );
    }
}
