//! Links, addresses, neighbours and routes of this machine, over the kernel's netlink socket.
//!
//! The crate blocks, starts no threads and needs no runtime: a CNI plugin that lives for a
//! millisecond and a route controller with thousands of routes use it alike. A [`Batch`] holds
//! many requests and goes to the kernel in one send; the answers are matched to the requests by
//! their sequence numbers, and an error names the link, address or route that it is about. A dump
//! is filtered in the kernel ([`RouteFilter`]), so that reading one's own routes costs nothing for
//! the routes of others.
//!
//! The crate decides nothing: its callers know which routes should exist. It needs Linux 4.20 or
//! newer, where dumps can be filtered.
//!
//! ```no_run
//! use berth_netlink::{Batch, Protocol, Route, RouteFilter, Socket};
//!
//! let socket = Socket::open()?;
//! let mut batch = Batch::default();
//! batch.put_route(&Route {
//!     gateway: Some("192.0.2.7".parse()?),
//!     protocol: Protocol(77),
//!     ..Route::to("10.64.3.0/24".parse::<berth_addr::Prefix>()?)
//! });
//! for answer in socket.call(batch)? {
//!     answer?;
//! }
//! let ours = socket.routes(&RouteFilter {
//!     protocol: Some(Protocol(77)),
//!     ..RouteFilter::default()
//! })?;
//! assert_eq!(ours.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

mod addresses;
mod answers;
mod batch;
mod dump;
mod error;
mod events;
mod links;
mod read;
mod routes;
mod socket;

pub use addresses::InterfaceAddress;
pub use answers::{Answer, Message};
pub use batch::Batch;
pub use error::NetlinkError;
pub use events::LinkEvents;
pub use links::{Link, Mac, Veth, VethPeer};
pub use routes::{MAIN_TABLE, Protocol, Route, RouteFilter, RouteKind};
pub use socket::Socket;
