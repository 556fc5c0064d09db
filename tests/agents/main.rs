//! `berth agent` and our own plugins, and no others, on real nodes with kubelet and containerd.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod deletion;
mod full;
mod only;
mod outage;
mod people;
mod pods;
mod rights;
mod socket;
mod stage;
