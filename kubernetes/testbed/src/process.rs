//! A process that is distinguished from a later one with the same number.

use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Number, start time and boot: no two processes share all three.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: u32,
    /// In clock ticks since the boot.
    started: u64,
    boot: String,
}

impl Process {
    /// `None` if there is no such process, or only a zombie.
    pub fn find(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self {
            pid,
            started: start_time(&stat)?,
            boot: boot_id().ok()?,
        })
    }

    pub fn current() -> Result<Self> {
        Self::find(std::process::id()).context("this process is not in /proc")
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn is_alive(&self) -> bool {
        Self::find(self.pid).as_ref() == Some(self)
    }

    pub fn children(&self) -> Vec<Self> {
        let pid = self.pid;
        let children =
            std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let pids = children.split_whitespace().filter_map(|child| child.parse().ok());
        pids.filter_map(Self::find).collect()
    }

    /// The process that does the work: `nsenter` and `unshare` fork and wait.
    pub fn innermost(&self) -> Self {
        match self.children().into_iter().next() {
            Some(child) => child.innermost(),
            None => self.clone(),
        }
    }

    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Does nothing if the process has ended.
    fn signal(&self, signal: Signal) -> Result<()> {
        let Some(handle) = self.handle()? else {
            return Ok(());
        };
        match pidfd_send_signal(&handle, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("signalling process {}", self.pid)),
        }
    }

    /// Returns when the process has ended. A child of ours must be waited for by its `Child`, too.
    pub fn wait(&self) -> Result<()> {
        let Some(handle) = self.handle()? else {
            return Ok(());
        };
        loop {
            match poll(&mut [PollFd::new(&handle, PollFlags::IN)], None) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("waiting for process {}", self.pid));
                }
            }
        }
    }

    /// Proportional set size, in bytes: a page that N processes share counts as an Nth of its size.
    pub fn memory(&self) -> Result<u64> {
        self.bytes("smaps_rollup", "Pss:")
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> Result<u64> {
        self.bytes("status", "VmRSS:")
    }

    /// The maximum of resident memory so far, in bytes.
    pub fn most_resident(&self) -> Result<u64> {
        self.bytes("status", "VmHWM:")
    }

    /// The CPU time of all its threads.
    pub fn processor_time(&self) -> Result<Duration> {
        let path = format!("/proc/{}/stat", self.pid);
        let stat = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let ticks = processor_ticks(&stat).with_context(|| format!("{path} has no times"))?;
        // The kernel counts 100 ticks a second, on every machine.
        Ok(Duration::from_millis(ticks * 10))
    }

    fn bytes(&self, file: &str, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/{file}", self.pid);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB"));
        let kibibytes: u64 = kibibytes
            .and_then(|number| number.trim().parse().ok())
            .with_context(|| format!("{path} has no {field}"))?;
        Ok(kibibytes * 1024)
    }

    /// Opens the handle first and compares after, so that the handle is for this process and not
    /// for a later one with the same number.
    fn handle(&self) -> Result<Option<OwnedFd>> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{} is not a process number", self.pid))?;
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("looking for process {pid}")),
        };
        Ok(self.is_alive().then_some(handle))
    }
}

fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let id = std::fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    Ok(id.trim().to_owned())
}

/// The name in parentheses can contain anything, so fields are counted from its end. The third is
/// the state, the 22nd the start time.
fn start_time(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The ticks in user mode (the 14th field) and in the kernel (the 15th).
fn processor_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_ends_by_its_record_and_not_twice() {
        let mut child = Command::new("sleep").arg("infinity").spawn().unwrap();
        let process = Process::find(child.id()).unwrap();
        assert!(process.is_alive());
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(!process.is_alive(), "a zombie is not alive");
        child.wait().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    #[test]
    fn a_later_process_with_the_same_number_is_left_alone() {
        let mut child = Command::new("sleep").arg("infinity").spawn().unwrap();
        let living = Process::find(child.id()).unwrap();
        let started = living.started - 1;
        let earlier = Process {
            started,
            ..living.clone()
        };
        let other_boot = Process {
            boot: String::from("another"),
            ..living.clone()
        };
        for record in [earlier, other_boot] {
            assert!(!record.is_alive());
            record.kill().unwrap();
        }
        assert!(living.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_move_the_fields() {
        let fields: Vec<String> = (4..30).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) b (c) S {}", fields.join(" "));
        assert_eq!(start_time(&stat), Some(22));
    }
}
