//! Networks of machines, as Clusters and Machines name them, with the rules for them. The cluster
//! controller, machine IPAM and the dashboard's form all ask here, so that they can't disagree.

pub mod cluster;
pub mod flag;
pub mod network;
mod shape;

pub use shape::{NotAMachine, Shape};

/// The gate: those who must have their say before a machine is built. While the annotation names
/// anybody, machine-controller leaves the machine alone.
pub const INITIALIZERS: &str = "machine-controller.kubermatic.io/initializers";

/// Our entry in it.
pub const INITIALIZER: &str = "ipam.berth.dev";

/// With it the webhook of machine-controller lets a change of the spec pass.
pub const BYPASS: &str = "kubermatic.io/bypass-no-spec-mutation-requirement";
