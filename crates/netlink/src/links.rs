//! Network interfaces.

use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage::{DelLink, GetLink, NewLink};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkHeader, LinkInfo, LinkMessage,
};

use crate::answers::Answer;
use crate::batch::Batch;
use crate::error::NetlinkError;
use crate::read::{attributes, number, text};
use crate::socket::Socket;

const NEW_LINK: u16 = 16;
pub const DEL_LINK: u16 = 17;
const FIXED: usize = 16;

// Attributes that are read.
const MAC: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const PEER_INDEX: u16 = 5;
const ALIAS: u16 = 20;

/// A hardware address.
pub type Mac = [u8; 6];

/// A pair of interfaces to be made, with one end in the socket's network namespace.
#[derive(Debug)]
pub struct Veth<'a> {
    /// The name of the end in the socket's namespace.
    pub name: &'a str,
    /// The hardware address of that end.
    pub mac: Mac,
    /// The MTU of both ends; `None` for the kernel's default.
    pub mtu: Option<u32>,
    /// The other end.
    pub peer: VethPeer<'a>,
}

/// The end of a pair that is in another network namespace.
#[derive(Debug)]
pub struct VethPeer<'a> {
    /// Its name there.
    pub name: &'a str,
    /// Its hardware address.
    pub mac: Mac,
    /// The namespace, as an open file.
    pub namespace: BorrowedFd<'a>,
}

/// An existing network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number in its network namespace.
    pub index: u32,
    /// Whether it is set up.
    pub up: bool,
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub mac: Vec<u8>,
    /// The maximum size of a packet, in bytes.
    pub mtu: u32,
    /// The index of the other end of a pair, in the namespace of that end; else 0.
    pub peer: u32,
    /// Its alias, a text that anybody may set.
    pub alias: String,
}

fn of_index(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn of_name(name: &str) -> LinkMessage {
    let mut message = LinkMessage::default();
    message
        .attributes
        .push(LinkAttribute::IfName(name.to_owned()));
    message
}

fn set_up(message: &mut LinkMessage) {
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
}

/// The message parts that both ends of a pair have.
fn end(name: &str, mac: Mac, mtu: Option<u32>) -> LinkMessage {
    let mut message = of_name(name);
    message
        .attributes
        .push(LinkAttribute::Address(mac.to_vec()));
    message.attributes.extend(mtu.map(LinkAttribute::Mtu));
    // By default, each end of a pair has a queue for each processor, which takes memory and time.
    message.attributes.push(LinkAttribute::NumTxQueues(1));
    message.attributes.push(LinkAttribute::NumRxQueues(1));
    message
}

impl Batch {
    /// Makes a pair of interfaces. The end in the socket's namespace is up at once. The other end
    /// can't be set up before both exist, so that is left to the caller.
    pub fn new_veth(&mut self, veth: &Veth<'_>) {
        let mut peer = end(veth.peer.name, veth.peer.mac, veth.mtu);
        peer.attributes
            .push(LinkAttribute::NetNsFd(veth.peer.namespace.as_raw_fd()));
        let mut message = end(veth.name, veth.mac, veth.mtu);
        set_up(&mut message);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        let ends = (veth.name.to_owned(), veth.peer.name.to_owned());
        let name = move || format!("make the pair {} and {}", ends.0, ends.1);
        self.push(name, NLM_F_CREATE | NLM_F_EXCL, NewLink(message));
    }

    /// Sets a link up.
    pub fn set_up(&mut self, index: u32) {
        let mut message = of_index(index);
        set_up(&mut message);
        self.push(move || format!("set link {index} up"), 0, NewLink(message));
    }

    /// Sets the alias of a link, a text for its later readers.
    pub fn set_alias(&mut self, index: u32, alias: &str) {
        let mut message = of_index(index);
        message
            .attributes
            .push(LinkAttribute::IfAlias(alias.to_owned()));
        self.push(
            move || format!("set the alias of link {index}"),
            0,
            NewLink(message),
        );
    }

    /// Deletes a link, and with it the other end of a pair.
    pub fn delete_link(&mut self, index: u32) {
        self.push(
            move || format!("delete link {index}"),
            0,
            DelLink(of_index(index)),
        );
    }

    /// Deletes the link with this name.
    pub fn delete_link_named(&mut self, name: &str) {
        let message = DelLink(of_name(name));
        let name = name.to_owned();
        self.push(move || format!("delete link {name}"), 0, message);
    }

    /// Asks for a link; [`Link::found`] reads the answer.
    pub fn get_link(&mut self, name: &str) {
        let message = GetLink(of_name(name));
        let name = name.to_owned();
        self.push(move || format!("get link {name}"), 0, message);
    }
}

impl Socket {
    /// The link with this name, if there is one.
    pub fn link(&self, name: &str) -> Result<Option<Link>, NetlinkError> {
        Link::found(self.ask(|batch| batch.get_link(name)))
    }

    /// All links.
    pub fn links(&self) -> Result<Vec<Link>, NetlinkError> {
        let message = GetLink(LinkMessage::default());
        self.dump("list links", &message, |raw| {
            Link::read(raw.kind, raw.content)
        })
    }
}

impl Link {
    /// Reads the answer to [`Batch::get_link`].
    pub fn found(answer: Answer) -> Result<Option<Self>, NetlinkError> {
        match answer {
            Ok(messages) => Ok(messages
                .iter()
                .find_map(|message| Self::read(message.kind, &message.content))),
            Err(error) if error.is_gone() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(kind: u16, content: &[u8]) -> Option<Self> {
        let header = LinkHeader::parse(content)
            .ok()
            .filter(|_| kind == NEW_LINK)?;
        let mut link = Self {
            index: header.index,
            up: header.flags.contains(LinkFlags::Up),
            name: String::new(),
            mac: Vec::new(),
            mtu: 0,
            peer: 0,
            alias: String::new(),
        };
        for attribute in attributes(content, FIXED) {
            let value = attribute.value();
            match attribute.kind() {
                NAME => link.name = text(value),
                MAC => link.mac = value.to_vec(),
                MTU => link.mtu = number(value)?,
                PEER_INDEX => link.peer = number(value)?,
                ALIAS => link.alias = text(value),
                _ => {}
            }
        }
        Some(link)
    }
}
