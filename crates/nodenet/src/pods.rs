//! Which addresses the cluster's pods show, and on which node: the observer that knows best what is
//! in use, whatever became of a NodeNetworkConfig or of the ledger.
//!
//! Nothing else of a pod is kept: 150,000 whole objects would be most of this process's memory.

mod index;

pub(crate) use index::{ObservedAddress, PodIndex};
