//! The kernel's multicast events about links.

use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_route::AddressFamily;
use netlink_packet_route::link::LinkHeader;
use netlink_sys::SocketAddr;

use crate::error::NetlinkError;
use crate::links::DEL_LINK;
use crate::read::messages;
use crate::socket::{MAX_DATAGRAM, open, receive};

/// Receives an event for every link that is removed, in the network namespace that it was opened
/// in. Its file becomes readable when there are events.
#[derive(Debug)]
pub struct LinkEvents(netlink_sys::Socket);

impl LinkEvents {
    /// Listens in the network namespace of this thread.
    pub fn open() -> Result<Self, NetlinkError> {
        const LINKS: u32 = 1;
        let mut socket = open()?;
        let bound = socket.bind(&SocketAddr::new(0, LINKS));
        bound.map_err(NetlinkError::socket("listen to link events"))?;
        Ok(Self(socket))
    }

    /// The indexes of links that have gone since the last call. It does not wait.
    ///
    /// [`NetlinkError::is_overrun`] says that some were missed.
    pub fn removed(&self) -> Result<Vec<u32>, NetlinkError> {
        let mut buffer = Vec::with_capacity(MAX_DATAGRAM);
        let mut removed = Vec::new();
        loop {
            match receive(&self.0, &mut buffer) {
                Err(error) if error.is_empty() => return Ok(removed),
                received => received?,
            }
            let gone = messages(&buffer).filter(|message| message.kind == DEL_LINK);
            let headers = gone.filter_map(|message| LinkHeader::parse(message.content).ok());
            // A bridge says with the same message that a link is no longer its port.
            let links = headers.filter(|header| header.interface_family == AddressFamily::Unspec);
            removed.extend(links.map(|header| header.index));
        }
    }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
