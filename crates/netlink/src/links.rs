//! Network interfaces.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::message::{Attributes, Batch, CHANGE, CREATE, DEL_LINK, GET, GET_LINK, LIST, NEW_LINK};
use crate::read::{Message, text, unsigned};
use crate::{Answer, Socket};

const FIXED: usize = 16;
const UP: u32 = 1;

// Attributes of a link.
const MAC: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const PEER_INDEX: u16 = 5;
const INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const ALIAS: u16 = 20;
const NAMESPACE: u16 = 28;
const SEND_QUEUES: u16 = 31;
const RECEIVE_QUEUES: u16 = 32;

pub type Mac = [u8; 6];

/// A pair to be made: one end here, the other in a pod.
#[derive(Debug)]
pub struct Veth<'a> {
    pub name: &'a str,
    pub mac: Mac,
    pub mtu: Option<u32>,
    pub pod: PodEnd<'a>,
}

#[derive(Debug)]
pub struct PodEnd<'a> {
    pub name: &'a str,
    pub mac: Mac,
    pub namespace: BorrowedFd<'a>,
}

/// One that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub up: bool,
    pub name: String,
    pub mac: Vec<u8>,
    pub mtu: u32,
    /// Of the other end of a pair.
    pub peer: u32,
    pub alias: String,
}

fn fixed(index: u32, flags: u32, change: u32) -> [u8; FIXED] {
    let mut bytes = [0; FIXED];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&change.to_ne_bytes());
    bytes
}

impl Batch {
    /// The end here is up at once; the other can't be before both are there.
    pub fn new_veth(&mut self, veth: &Veth<'_>) {
        let end = |end: &mut Attributes<'_>, name: &str, mac: &Mac| {
            end.text(NAME, name);
            end.bytes(MAC, mac);
            if let Some(mtu) = veth.mtu {
                end.number(MTU, mtu);
            }
            // As many as a pair uses: otherwise it has memory for one on each processor, and making it takes longer.
            end.number(SEND_QUEUES, 1);
            end.number(RECEIVE_QUEUES, 1);
        };
        self.message(NEW_LINK, CREATE, &fixed(0, UP, UP), |link| {
            end(link, veth.name, &veth.mac);
            link.nested(INFO, |info| {
                info.text(INFO_KIND, "veth");
                info.nested(INFO_DATA, |data| {
                    data.nested(VETH_PEER, |peer| {
                        peer.fixed(&fixed(0, 0, 0));
                        end(peer, veth.pod.name, &veth.pod.mac);
                        let namespace = u32::try_from(veth.pod.namespace.as_raw_fd()).unwrap_or(u32::MAX);
                        peer.number(NAMESPACE, namespace);
                    });
                });
            });
        });
    }

    pub fn set_up(&mut self, index: u32) {
        self.message(NEW_LINK, CHANGE, &fixed(index, UP, UP), |_| {});
    }

    /// A text that stays with the link, for whoever finds it.
    pub fn set_alias(&mut self, index: u32, alias: &str) {
        self.message(NEW_LINK, CHANGE, &fixed(index, 0, 0), |link| link.text(ALIAS, alias));
    }

    pub fn delete_link(&mut self, index: u32) {
        self.message(DEL_LINK, CHANGE, &fixed(index, 0, 0), |_| {});
    }

    pub fn delete_link_named(&mut self, name: &str) {
        self.message(DEL_LINK, CHANGE, &fixed(0, 0, 0), |link| link.text(NAME, name));
    }

    pub fn get_link(&mut self, name: &str) {
        self.message(GET_LINK, GET, &fixed(0, 0, 0), |link| link.text(NAME, name));
    }
}

impl Socket {
    pub fn link(&self, name: &str) -> Result<Option<Link>, Errno> {
        Link::found(self.ask(|batch| batch.get_link(name)))
    }

    pub fn links(&self) -> Result<Vec<Link>, Errno> {
        let listed = self.ask(|batch| batch.message(GET_LINK, LIST, &fixed(0, 0, 0), |_| {}))?;
        Ok(listed.iter().filter_map(Link::read).collect())
    }
}

impl Link {
    /// Of the answer to [`Batch::get_link`].
    pub fn found(answer: Answer) -> Result<Option<Self>, Errno> {
        match answer {
            Ok(messages) => Ok(messages.iter().find_map(Self::read)),
            Err(Errno::NODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether it says that this link is no more.
    pub fn is_end_of(message: &Message, index: u32) -> bool {
        message.kind == DEL_LINK && message.content.get(4..).and_then(unsigned) == Some(index)
    }

    fn read(message: &Message) -> Option<Self> {
        let mut link = Self {
            index: message.content.get(4..).and_then(unsigned)?,
            up: message.content.get(8..).and_then(unsigned)? & UP != 0,
            name: String::new(),
            mac: Vec::new(),
            mtu: 0,
            peer: 0,
            alias: String::new(),
        };
        for (kind, value) in message.attributes(FIXED) {
            match kind {
                NAME => link.name = text(value),
                MAC => link.mac = value.to_vec(),
                MTU => link.mtu = unsigned(value)?,
                PEER_INDEX => link.peer = unsigned(value)?,
                ALIAS => link.alias = text(value),
                _ => {}
            }
        }
        Some(link)
    }
}
