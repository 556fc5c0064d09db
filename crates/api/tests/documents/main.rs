//! The documents that go over a wire, and the rules that they keep.

#![cfg(test)]

mod crds;
mod rules;
mod wire;
