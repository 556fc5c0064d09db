//! The crate and the kernel. Each test has network namespaces of its own, which needs root.

#![cfg(test)]

mod batches;
mod links;
mod lists;
mod routes;
mod scene;
