//! Addresses for machines, without a DHCP server: a machine's network is known before it is built.
//!
//! [`ipam`] gives machines their networks, [`capi`] serves the claims of Cluster API. [`render`]
//! turns a machine and its network into the document that its operating system reads at its first
//! start. It is pure. [`gate`] and [`webhook`] keep a machine from being built before.
//!
//! The ledger decides who owns which address. Other controllers build the machines.

pub mod capi;
pub mod cluster;
mod failure;
pub mod gate;
pub mod ipam;
pub mod machine;
pub mod metrics;
mod pool;
pub mod provider;
pub mod render;
mod suspects;
mod waiting;
pub mod webhook;

pub use berth_api::machines::network;
use berth_kit::controller::Controller;

/// The names of our controllers.
pub const MACHINE: &str = "machine";
pub const CLAIM: &str = "claim";
pub const CLUSTER: &str = "cluster";

/// They run by name only: most clusters have no Machines.
pub const CONTROLLERS: [Controller; 3] = [
    controller(MACHINE, "machines/rbac.yaml"),
    controller(CLAIM, "rbac/claim.yaml"),
    controller(CLUSTER, "rbac/cluster.yaml"),
];

const fn controller(name: &'static str, rbac: &'static str) -> Controller {
    Controller {
        name,
        is_on_by_default: false,
        rbac,
    }
}
