//! A network container for every node: the allocator (in this process or as a service), which gives
//! nodes their addresses, and the controllers, which connect NodeNetworkConfigs and Subnets to it.
//!
//! The ledger decides who owns which address; the agent decides which addresses a pod gets.
//!
//! Read it in this order: `facts` and `index` (what is known), the `decide` of `node`, `nnc`,
//! `node_ipam`, `subnet`, `subnet_state` and `reclaim` (what follows from it), their `reconcile`
//! (what is asked and written), `start` (what runs).

pub mod allocator;
mod assignments;
mod certificate;
mod claim_back;
mod claims;
pub mod client;
mod context;
mod controller;
pub mod controllers;
mod error;
mod facts;
mod holdings;
mod index;
mod metrics;
mod nnc;
mod node;
mod node_ipam;
mod pods;
mod reclaim;
mod reconcile;
pub mod service;
mod start;
mod subnet;
mod subnet_state;
mod wait_list;
mod watches;
