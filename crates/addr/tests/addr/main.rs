//! Property tests against naive models, and vectors.

#![cfg(test)]

mod pools;
mod scaling;
mod sets;
