//! The ledger on stores that are servers: a real etcd, and a real kube-apiserver.

#![cfg(test)]

mod kept;
mod model;
mod servers;
mod stores;
