//! What the API promises, asked from outside: by raw requests and by the machine's own kubectl.
//!
//! The same suite runs against the embedded server and against a real kube-apiserver: see `target`.

#![cfg(test)]

mod bad_input;
mod controllers;
mod definitions;
mod kubectl;
mod namespace;
mod objects;
mod request;
mod target;
