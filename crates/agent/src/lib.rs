//! The node's agent: who on this node has which address, kept so that no crash loses or doubles
//! one.
//!
//! The ledger decides which addresses the node has, and the NodeNetworkConfig brings them to the
//! agent. How many it needs follows from its pods. An ADD is served from the node's own pool,
//! without the API server.
//!
//! `pool` decides who has what and `scale` what to ask for, purely. `agent` puts the journal
//! between decision and answer. The rest is a shell around that: the socket (`server`), the watches
//! and the one write (`follow`), the release queue (`queue`) and what did not fit into it
//! (`overflow`), and taking addresses back from owners that are gone (`reclaim`).

mod agent;
mod availability;
mod clock;
mod cluster;
pub mod compat;
pub mod cri;
mod digest;
pub mod follow;
pub mod host_ends;
pub mod install;
pub mod journal;
mod machine;
mod metrics;
mod node;
mod overflow;
mod pool;
pub mod queue;
pub mod reclaim;
mod run;
mod scale;
pub mod server;

pub use agent::{Agent, Observed, Storage, boot_id};
pub use clock::Clock;
pub use digest::Digests;
pub use machine::Machine;
pub use metrics::AgentMetrics;
pub use run::{
    AgentContext, DEFAULT_GRACE, DEFAULT_REUSE_DELAY, Options, PurgeError, RunError, Standing,
    purge, run,
};
