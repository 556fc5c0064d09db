//! The promises of the stores that are servers, on a real etcd and a real kube-apiserver; and what
//! happens when the line to one breaks.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[macro_use]
#[path = "stores/promises.rs"]
mod promises;
#[path = "stores/records.rs"]
mod records;

#[path = "stores_real/etcd.rs"]
mod etcd;
#[path = "stores_real/kubernetes.rs"]
mod kubernetes;
#[path = "stores_real/line.rs"]
mod line;
#[path = "stores_real/servers.rs"]
mod servers;
