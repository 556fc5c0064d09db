//! Routes.

mod filter;
mod read;

use std::fmt;
use std::net::IpAddr;

use berth_addr::{Family, Prefix};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage::{DelRoute, GetRoute, NewRoute};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteMessage, RouteScope, RouteType, RouteVia,
};

use crate::addresses::address_family;
use crate::batch::Batch;
use crate::error::NetlinkError;
use crate::socket::Socket;

pub use filter::RouteFilter;

/// The table that packets are routed by, unless a rule says otherwise.
pub const MAIN_TABLE: u32 = 254;

/// The program that made a route: a number that the kernel only stores. A program with its own
/// number finds its routes by it, and leaves those of others alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// The kernel itself, for example for the network of an address.
    pub const KERNEL: Self = Self(2);
    /// An administrator, or a program that acts for one.
    pub const STATIC: Self = Self(4);
}

/// What a route does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteKind {
    /// It sends the packet on.
    Unicast,
    /// It drops the packet.
    Blackhole,
    /// Another of the kernel's kinds, by its number.
    Other(u8),
}

/// A route with at most one next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where its packets go.
    pub destination: Prefix,
    /// The next hop. A route without one goes straight through its link.
    ///
    /// A route that is read and has several next hops shows none of them, and no link.
    pub gateway: Option<IpAddr>,
    /// The index of the link. If there is none, the kernel takes the link whose network the
    /// gateway is in.
    pub link: Option<u32>,
    /// The number of its table.
    pub table: u32,
    /// Who made it.
    pub protocol: Protocol,
    /// Of two routes to one destination, the one with the lower metric is used.
    pub metric: u32,
    /// Whether the gateway is reachable through the link although no address of the link covers it.
    pub on_link: bool,
    /// What it does with a packet.
    pub kind: RouteKind,
}

impl Route {
    /// A static route in the main table, without a gateway or a link yet. Its metric is the
    /// kernel's default.
    pub fn to(destination: impl Into<Prefix>) -> Self {
        let destination = destination.into();
        let metric = match destination.family() {
            Family::V4 => 0,
            Family::V6 => 1024,
        };
        Self {
            destination,
            gateway: None,
            link: None,
            table: MAIN_TABLE,
            protocol: Protocol::STATIC,
            metric,
            on_link: false,
            kind: RouteKind::Unicast,
        }
    }

    fn message(&self) -> RouteMessage {
        let destination = self.destination.first();
        let mut message = RouteMessage::default();
        message.header.address_family = address_family(destination);
        message.header.destination_prefix_length = self.destination.length();
        message.header.protocol = self.protocol.0.into();
        message.header.kind = self.kind.into();
        message.header.scope = match self.gateway {
            None if self.kind == RouteKind::Unicast => RouteScope::Link,
            _ => RouteScope::Universe,
        };
        if self.on_link {
            message.header.flags = RouteFlags::Onlink;
        }
        set_table(&mut message, self.table);
        let attributes = &mut message.attributes;
        if self.destination.length() > 0 {
            attributes.push(RouteAttribute::Destination(destination.into()));
        }
        attributes.extend(self.link.map(RouteAttribute::Oif));
        attributes.extend(self.gateway.map(|gateway| {
            if gateway.is_ipv4() == destination.is_ipv4() {
                RouteAttribute::Gateway(gateway.into())
            } else {
                RouteAttribute::Via(RouteVia::from(gateway))
            }
        }));
        if self.metric > 0 {
            attributes.push(RouteAttribute::Priority(self.metric));
        }
        message
    }
}

/// The header has room only for a small table number.
fn set_table(message: &mut RouteMessage, table: u32) {
    match u8::try_from(table) {
        Ok(table) => message.header.table = table,
        Err(_) => message.attributes.push(RouteAttribute::Table(table)),
    }
}

impl From<RouteKind> for RouteType {
    fn from(kind: RouteKind) -> Self {
        match kind {
            RouteKind::Unicast => Self::Unicast,
            RouteKind::Blackhole => Self::BlackHole,
            RouteKind::Other(number) => number.into(),
        }
    }
}

impl From<RouteType> for RouteKind {
    fn from(kind: RouteType) -> Self {
        match kind {
            RouteType::Unicast => Self::Unicast,
            RouteType::BlackHole => Self::Blackhole,
            other => Self::Other(other.into()),
        }
    }
}

/// Like `ip route`, with all values that are not defaults.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RouteKind::Unicast => {}
            RouteKind::Blackhole => write!(f, "blackhole ")?,
            RouteKind::Other(number) => write!(f, "type {number} ")?,
        }
        write!(f, "{}", self.destination)?;
        if let Some(gateway) = self.gateway {
            write!(f, " via {gateway}")?;
        }
        if let Some(link) = self.link {
            write!(f, " on link {link}")?;
        }
        if self.table != MAIN_TABLE {
            write!(f, " in table {}", self.table)?;
        }
        Ok(())
    }
}

impl Batch {
    /// Adds a route. It is refused if there is one to the same destination with the same metric in
    /// the same table.
    pub fn add_route(&mut self, route: &Route) {
        let message = NewRoute(route.message());
        let route = route.clone();
        self.push(
            move || format!("add route {route}"),
            NLM_F_CREATE | NLM_F_EXCL,
            message,
        );
    }

    /// Adds a route. It replaces one to the same destination with the same metric in the same
    /// table, even one of another program.
    pub fn put_route(&mut self, route: &Route) {
        let message = NewRoute(route.message());
        let route = route.clone();
        self.push(
            move || format!("put route {route}"),
            NLM_F_CREATE | NLM_F_REPLACE,
            message,
        );
    }

    /// Deletes a route that matches this one in all fields that are set. A route to the same
    /// destination with another protocol or gateway stays. [`NetlinkError::is_gone`] says that no
    /// route matched.
    pub fn delete_route(&mut self, route: &Route) {
        let mut message = route.message();
        // This matches a route of any scope.
        message.header.scope = RouteScope::NoWhere;
        let route = route.clone();
        self.push(
            move || format!("delete route {route}"),
            0,
            DelRoute(message),
        );
    }
}

impl Socket {
    /// The routes that a filter lets through.
    pub fn routes(&self, filter: &RouteFilter) -> Result<Vec<Route>, NetlinkError> {
        let mut routes = Vec::new();
        for family in filter.families() {
            let message = GetRoute(filter.message(family));
            let name = format!("list routes of {filter}");
            match self.dump(&name, &message, |raw| Route::read(raw.content, family)) {
                Ok(list) => routes.extend(list),
                // The table has never had a route, or the link is gone.
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(routes)
    }

    /// The route that a packet to this address would take, if there is one.
    pub fn route_to(&self, address: IpAddr) -> Result<Option<Route>, NetlinkError> {
        let of = Family::of(address);
        let mut message = RouteMessage::default();
        message.header.address_family = address_family(address);
        message.header.destination_prefix_length = of.bits();
        // Asks for the route itself, not for the path of one packet.
        message.header.flags = RouteFlags::FibMatch;
        message
            .attributes
            .push(RouteAttribute::Destination(address.into()));
        let name = move || format!("get the route to {address}");
        match self.ask(|batch| batch.push(name, 0, GetRoute(message))) {
            Ok(answer) => Ok(answer
                .iter()
                .find_map(|message| Route::read(&message.content, of))),
            Err(error) if error.is_gone() || error.is_unreachable() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
