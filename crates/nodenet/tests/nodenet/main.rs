//! The controllers and the allocator by their public names.

#![cfg(test)]
#![allow(
    clippy::duplicate_mod,
    reason = "`through_service` plays scenarios of `embedded` again"
)]

mod embedded;
mod service;
mod through_service;
