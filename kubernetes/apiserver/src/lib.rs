//! A Kubernetes API for one machine: what kubectl and kube-rs use of kube-apiserver, as an axum
//! `Router` over one store.
//!
//! It is for `berth up` and for tests. It is not a cluster: one process, one user, no admission
//! webhooks, no aggregation. Where it answers, it answers as kube-apiserver does; the same suite
//! runs against both.

mod admission;
mod decode;
mod discovery;
mod garbage;
mod housekeeping;
mod http;
mod kinds;
mod node_proxy;
mod openapi;
mod registry;
mod resources;
mod rules;
#[cfg(test)]
mod samples;
mod server;
mod store;
mod tables;

pub use admission::Admission;
pub use node_proxy::NodeProxy;
pub use server::{Options, Server, StartError};
