//! Takes back what nodes have left behind: an owner of this cluster whose Node and whose config are both gone, for longer than a grace period.
//! That is what remains when a finalizer was taken off by hand, or when a config went before its container was written down.

mod apply;
mod decide;

pub(crate) use apply::Reclaim;
