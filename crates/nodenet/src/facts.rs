//! What is kept of Nodes, NodeNetworkConfigs and Subnets between two reconciles. Plain data, read
//! from the objects and stored in the index.

mod nnc;
mod node;
mod subnet;

pub use nnc::{NncFacts, NncOwner, Requested, is_of, version};
pub use node::{NodeFacts, reference};
pub use subnet::SubnetFacts;
