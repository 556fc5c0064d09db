//! The ledger and those of its stores that need no server.

#![cfg(test)]

mod kept;
mod ledger;
mod model;
mod stores;
