//! Sockets in namespaces, and routes that the tests add.

use berth_addr::Prefix;
use berth_netlink::{Batch, NetlinkError, Protocol, Route, RouteFilter, Socket};
use berth_testkit::Namespace;

pub const OURS: Protocol = Protocol(77);
pub const THEIRS: Protocol = Protocol(78);

/// A socket of a namespace stays in it.
pub trait OpenSocket {
    fn socket(&self) -> Socket;
}

impl OpenSocket for Namespace {
    fn socket(&self) -> Socket {
        self.inside(|| Socket::open().unwrap())
    }
}

pub fn of(protocol: Protocol) -> RouteFilter {
    RouteFilter {
        protocol: Some(protocol),
        ..RouteFilter::default()
    }
}

/// A route of ours by a gateway behind `near`.
pub fn route(destination: &str, gateway: &str) -> Route {
    Route {
        gateway: Some(gateway.parse().unwrap()),
        protocol: OURS,
        ..Route::to(destination.parse::<Prefix>().unwrap())
    }
}

/// One of each family.
pub fn both() -> [Route; 2] {
    [
        route("10.64.3.0/24", "192.0.2.7"),
        route("fd64:0:0:3::/64", "2001:db8::7"),
    ]
}

pub fn do_one(socket: &Socket, add: impl FnOnce(&mut Batch)) -> Result<(), NetlinkError> {
    socket.ask(add).map(drop)
}
