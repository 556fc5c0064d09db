//! A network container for every node: what gives nodes their addresses (the allocator, in this
//! process or as a service), and the controllers that bring NodeNetworkConfigs, Subnets and the
//! allocator together.
//!
//! Who owns what is the ledger's; which addresses a pod gets is the agent's.

pub mod allocator;
mod certificate;
mod claims;
pub mod client;
pub mod controllers;
mod nnc;
mod node;
mod node_ipam;
mod pods;
mod reclaim;
pub mod service;
mod subnet;
mod subnet_state;
