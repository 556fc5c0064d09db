//! Why something is to be tried again.

use berth_ledger::{LedgerError, NotAnOwner};

/// Nothing was half done that trying again would not find.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("API server: {0}")]
    Api(#[source] Box<kube::Error>),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("{object}: others write it all the time")]
    Contended { object: String },
    #[error(transparent)]
    Owner(#[from] NotAnOwner),
}

impl From<kube::Error> for ReconcileError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl ReconcileError {
    /// For labels of metrics: few, and always the same.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Api(_) => "api",
            Self::Ledger(_) => "ledger",
            Self::Contended { .. } => "contended",
            Self::Owner(_) => "owner",
        }
    }
}

/// The object is not at the version that was read, or is there already.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists())
}

/// By its code: a server says of a path that it does not know only that, and no reason.
pub fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
