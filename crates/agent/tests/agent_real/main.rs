//! What of the agent needs root, the kernel, a containerd or a cluster.

#![cfg(test)]

mod observed;
mod queue;
mod scene;
mod socket;
