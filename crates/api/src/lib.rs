//! What goes over a wire: the custom resources, with the defaults and rules that their CRDs carry, and the allocator's API.
//!
//! Types and validation only. Nothing here talks to a cluster or decides anything; the arithmetic of addresses is in
//! `berth-addr`. [`crds`] turns the types into the documents under `deploy/crds`.
//!
//! A rule stands in the CRD wherever CEL or OpenAPI can say it, so that bad input is refused at the door with a
//! message that names the field and the fix. [`Subnet::validate`] says the same in Rust, for objects that came in
//! before the rule did and for values that never pass an API server, such as flags.

// kube's `printcolumn`s repeat their type, and clippy takes that for a mistake.
#![allow(clippy::duplicated_attributes)]

pub mod address_block;
pub mod allocator;
mod count;
pub mod crds;
pub mod names;
pub mod nnc;
pub mod subnet;
pub mod subnet_state;

pub use address_block::{AddressBlock, AddressBlockSpec};
pub use count::Count;
pub use nnc::{NodeNetworkConfig, NodeNetworkConfigSpec, NodeNetworkConfigStatus};
pub use subnet::{Subnet, SubnetSpec, SubnetStatus};
pub use subnet_state::{ClusterSubnetState, ClusterSubnetStateStatus};
