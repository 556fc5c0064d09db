//! IP-aware scheduling by a real kube-scheduler: with `berth scheduler` as its extender, and by the
//! extended resource. What is configured is what `deploy/` has, and it runs under the roles there.
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
