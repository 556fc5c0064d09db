//! Process 1 of a cluster: all of the cluster's processes live in its process namespace, and end
//! with it.
//!
//! The kernel is what keeps the promise that nothing is left: it ends every process of the
//! namespace when process 1 ends; a network namespace goes with its last process, and takes along
//! both ends of every veth pair that has one end in it; mounts go with their namespace. Only
//! directories need a hand.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::process::Process;

const SCRIPT: &str = include_str!("init.sh");

/// Running, and tied to us until [`Init::stay`].
#[derive(Debug)]
pub struct Init {
    process: Process,
    /// `unshare`, which waits for process 1.
    child: Child,
    tie: Option<ChildStdin>,
}

impl Init {
    /// With `network`, process 1 also has a network namespace of its own: the wire between the
    /// nodes.
    pub fn start(directory: &Path, groups: &[PathBuf], network: bool) -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child"]);
        if network {
            command.arg("--net");
        }
        if !is_root() {
            // Who may not make other namespaces may make them inside a user namespace.
            command.args(["--user", "--map-current-user"]);
        }
        command.args(["sh", "-c", SCRIPT, "init"]).arg(directory).args(groups);
        // Not in our process group: what the terminal sends there is meant for us, and we are what
        // this one is tied to.
        command.process_group(0);
        let log = directory.join("init.log");
        let stderr_log =
            File::create(&log).with_context(|| format!("opening {}", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr_log);
        let mut child = command.spawn().context("starting unshare, of util-linux")?;
        let tie = child.stdin.take();
        let said = child.stdout.take().context("unshare has no output")?;
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        ensure!(
            line == "ready\n",
            "no process namespace can be made here{}: {}",
            if is_root() { "" } else { " without root" },
            std::fs::read_to_string(&log).unwrap_or_default().trim()
        );
        let outer = Process::find(child.id()).context("unshare has ended")?;
        let process = outer.children().into_iter().next();
        Ok(Self {
            process: process.context("process 1 of the cluster has ended")?,
            child,
            tie,
        })
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    /// From now on everything stays when we end.
    pub fn stay(mut self) -> Result<()> {
        if let Some(mut tie) = self.tie.take() {
            writeln!(tie, "stay").context("process 1 of the cluster has ended")?;
        }
        Ok(())
    }

    /// Cuts the tie, and returns when everything has ended and the directories are gone.
    pub fn end(&mut self) -> Result<()> {
        self.tie = None;
        self.child.wait().context("waiting for process 1 of the cluster")?;
        Ok(())
    }
}

/// Runs a program in the process namespace of `init`, and in no other of its namespaces.
pub fn enter(init: &Process) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--target={}", init.pid())).arg("--pid");
    if !is_root() {
        command.args(["--user", "--preserve-credentials"]);
    }
    command.arg("--").process_group(0).stdin(Stdio::null());
    command
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
