//! Wire formats: the custom resources, with the defaults and rules of their CRDs, the APIs of the
//! allocator, the agent and CNS, and the documents of the CNI. The feature `resources` adds the
//! custom resources and the allocator's API.
//!
//! Types and validation only. Nothing here talks to a cluster or decides anything; the arithmetic
//! of addresses is in `berth-addr`. [`crds`] turns the types into the documents under
//! `deploy/crds`.
//!
//! A rule is in the CRD wherever CEL or OpenAPI can express it, so that the API server refuses bad
//! input with a message that names the field and the fix. [`Subnet::validate`] has the same rules
//! in Rust, for objects that are older than a rule and for values that never pass an API server,
//! such as flags.

// kube's `printcolumn`s repeat their type; clippy reports that as a mistake.
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
