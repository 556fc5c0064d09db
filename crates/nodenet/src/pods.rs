//! Which addresses the cluster's pods show, and on which node: the observer that knows best what is
//! in use, whatever became of a NodeNetworkConfig or of the ledger.
//!
//! Of a pod no more is kept than that: with 150,000 of them the whole objects would be most of this
//! process's memory.

mod index;

pub(crate) use index::{ObservedAddress, PodIndex};
