//! What matters of Nodes, NodeNetworkConfigs and Subnets between two looks at them. Plain data,
//! read off the objects; kept in the index.

mod nnc;
mod node;
mod subnet;

pub use nnc::{NncFacts, NncOwner, Requested, is_of, version};
pub use node::{NodeFacts, reference};
pub use subnet::SubnetFacts;
