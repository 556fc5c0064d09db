//! Takes back what nodes have left behind. Two observers must agree, over a grace period: there is
//! no Node of that UID, nor an nnc of it; and no living pod shows the address.
//!
//! If others wait for addresses of the subnet, an address that no pod has shown for the whole grace
//! period comes back as soon as the Node and its nnc are gone, so that a cluster whose nodes come
//! and go does not starve. That is safe: only a pod uses an address, a kubelet starts none that the
//! API server does not show (the mirror of a static one included), and a pod on the node that still
//! waits for its address puts this off.

mod decide;
mod reconcile;

pub(crate) use reconcile::run;
