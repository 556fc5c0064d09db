//! IP-aware scheduling by a real kube-scheduler: with `berth scheduler` as its extender, and by the
//! extended resource. The configuration and the roles are those of `deploy/`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what these tests share is not in a test function"
)]

mod certificates;
mod deployed;
mod dynamic;
mod pod_cidr;
mod race;
mod relay;
mod resource;
mod site;
mod tls;
