//! Why a backend did not do something, as far as it matters for when to try again.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Too many requests: all of them slow down.
    Throttled { retry_after: Option<Duration> },
    /// There is no room for one more route: people have to act, or another route has to go.
    Quota,
    /// The credentials are wrong or may not do this: nothing will work.
    Unauthorized,
    /// It is not as we thought: list again.
    Conflict,
    /// This one route is refused, and will be until something changes.
    Refused,
    /// No answer, or one that says nothing: an error inside the server, garbage, a time-out.
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

/// The message names what was asked; it never holds credentials.
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
