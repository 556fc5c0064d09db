//! `berth-cni` and the kernel. Each test has network namespaces of its own, one of them in the
//! place of the host's.

mod add;
mod check;
mod del;
mod gc;
mod node;
