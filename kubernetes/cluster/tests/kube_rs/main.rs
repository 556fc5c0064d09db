//! What kube-rs and its runtime rely on, as they use it: typed, against the embedded server or a
//! real kube-apiserver (see `target`).
//!
//! Promises of the embedded server alone (a short history, a seed) start a server of their own in
//! process.

#![cfg(test)]

mod apply;
mod bookmarks;
mod controller;
mod custom;
mod deletion;
mod discovery;
mod dry_run;
mod election;
mod events;
mod garbage;
mod lists;
mod metadata;
mod races;
mod reflector;
mod repeatable;
mod selection;
mod space;
mod subresources;
#[path = "../api/target.rs"]
#[allow(dead_code, reason = "the other suite on it sends raw requests and runs kubectl")]
mod target;
mod wait;
mod watch;
