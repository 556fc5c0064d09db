//! Talking to the kernel about links, addresses, neighbours and routes. Blocking, and several messages in one system call: what is asked
//! together is answered together.

mod links;
mod message;
mod read;
mod routes;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with};

pub use links::{Link, Mac, PodEnd, Veth};
pub use message::Batch;
use message::{DONE, ERROR};
use read::{Message, messages, signed};
pub use routes::full_length;

/// A socket belongs to the network namespace it was opened in, wherever its process goes.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// What one message of a batch came to: what the kernel sent back, or its refusal.
pub type Answer = Result<Vec<Message>, Errno>;

/// As much as the kernel puts into one piece of a long answer.
const PIECE: usize = 64 << 10;

impl Socket {
    /// In the network namespace of this thread.
    pub fn open() -> Result<Self, Errno> {
        // The first of its protocols is about routes, and what belongs to them.
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).map(Self)
    }

    /// Hears of every link that comes, changes or goes.
    pub fn of_link_events() -> Result<Self, Errno> {
        const LINKS: u32 = 1;
        let socket = Self::open()?;
        bind(&socket.0, &SocketAddrNetlink::new(0, LINKS))?;
        Ok(socket)
    }

    /// Sends all messages, and waits for what becomes of each. One that fails does not keep those after it from being tried.
    pub fn call(&self, batch: &Batch) -> Result<Vec<Answer>, Errno> {
        let mut answers: Vec<Answer> = (0..batch.count()).map(|_| Ok(Vec::new())).collect();
        let mut left = answers.len();
        send(&self.0, batch.bytes(), SendFlags::empty())?;
        let mut buffer = vec![0; PIECE];
        while left > 0 {
            for message in self.receive(&mut buffer)? {
                // Numbered by their place in the batch.
                let Some(answer) = usize::try_from(message.sequence)
                    .ok()
                    .and_then(|at| answers.get_mut(at))
                else {
                    continue;
                };
                match message.kind {
                    // Each message asks for one, and a listing ends with the other: both say how it went.
                    ERROR | DONE => {
                        left = left.saturating_sub(1);
                        let code = signed(&message.content).unwrap_or(0);
                        if code != 0 {
                            *answer = Err(Errno::from_raw_os_error(code.saturating_neg()));
                        }
                    }
                    _ => {
                        if let Ok(list) = answer {
                            list.push(message);
                        }
                    }
                }
            }
        }
        Ok(answers)
    }

    /// A batch of one.
    pub fn ask(&self, add: impl FnOnce(&mut Batch)) -> Answer {
        let mut batch = Batch::default();
        add(&mut batch);
        self.call(&batch)?.pop().unwrap_or(Err(Errno::INVAL))
    }

    /// What comes next, in the order it came.
    pub fn next(&self) -> Result<Vec<Message>, Errno> {
        self.receive(&mut vec![0; PIECE])
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<Vec<Message>, Errno> {
        loop {
            match recv(&self.0, &mut *buffer, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
                Ok((count, _)) => return Ok(messages(buffer.get(..count).unwrap_or_default())),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
