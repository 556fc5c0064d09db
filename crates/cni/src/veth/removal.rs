//! Removes an interface without waiting until the kernel has freed it.
//!
//! A link is gone for everybody as soon as the kernel has taken it off its lists, within a
//! millisecond. The kernel holds the process that asked for some fifteen more, until its memory can
//! be freed. A pod's deletion need not wait for that: a child process asks, and this one continues
//! when the kernel announces that the link is gone.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use berth_api::cni::{CniError, Code};
use berth_netlink::{Link, LinkEvents, NetlinkError, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::kernel;

/// The child process's argument.
const FLAG: &str = "--remove-link";
/// The child's name, which tells a program that is several plugins which one to be.
const PROGRAM: &str = "berth-cni";

/// A thousand times what the kernel needs. After a longer delay the runtime calls again.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Why an interface may still be there.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// The child process continues.
    #[error("the kernel has not done it yet, try again later")]
    Timeout,
    #[error("waiting for the kernel")]
    Poll(#[source] Errno),
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl RemovalError {
    pub fn failure(self, doing: &str) -> CniError {
        match self {
            Self::Timeout => CniError::new(Code::TryAgainLater, format!("{doing}: {self}")),
            Self::Poll(_) | Self::Netlink(_) => kernel(doing, self),
        }
    }
}

/// When it succeeds, neither end of the pair is on any list of the kernel.
pub fn remove(socket: &Socket, link: &Link) -> Result<(), RemovalError> {
    let events = LinkEvents::open()?;
    match start(link.index) {
        Ok(mut child) => wait(socket, &events, link, &mut child, REMOVAL_TIMEOUT),
        // Without a child, this process waits.
        Err(_) => delete(socket, link.index),
    }
}

fn start(index: u32) -> std::io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(PROGRAM).arg(FLAG).arg(index.to_string());
    // A runtime reads until all processes have closed its pipes, so the child must not inherit
    // them.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .env_clear();
    command.spawn()
}

fn wait(
    socket: &Socket,
    events: &LinkEvents,
    link: &Link,
    child: &mut Child,
    limit: Duration,
) -> Result<(), RemovalError> {
    let start = Instant::now();
    let Some(ended) = child.stdout.take() else {
        return delete(socket, link.index);
    };
    loop {
        let mut files = [
            PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(ended.as_fd(), PollFlags::IN),
        ];
        let left = limit.saturating_sub(start.elapsed());
        // A duration that does not fit is longer than any wait.
        let left = Timespec::try_from(left).map_err(|_| RemovalError::Poll(Errno::INVAL))?;
        match poll(&mut files, Some(&left)) {
            Ok(0) => return Err(RemovalError::Timeout),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(RemovalError::Poll(error)),
        }
        let [event, end] = files.map(|file| !file.revents().is_empty());
        if event {
            match events.removed() {
                Ok(removed) if removed.contains(&link.index) => return Ok(()),
                Ok(_) => {}
                // The kernel dropped events: the one we wait for may have been among them.
                Err(error) if error.is_overrun() => {
                    if socket.link(&link.name)?.is_none() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        } else if end {
            // The child has ended. If it failed, deleting the link here gives the kernel's error.
            let _ = child.wait();
            return delete(socket, link.index);
        }
    }
}

fn delete(socket: &Socket, index: u32) -> Result<(), RemovalError> {
    match socket.ask(|batch| batch.delete_link(index)) {
        Err(error) if !error.is_gone() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Runs the child process's part; `None` if this is not the child.
pub fn for_another_process() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != FLAG {
        return None;
    }
    let index = arguments.next().and_then(|index| index.to_str()?.parse().ok());
    let removed = index.and_then(|index| delete(&Socket::open().ok()?, index).ok());
    Some(removed.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_that_comes_to_nothing_is_given_up() {
        let socket = Socket::open().unwrap();
        let events = LinkEvents::open().unwrap();
        let link = socket.link("lo").unwrap().unwrap();
        // A process that neither removes it nor ends.
        let mut child = Command::new("sleep")
            .arg("infinity")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let given_up = wait(&socket, &events, &link, &mut child, Duration::from_millis(50));
        child.kill().unwrap();
        child.wait().unwrap();
        let failure = given_up.unwrap_err().failure("removing berth0");
        assert_eq!(failure.code, Code::TryAgainLater);
        assert!(failure.msg.starts_with("removing berth0"), "{failure}");
    }
}
