//! Why a reconcile is tried again.

use berth_kit::api_error::told;
use berth_kit::work::Retry;
use berth_ledger::{LedgerError, NotAnOwner};

/// A retry finds whatever was half done.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("API server: {}", told(.0))]
    Api(#[source] Box<kube::Error>),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("{object}: others changed it during each attempt")]
    Contended { object: String },
    #[error(transparent)]
    Owner(#[from] NotAnOwner),
}

impl From<kube::Error> for ReconcileError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl Retry for ReconcileError {
    fn is_contention(&self) -> bool {
        matches!(self, Self::Contended { .. })
    }
}
