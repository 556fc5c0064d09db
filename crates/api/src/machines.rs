//! Networks of machines in Clusters and Machines, with their rules. The cluster controller, machine
//! IPAM and the dashboard's form all use these, so that they cannot disagree.

pub mod cluster;
pub mod flag;
pub mod network;
mod shape;

pub use shape::{NotAMachine, Shape};

/// The gate: the initializers that must act before a machine is built. While the annotation names
/// any, machine-controller leaves the machine alone.
pub const INITIALIZERS: &str = "machine-controller.kubermatic.io/initializers";

/// Our entry in it.
pub const INITIALIZER: &str = "ipam.berth.dev";

/// With this annotation the webhook of machine-controller accepts a change of the spec.
pub const BYPASS: &str = "kubermatic.io/bypass-no-spec-mutation-requirement";
