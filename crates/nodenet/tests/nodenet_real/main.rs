//! The controllers on a real kube-apiserver, and the allocator on a real etcd.

#![cfg(test)]

mod controllers;
mod members;
mod service;
