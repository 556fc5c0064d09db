//! Claims back what nodes have, before a subnet leases anything else: at the start, and whenever
//! the ledger has lost something.
//!
//! Whatever is deleted, restored or edited by hand, three witnesses know which addresses are in
//! use: what NodeNetworkConfigs list, what agents hold beyond that, and what living pods show. Each
//! of these is a [`Holding`]. A pass collects all of a subnet, restores what the ledger does not
//! have, and only then opens the subnet's gate. Where two nodes have the same address, the one with
//! a living pod is its owner; both keep what they have, nobody else gets it, and people are told.

mod collect;
mod decide;
mod pass;
mod worker;

pub(crate) use collect::{Holding, held_beyond, of_pod};
pub(crate) use decide::Conflict;
pub(crate) use worker::Claims;
