//! The two CNI plugins. `berth-ipam` gives addresses to containers whose interfaces another plugin
//! makes (ptp, bridge, macvlan delegate to it); `berth-cni` is a main plugin that makes them as
//! well: a veth pair and its routes.
//!
//! Both ask the agent on this node, once for each call, and decide nothing themselves. A runtime
//! starts one of them for every container, and waits for it: so they block, start no threads, load
//! nothing and link statically (`cargo xtask plugins`). A DEL must succeed while the agent is away;
//! it then leaves the release in a directory that the agent drains.

#![warn(missing_docs)]

mod agent;
mod ipam;
mod plugin;
mod queue;
mod release;
mod veth;

pub use plugin::Plugin;
