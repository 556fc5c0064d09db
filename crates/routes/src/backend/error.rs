//! Why a backend failed, as far as it decides when to try again.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Too many requests: all of them slow down.
    Throttled { retry_after: Option<Duration> },
    /// No room for another route: people must act, or another route must go.
    Quota,
    /// The credentials are wrong or lack the permission: no call will work.
    Unauthorized,
    /// The backend is not in the state that we expected: list again.
    Conflict,
    /// The backend refuses this one route until something changes.
    Refused,
    /// No usable answer: an error inside the server, garbage, a time-out.
    Unavailable,
}

impl ErrorKind {
    /// For labels of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Throttled { .. } => "throttled",
            Self::Quota => "quota",
            Self::Unauthorized => "unauthorized",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The message names the call; it never holds credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BackendError {
    pub kind: ErrorKind,
    pub message: String,
}

impl BackendError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }
}
