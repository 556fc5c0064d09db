//! The agent's own API: what plugins and people ask over its Unix socket, and what a plugin leaves
//! in the release queue when nobody answers.
//!
//! HTTP with JSON bodies, so that `curl --unix-socket` is enough to look at a node. Times are
//! nanoseconds since the machine was booted (`CLOCK_BOOTTIME`): every caller is on the same
//! machine, so they tell which of two calls was made first, whatever became of the wall clock.

mod inspect;
mod queue;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::cni::{Attachment, PodRef};

pub use inspect::{AddressLine, AddressState, Digest, DigestLine, PoolCounts, Status};
pub use queue::{
    MAX_QUEUE_BYTES, MAX_QUEUE_ENTRIES, RESERVE, entry_name, entry_of, overflow_name, overflow_of,
};

/// `POST`, with a [`Request`]; answers [`Granted`].
pub const REQUEST: &str = "/v1/request";
/// `POST`, with a [`Release`]; answers [`Done`].
pub const RELEASE: &str = "/v1/release";
/// `POST`, with a [`Check`]; answers [`Done`].
pub const CHECK: &str = "/v1/check";
/// `POST`, with a [`Gc`]; answers [`Done`].
pub const GC: &str = "/v1/gc";
/// `GET`; answers [`Status`], with 503 while it is not ready.
pub const STATUS: &str = "/v1/status";
/// `GET`; answers a list of [`AddressLine`].
pub const ADDRESSES: &str = "/v1/addresses";

/// `GET`, beside the metrics and not on the socket; answers [`Digest`], with 503 while the agent
/// serves nobody.
pub const DIGEST: &str = "/v1/digest";
/// Where the metrics of an agent are, and its digest, unless somebody has chosen otherwise.
pub const DEFAULT_METRICS_PORT: u16 = 10363;

/// The longest body that is read.
pub const MAX_BYTES: usize = 1 << 20;

/// An ADD: one address for each family that the node serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub attachment: Attachment,
    /// The name of the network in the plugin's conf: a GC is about one of them.
    #[serde(default)]
    pub network: String,
    #[serde(default)]
    pub pod: PodRef,
    /// When the plugin was started. An ADD that was started before a DEL that is already done comes
    /// too late. 0: not known, and then an ADD that follows a DEL is taken for a late one for a
    /// while.
    #[serde(default)]
    pub started: u64,
    /// Exactly these, or none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub desired: Vec<IpAddr>,
    /// How long to wait for an address when none is free.
    #[serde(default)]
    pub wait_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Granted {
    pub addresses: Vec<GrantedAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantedAddress {
    pub address: IpAddr,
    /// Of its subnet.
    pub length: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}

/// Of an entry in the release queue. The first has no field `format`; a later one has it. Raised
/// when an entry changes in a way that an older agent can't read.
pub const RELEASE_FORMAT: u64 = crate::format::FIRST;

/// A DEL. Also the content of an entry in the release queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    pub attachment: Attachment,
    /// When the plugin was started: it does not undo an ADD that was started later. 0: not known,
    /// and it undoes any.
    #[serde(default)]
    pub started: u64,
}

/// Whether the attachment still has exactly these addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    pub attachment: Attachment,
    pub addresses: Vec<IpAddr>,
}

/// All that is still attached to a network: what else the agent gave out for it is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gc {
    pub network: String,
    pub valid: Vec<Attachment>,
    /// When the plugin was started: what was given out later is not looked at. 0: not known, and
    /// all is.
    #[serde(default)]
    pub started: u64,
}

/// Done, with how many addresses came free by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    pub released: u64,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct Refusal {
    pub reason: Reason,
    pub message: String,
}

impl Refusal {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The request can't be understood, or breaks a rule.
    Invalid,
    /// The caller is not the agent's user, nor root.
    Forbidden,
    /// There is nothing under this path, or not for this method.
    NotFound,
    /// No address is free now; more are asked for.
    PoolEmpty,
    /// The attachment was detached after this ADD was started.
    Detached,
    /// A desired address is not this node's, or another attachment has it.
    Taken,
    /// A CHECK found something else than it was told.
    Mismatch,
    /// The agent can't keep what it would answer: its disk is full, for example.
    Storage,
}

impl Reason {
    /// The status of HTTP that goes with it.
    pub fn status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::Detached | Self::Taken | Self::Mismatch => 409,
            Self::PoolEmpty => 503,
            Self::Storage => 507,
        }
    }

    /// For metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::PoolEmpty => "pool-empty",
            Self::Detached => "detached",
            Self::Taken => "taken",
            Self::Mismatch => "mismatch",
            Self::Storage => "storage",
        }
    }
}
