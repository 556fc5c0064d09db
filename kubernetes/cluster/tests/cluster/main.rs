//! The cluster on the in-process API.

#![cfg(test)]

mod cluster;
mod kubelet;
