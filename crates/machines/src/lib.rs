//! Addresses for machines, without a DHCP server: a machine's network is known before it is built.
//!
//! [`ipam`] gives machines their networks, [`capi`] serves the claims of Cluster API. [`render`] turns a machine and its network into the document that its operating system reads at
//! its first start. It is pure.
//!
//! Who owns which address is the ledger's. Building machines is somebody else's.

pub mod capi;
pub mod cluster;
mod failure;
pub mod gate;
pub mod ipam;
pub mod machine;
pub mod network;
pub mod provider;
pub mod render;
mod watch;
