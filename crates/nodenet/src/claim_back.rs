//! Claims back what nodes have, before a subnet leases anything else: at the start, and whenever
//! the ledger has lost something.
//!
//! A pass collects the holdings of a subnet, restores what the ledger does not have, and only then
//! opens the subnet's gate. Where two nodes have the same address, the one with a living pod is its
//! owner; both keep the address, no other node gets it, and an event on each node reports it.

mod pass;
mod worker;

pub(crate) use worker::run;
