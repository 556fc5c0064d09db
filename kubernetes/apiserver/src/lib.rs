//! A Kubernetes API for one machine: what kubectl and kube-rs use of kube-apiserver, as an axum `Router` over one store.
//!
//! It is for `berth up` and for tests. It is not a cluster: one process, one user, no admission webhooks, no aggregation. Where it
//! answers, it answers as kube-apiserver does; the same suite runs against both.

mod api;
pub mod cluster;
mod discovery;
mod garbage;
mod housekeeping;
mod http;
mod kinds;
mod names;
mod openapi;
pub mod patch;
pub mod protobuf;
mod rules;
#[cfg(test)]
mod samples;
pub mod schema;
mod selectors;
mod server;
pub mod shape;
pub mod status;
pub mod store;
mod table;

pub use server::{Options, Server, StartError};
