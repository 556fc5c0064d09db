//! Why a call has no result, and which error its caller gets.

use std::error::Error;
use std::path::Path;

use berth_addr::InUse;
use berth_api::allocator::{Reason, Refusal};
use berth_ledger::{LedgerError, PlanError};
use http::StatusCode;

use crate::allocator::AllocatorError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The service has said no.
    #[error("{status}: {}", refusal.error)]
    Refused { status: StatusCode, refusal: Refusal },
    /// There was no answer, or not one of the service's.
    #[error("{why}")]
    Unanswered { why: String },
    /// The connection ended, and nobody said why.
    #[error("{why}")]
    Closed { why: String },
    /// The service does not take our certificate, or we do not take its.
    #[error("{why}")]
    Untrusted { why: String },
}

impl CallError {
    /// The answer of a service, or of something else at its address.
    pub fn read(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(refusal) => Self::Refused { status, refusal },
            Err(_) => Self::Unanswered {
                why: format!("answered {status}, and not as an allocator does: is it one?"),
            },
        }
    }

    /// Why a connection broke. In TLS 1.3 a client learns that its certificate is refused only
    /// after it has begun to use the connection, so that can appear as any kind of failure. The
    /// alert is found by its name.
    pub fn of_connection(
        error: &(dyn Error + 'static),
        certificate: &Path,
        cluster: &str,
        ca: &Path,
    ) -> Self {
        let mut whys = Vec::new();
        let mut closed = false;
        let mut next = Some(error);
        while let Some(error) = next {
            whys.push(error.to_string());
            let hyper = error.downcast_ref::<hyper::Error>();
            closed |= hyper.is_some_and(|hyper| {
                hyper.is_closed() || hyper.is_canceled() || hyper.is_incomplete_message()
            });
            next = error.source();
        }
        let text = whys.join(": ");
        let certificate = certificate.display();
        if let Some((_, alert)) = text.split_once("received fatal alert: ") {
            let alert: String = alert.chars().take_while(char::is_ascii_alphanumeric).collect();
            let why = format!(
                "refuses the certificate {certificate} of cluster {cluster} ({alert}): \
                 have it signed, for client authentication, by an authority of the service's \
                 --client-ca, and see that it has not expired"
            );
            return Self::Untrusted { why };
        }
        if let Some((_, why)) = text.split_once("invalid peer certificate: ") {
            let why = format!(
                "its certificate is not to be trusted ({why}): give the CA that signed it instead \
                 of {}, or the name that it is for in the URL",
                ca.display()
            );
            return Self::Untrusted { why };
        }
        // The last one is the cause, the others are the layers that passed it on.
        let why = whys.pop().unwrap_or_default();
        match closed {
            true => Self::Closed { why },
            false => Self::Unanswered { why },
        }
    }

    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unanswered { .. } | Self::Closed { .. } => true,
            Self::Untrusted { .. } => false,
            Self::Refused { status, .. } => matches!(
                *status,
                StatusCode::REQUEST_TIMEOUT
                    | StatusCode::TOO_MANY_REQUESTS
                    | StatusCode::BAD_GATEWAY
                    | StatusCode::SERVICE_UNAVAILABLE
                    | StatusCode::GATEWAY_TIMEOUT
            ),
        }
    }

    /// Why the service has said no, if it has.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Refused { refusal, .. } => Some(&refusal.reason),
            Self::Unanswered { .. } | Self::Closed { .. } | Self::Untrusted { .. } => None,
        }
    }

    /// The same error that an allocator in this process gives, where there is one.
    pub fn into_error(self, address: &str, subnet: &str) -> AllocatorError {
        let subnet = subnet.to_owned();
        let refusal = match self {
            Self::Refused { refusal, .. } => refusal,
            Self::Unanswered { why } | Self::Closed { why } | Self::Untrusted { why } => {
                let address = address.to_owned();
                return AllocatorError::Service { address, why };
            }
        };
        let (address, why) = (address.to_owned(), refusal.error);
        match refusal.reason {
            Reason::SubnetFull => AllocatorError::SubnetFull { subnet },
            Reason::NoSubnet => AllocatorError::NoSubnet { subnet },
            Reason::Unclaimed => AllocatorError::Unclaimed { subnet },
            Reason::Overlap { other, range } => {
                AllocatorError::Ledger(LedgerError::Overlap { subnet, other, range })
            }
            Reason::InUse { unit } => {
                AllocatorError::Ledger(LedgerError::Plan(PlanError::InUse(InUse { unit })))
            }
            Reason::WrongCluster => AllocatorError::WrongCluster { address, why },
            Reason::Invalid => AllocatorError::Invalid { address, why },
            _ => AllocatorError::Service { address, why },
        }
    }
}
