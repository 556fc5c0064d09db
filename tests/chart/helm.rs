//! The real Helm, without the user's own configuration.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use berth_testbed::peers;

pub struct Helm {
    program: PathBuf,
    home: tempfile::TempDir,
}

pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/berth")
}

impl Helm {
    pub fn find() -> Self {
        Self {
            program: peers::helm().unwrap(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        self.isolate(&mut command);
        command.args(words).args(["--namespace", "kube-system"]);
        command
    }

    /// Where the program is.
    pub fn directory(&self) -> &Path {
        self.program.parent().unwrap()
    }

    pub fn isolate(&self, command: &mut Command) {
        for (variable, name) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
        ] {
            command.env(variable, self.home.path().join(name));
        }
        command.env_remove("KUBECONFIG");
    }

    /// What the chart renders, or the error with which Helm refuses.
    pub fn template(&self, values: &[String]) -> std::result::Result<String, String> {
        let mut command = self.command(&["template", "berth"]);
        command.arg(chart());
        for value in values {
            command.arg("--set").arg(value);
        }
        let output = command.output().unwrap();
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).unwrap());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Runs a command that must succeed, and returns what it printed.
pub fn done(command: &mut Command) -> String {
    tried(command).unwrap()
}

/// The same, but a failure is an error with all that the command printed.
pub fn tried(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{said}{errors}",
        output.status
    );
    Ok(said)
}
