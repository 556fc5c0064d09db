//! The agent's own API: the requests of plugins and people over its Unix socket, and the entries
//! that a plugin leaves in the release queue if no agent answers.
//!
//! HTTP with JSON bodies, so that `curl --unix-socket` is enough to look at a node. Times are
//! nanoseconds since boot (`CLOCK_BOOTTIME`): every caller is on the same machine, so they order
//! calls even if the wall clock changes.

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

/// `GET`, on the port of the metrics and not on the socket; answers [`Digest`], with 503 while the
/// agent does not serve.
pub const DIGEST: &str = "/v1/digest";
/// The default port of an agent's metrics and digest.
pub const DEFAULT_METRICS_PORT: u16 = 10363;

/// The maximum length of a body.
pub const MAX_BYTES: usize = 1 << 20;

/// An ADD: one address for each family that the node serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub attachment: Attachment,
    /// The name of the network in the plugin's conf: a GC is for one network.
    #[serde(default)]
    pub network: String,
    #[serde(default)]
    pub pod: PodRef,
    /// When the plugin was started. The agent refuses an ADD that was started before a completed
    /// DEL of the same attachment. 0: unknown; then the agent refuses every ADD for a while after
    /// such a DEL.
    #[serde(default)]
    pub started: u64,
    /// The addresses to give: exactly these, or none.
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
    /// The prefix length of its subnet.
    pub length: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
}

/// The format of an entry in the release queue. Entries in the first format have no field `format`;
/// later ones do. Raise it when an older agent could not read a changed entry.
pub const RELEASE_FORMAT: u64 = crate::format::FIRST;

/// A DEL. Also the content of an entry in the release queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Release {
    pub attachment: Attachment,
    /// When the plugin was started: the DEL does not undo an ADD that was started later. 0:
    /// unknown; then it undoes any ADD.
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

/// A GC: the attachments that a network still has. The agent frees the addresses of the network's
/// other attachments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gc {
    pub network: String,
    pub valid: Vec<Attachment>,
    /// When the plugin was started: addresses that were given out later are left alone. 0: unknown;
    /// then none are left alone.
    #[serde(default)]
    pub started: u64,
}

/// Success, with the number of addresses that it freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    pub released: u64,
}

/// Why a request was refused.
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
    /// The request cannot be parsed, or breaks a rule.
    Invalid,
    /// The caller is neither root nor the agent's user.
    Forbidden,
    /// There is no such path, or not for this method.
    NotFound,
    /// No address is free now; the agent has requested more.
    PoolEmpty,
    /// The attachment was detached after this ADD was started.
    Detached,
    /// A desired address does not belong to this node, or another attachment has it.
    Taken,
    /// A CHECK found another state than it was given.
    Mismatch,
    /// The agent cannot store its answer: its disk is full, for example.
    Storage,
}

impl Reason {
    /// The HTTP status of this reason.
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
