//! What a ledger answers when it does not serve a request.

use crate::book::PlanError;
use crate::store::StoreError;

/// Why a request was not served. Nothing was given, or what was given is found by asking for the
/// same leases again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    #[error("there is no subnet {subnet}")]
    NoSubnet { subnet: String },
    #[error("subnet {subnet}: others changed its blocks during each attempt: try again")]
    Contended { subnet: String },
    #[error(
        "subnet {subnet}: the store did not say whether it wrote: see the log for \
         why, and try again"
    )]
    Unsure { subnet: String },
    #[error(
        "subnet {subnet}: what its owners had may be lost: it leases again when that is claimed"
    )]
    Unclaimed { subnet: String },
    #[error("subnet {subnet}: the store refuses the write: {why}")]
    Refused { subnet: String, why: String },
    #[error(
        "subnet {subnet}: cidrs overlap those of subnet {other}: {range} is in both; \
         change one of them"
    )]
    Overlap {
        subnet: String,
        other: String,
        range: String,
    },
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
