//! The route controller: every node's podCIDRs get routes to it, as soon as they are there, and
//! lose them when it goes.
//!
//! `core` decides, purely: which routes nodes want, which existing routes are ours, and what to
//! change for each destination. `controller` is the shell: it watches Nodes, asks the backend,
//! retries, and writes the condition `NetworkUnavailable`. `backend` holds the routes: this
//! machine's kernel, AWS, OpenStack, or memory.
//!
//! It does not assign podCIDRs: another controller writes `spec.podCIDRs`.

pub mod backend;
pub mod controller;
pub mod core;
