//! Claims back what nodes have, before a subnet leases anything else: at the start, and whenever
//! the ledger has lost something.
//!
//! A pass collects the holdings of a subnet, restores what the ledger does not have, and only then
//! opens the subnet's gate. Where two nodes have the same address, the one with a living pod is its
//! owner; both keep what they have, nobody else gets it, and people are told.

mod pass;
mod worker;

pub(crate) use worker::run;
