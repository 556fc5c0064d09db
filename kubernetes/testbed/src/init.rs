//! Process 1 of a cluster: all of the cluster's processes live in its process namespace, and end
//! with it.
//!
//! The kernel guarantees that nothing is left. It ends every process of the namespace when process
//! 1 ends. A network namespace ends with its last process, and removes every veth pair with an end
//! in it. Mounts end with their namespace. Only directories must be removed explicitly.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::process::Process;

const SCRIPT: &str = include_str!("init.sh");

/// A running process 1, which ends with us until [`Init::detach`].
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
            // A user without the right to make other namespaces may make them inside a user
            // namespace.
            command.args(["--user", "--map-current-user"]);
        }
        command.args(["sh", "-c", SCRIPT, "init"]).arg(directory).args(groups);
        // In its own process group, so that signals of the terminal reach only us. Process 1 ends
        // when we do.
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

    /// From now on the cluster outlives us.
    pub fn detach(mut self) -> Result<()> {
        if let Some(mut tie) = self.tie.take() {
            writeln!(tie, "stay").context("process 1 of the cluster has ended")?;
        }
        Ok(())
    }

    /// Ends process 1, and returns when all processes have ended and the directories are gone.
    pub fn end(&mut self) -> Result<()> {
        self.tie = None;
        self.child.wait().context("waiting for process 1 of the cluster")?;
        Ok(())
    }
}

/// Runs a program in the process namespace of `init`, but not in its network namespace. Without
/// root, the program also enters its user namespace.
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
