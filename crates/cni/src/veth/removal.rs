//! Removing an interface without waiting for the kernel to forget it.
//!
//! A link is gone for everybody as soon as the kernel has taken it off its lists, within a
//! millisecond. The process that asked for it is held for some fifteen more, until nobody can still
//! be looking at its memory. A pod's deletion need not wait for that: another process asks, and
//! this one goes on when the kernel tells everybody that the link is gone.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use berth_api::cni::{CniError, Code};
use berth_netlink::{Link, LinkEvents, NetlinkError, Socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::kernel;

/// What the other process is called with.
const FLAG: &str = "--remove-link";
/// Its name, to which a program that has several answers.
const PROGRAM: &str = "berth-cni";

/// A thousand times what the kernel needs. One that is held up for longer is asked again by the
/// runtime.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Why an interface may still be there.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// The other process goes on with it.
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

/// When it returns well, neither end of the pair is on any list.
pub fn remove(socket: &Socket, link: &Link) -> Result<(), RemovalError> {
    let events = LinkEvents::open()?;
    match start(link.index) {
        Ok(mut child) => wait(socket, &events, link, &mut child, REMOVAL_TIMEOUT),
        // Then this one waits.
        Err(_) => delete(socket, link.index),
    }
}

fn start(index: u32) -> std::io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(PROGRAM).arg(FLAG).arg(index.to_string());
    // A runtime reads until everybody has closed what it gave us.
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
        // One that can't be said is longer than anybody waits.
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
                // There were more than it could keep: the one we wait for may have been among them.
                Err(error) if error.is_overrun() => {
                    if socket.link(&link.name)?.is_none() {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        } else if end {
            // The other process is through, and what it could not do is tried here, for the
            // kernel's own word on it.
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

/// What the other process does, if this is it.
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
