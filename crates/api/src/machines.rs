//! Networks of machines in Clusters and Machines, with their rules. The cluster controller, machine
//! IPAM and the dashboard's form all use these, so that they cannot disagree.

pub mod cluster;
pub mod flag;
pub mod network;
mod shape;

pub use shape::{NotAMachine, Shape};

/// The annotation of a Machine with the initializers that must act before the machine is built.
/// While it names any, machine-controller leaves the machine alone.
pub const INITIALIZERS: &str = "machine-controller.kubermatic.io/initializers";

/// Our entry in that annotation.
pub const INITIALIZER: &str = "ipam.berth.dev";

/// With this annotation the webhook of machine-controller accepts a change of the spec.
pub const BYPASS: &str = "kubermatic.io/bypass-no-spec-mutation-requirement";
