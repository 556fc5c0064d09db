//! Decisions, against the vectors and against a naive model. No cluster, no clock, no backend.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "core/bad_input.rs"]
mod bad_input;
#[path = "core/model.rs"]
mod model;
#[path = "core/scene.rs"]
mod scene;
#[path = "core/vectors.rs"]
mod vectors;
