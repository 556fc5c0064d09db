//! What every Berth process needs around its work: arguments with their environment, logs, metrics
//! and health, leader election, a work queue, back-off, events, and an orderly shutdown. Each is a
//! small type that stands alone. Time comes from tokio and randomness is passed in wherever a
//! result depends on it, so tests run under a paused clock.
//!
//! It is not for anything that knows what an address is: rules live in the feature crates, which
//! use this one.

pub mod admin;
pub mod api_error;
pub mod args;
pub mod background;
pub mod backoff;
pub mod clock;
pub mod controller;
pub mod events;
pub mod follow;
pub mod health;
pub mod http_client;
pub mod lease;
pub mod listen;
pub mod logs;
pub mod metrics;
pub mod private_file;
pub mod queue;
pub mod redb_file;
pub mod serve;
pub mod shutdown;
pub mod tls;
pub mod watch;
pub mod work;
