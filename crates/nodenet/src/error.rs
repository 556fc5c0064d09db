//! Why a reconcile is tried again.

use berth_api::nnc::UnknownHeld;
use berth_kit::api_error::told;
use berth_kit::work::Retry;
use berth_ledger::NotAnOwner;

use crate::allocator::AllocatorError;

/// A retry finds whatever was half done.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("API server: {}", told(.0))]
    Api(#[source] Box<kube::Error>),
    #[error(transparent)]
    Allocator(#[from] AllocatorError),
    #[error(transparent)]
    Held(#[from] UnknownHeld),
    #[error("{object}: others changed it during each attempt")]
    Contended { object: String },
}

impl From<kube::Error> for ReconcileError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl From<NotAnOwner> for ReconcileError {
    fn from(error: NotAnOwner) -> Self {
        Self::Allocator(error.into())
    }
}

impl ReconcileError {
    /// A label for metrics: one of a small, fixed set.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Api(_) => "api",
            Self::Allocator(error) => error.category(),
            Self::Held(_) => "format",
            Self::Contended { .. } => "contended",
        }
    }
}

impl Retry for ReconcileError {
    fn is_contention(&self) -> bool {
        matches!(self, Self::Contended { .. })
    }
}
