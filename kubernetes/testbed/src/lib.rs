//! A real Kubernetes cluster on this machine: etcd, kube-apiserver, kube-controller-manager,
//! kube-scheduler, and nodes with a containerd and a kubelet of their own, each in its own
//! namespaces. For the tests, the benchmarks and `cargo xtask kubernetes`; no part of the product.
//!
//! A pipe ties a [`Cluster`] to the process that started it. When that process ends, in whatever
//! way, process 1 of the cluster reads the end of the pipe and everything ends with it, see
//! [`init`]. So a killed test leaves nothing behind, and neither does a shared cluster in a
//! `static`, which is never dropped. [`Cluster::detach`] unties a cluster that must outlive the
//! command that started it.
//!
//! Blocking on purpose: a `LazyLock` and a program without a runtime call it. Errors are for people
//! to read, hence anyhow.

mod authority;
mod cache;
mod cluster;
mod component;
mod control_plane;
mod digest;
mod figures;
mod https;
mod image;
mod init;
mod kubeconfig;
mod node;
pub mod packages;
mod ports;
mod process;
pub mod programs;
mod registry;
mod shared;
mod shell;
mod wire;

pub use cluster::{Builder, Cluster};
pub use component::Component;
pub use control_plane::{ControlPlane, Storage};
pub use figures::Figures;
pub use image::{POD_IMAGE, of_program as image_of_program};
pub use init::is_root;
pub use node::network::{Network, Seat};
pub use node::{MAX_NODES, Node, Runtime};
pub use ports::free_port;
pub use process::Process;
pub use programs::{Programs, WITHOUT_COLLECTOR, peers};
pub use registry::{Entry, Record, Registry};
pub use shared::{Loan, borrow_control_plane, control_plane, logs_of};
