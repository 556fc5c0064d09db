//! The socket.

use std::cell::Cell;

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::answers::{Answer, Answers};
use crate::batch::{Batch, MAX_REQUESTS_PER_SEND, append};
use crate::dump::{Dump, End};
use crate::error::NetlinkError;
use crate::read::Raw;

/// More than the kernel puts into one datagram.
pub const MAX_DATAGRAM: usize = 64 << 10;
/// The number of errors that fit into a socket's buffer with any settings.
const ERRORS_KEPT_BY_DEFAULT: usize = 128;
/// What the kernel counts for one error in a socket's buffer, rounded up.
const BYTES_PER_ERROR: usize = 2 << 10;
/// How often a list is read if it changes each time.
const MAX_DUMP_ATTEMPTS: u32 = 16;

/// A socket of the network namespace that it was opened in, even when its thread enters another.
///
/// Only one thread at a time may use it: two would take each other's answers.
#[derive(Debug)]
pub struct Socket {
    socket: netlink_sys::Socket,
    next: Cell<u32>,
    has_large_buffer: Cell<bool>,
}

impl Socket {
    /// Opens a socket in the network namespace of this thread.
    pub fn open() -> Result<Self, NetlinkError> {
        let socket = open()?;
        // Without it, the kernel would ignore the filters of dumps.
        let strict = socket.set_netlink_get_strict_chk(true);
        strict.map_err(NetlinkError::socket(
            "ask for strict checks, new in Linux 4.20",
        ))?;
        // With these, an error does not repeat its request, and has the kernel's explanation.
        let set = socket
            .set_cap_ack(true)
            .and_then(|()| socket.set_ext_ack(true));
        set.map_err(NetlinkError::socket(
            "ask for short errors with explanations",
        ))?;
        Ok(Self {
            socket,
            next: Cell::new(1),
            has_large_buffer: Cell::new(false),
        })
    }

    /// Sends a batch to the kernel, and returns the answer to each request, in their order. A
    /// request that fails does not keep those after it from being tried.
    ///
    /// ```no_run
    /// # use berth_netlink::{Batch, Socket};
    /// let mut batch = Batch::default();
    /// batch.delete_link_named("berth0");
    /// batch.delete_link_named("berth1");
    /// for answer in Socket::open()?.call(batch)? {
    ///     if let Err(error) = answer.map(drop) {
    ///         println!("{error}");
    ///     }
    /// }
    /// # Ok::<(), berth_netlink::NetlinkError>(())
    /// ```
    pub fn call(&self, batch: Batch) -> Result<Vec<Answer>, NetlinkError> {
        let first = self.next.get();
        let numbered = batch.number(first);
        let count = u32::try_from(numbered.names.len()).unwrap_or(u32::MAX);
        self.next.set(first.wrapping_add(count));
        let mut answers = Answers::new(first, numbered.names);
        let mut buffer = Vec::with_capacity(MAX_DATAGRAM);
        for send in numbered.sends {
            if send.requests.len() > ERRORS_KEPT_BY_DEFAULT {
                self.enlarge_buffer();
            }
            self.send(numbered.bytes.get(send.bytes).unwrap_or_default())?;
            loop {
                receive(&self.socket, &mut buffer)?;
                if answers.take(&buffer, send.requests.end - 1) {
                    break;
                }
            }
        }
        Ok(answers.finish())
    }

    /// Sends a batch of one request.
    pub fn ask(&self, add: impl FnOnce(&mut Batch)) -> Answer {
        let mut batch = Batch::default();
        add(&mut batch);
        self.call(batch)?.pop().unwrap_or(Ok(Vec::new()))
    }

    /// Reads a list, again if it changed meanwhile. A message for which `read` returns `None` is
    /// left out.
    pub(crate) fn dump<T>(
        &self,
        request: &str,
        message: &RouteNetlinkMessage,
        read: impl Fn(Raw<'_>) -> Option<T>,
    ) -> Result<Vec<T>, NetlinkError> {
        let mut buffer = Vec::with_capacity(MAX_DATAGRAM);
        for _ in 0..MAX_DUMP_ATTEMPTS {
            let sequence = self.next.get();
            self.next.set(sequence.wrapping_add(1));
            buffer.clear();
            append(&mut buffer, NLM_F_DUMP, sequence, message.clone());
            self.send(&buffer)?;
            let mut dump = Dump::new(sequence);
            let end = loop {
                receive(&self.socket, &mut buffer)?;
                if let Some(end) = dump.take(&buffer, request, &read) {
                    break end?;
                }
            };
            if let End::Complete(list) = end {
                return Ok(list);
            }
        }
        let request = request.to_owned();
        Err(NetlinkError::Inconsistent {
            request,
            attempts: MAX_DUMP_ATTEMPTS,
        })
    }

    fn send(&self, bytes: &[u8]) -> Result<(), NetlinkError> {
        let sent = self.socket.send(bytes, 0);
        sent.map(drop)
            .map_err(NetlinkError::socket("send requests"))
    }

    /// Makes room for an error for each request of a full send. A process without the right to do
    /// this may not change links and routes either, and gets that error for each request.
    fn enlarge_buffer(&self) {
        if !self.has_large_buffer.replace(true) {
            let size = MAX_REQUESTS_PER_SEND * BYTES_PER_ERROR;
            let _ = set_socket_recv_buffer_size_force(&self.socket, size);
        }
    }
}

/// A socket with the kernel's own settings.
pub fn open() -> Result<netlink_sys::Socket, NetlinkError> {
    let opened = netlink_sys::Socket::new(NETLINK_ROUTE);
    opened.map_err(NetlinkError::socket("open a socket"))
}

/// The next datagram. It does not wait: the kernel answers before a send returns, and continues a
/// dump when it is read. If no answer is there, none will come.
pub fn receive(socket: &netlink_sys::Socket, buffer: &mut Vec<u8>) -> Result<(), NetlinkError> {
    const DOING: &str = "read an answer";
    buffer.clear();
    let received = socket
        .recv(buffer, RecvFlags::DONTWAIT.bits().cast_signed())
        .map_err(NetlinkError::socket(DOING))?;
    if received >= MAX_DATAGRAM {
        return Err(NetlinkError::socket(DOING)(Errno::MSGSIZE.into()));
    }
    Ok(())
}
