//! What goes over a wire: the custom resources, with the defaults and rules that their CRDs carry,
//! the APIs of allocator and agent, and the documents of the CNI. The feature `resources` is all
//! that has to do with Kubernetes.
//!
//! Types and validation only. Nothing here talks to a cluster or decides anything; the arithmetic
//! of addresses is in `berth-addr`. [`crds`] turns the types into the documents under
//! `deploy/crds`.
//!
//! A rule stands in the CRD wherever CEL or OpenAPI can say it, so that bad input is refused at the
//! door with a message that names the field and the fix. [`Subnet::validate`] says the same in
//! Rust, for objects that came in before the rule did and for values that never pass an API server,
//! such as flags.

// kube's `printcolumn`s repeat their type, and clippy takes that for a mistake.
#![allow(clippy::duplicated_attributes)]

#[cfg(feature = "resources")]
pub mod address_block;
pub mod agent;
#[cfg(feature = "resources")]
pub mod allocator;
pub mod cni;
pub mod cns;
#[cfg(feature = "resources")]
mod count;
#[cfg(feature = "resources")]
pub mod crds;
pub mod format;
#[cfg(feature = "resources")]
mod lease_name;
#[cfg(feature = "resources")]
pub mod machines;
pub mod names;
#[cfg(feature = "resources")]
pub mod nnc;
#[cfg(feature = "resources")]
mod observed;
#[cfg(feature = "resources")]
pub mod subnet;
#[cfg(feature = "resources")]
pub mod subnet_state;
#[cfg(feature = "resources")]
mod view;

#[cfg(feature = "resources")]
pub use {
    address_block::{AddressBlock, AddressBlockSpec},
    count::Count,
    lease_name::{LeaseOf, lease_name},
    nnc::{NodeNetworkConfig, NodeNetworkConfigSpec, NodeNetworkConfigStatus},
    observed::{MachineIds, ObservedNode, ObservedPod, PodResources},
    subnet::{Subnet, SubnetSpec, SubnetStatus},
    subnet_state::{ClusterSubnetState, ClusterSubnetStateStatus},
};
