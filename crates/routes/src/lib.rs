//! The route controller: every node's podCIDRs get routes to it, as soon as they are there, and
//! lose them when it goes.
//!
//! `core` decides, purely: which routes nodes want, which of those that are there are ours, and
//! what has to be done about each destination. `controller` is the shell: it watches Nodes, asks
//! the backend, retries, and writes the condition `NetworkUnavailable`. `backend` is where routes
//! are: this machine's kernel, AWS, OpenStack, or memory.
//!
//! Not for giving nodes their podCIDRs: that is whoever writes `spec.podCIDRs`.

pub mod backend;
pub mod controller;
pub mod core;
