//! The answer if there is no result: a code, and a [`Refusal`] that names the field and the fix.

use axum::Json;
use axum::response::{IntoResponse, Response};
use berth_api::allocator::{Reason, Refusal};
use berth_ledger::{LedgerError, NotAnOwner, PlanError};
use http::StatusCode;

use super::name::{SubnetName, SubnetNameError};
use super::plan::AddressPlanError;
use crate::allocator::{AllocatorError, ContainerRef};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {}", refusal.error)]
pub struct ServiceError {
    status: StatusCode,
    refusal: Refusal,
}

impl ServiceError {
    fn new(
        status: StatusCode,
        field: Option<&str>,
        reason: Reason,
        error: impl std::fmt::Display,
    ) -> Self {
        Self {
            status,
            refusal: Refusal {
                error: error.to_string(),
                field: field.map(str::to_owned),
                reason,
            },
        }
    }

    pub fn invalid(field: &str, why: impl std::fmt::Display) -> Self {
        let why = format_args!("{field}: {why}");
        Self::new(StatusCode::BAD_REQUEST, Some(field), Reason::Invalid, why)
    }

    pub fn wrong_cluster(certificate: &str, request: &str) -> Self {
        let why = format!(
            "the certificate is for cluster {certificate:?}, and the request is for cluster \
             {request:?}: use the certificate whose Common Name is {request:?}, or ask for \
             {certificate:?}"
        );
        Self::new(StatusCode::FORBIDDEN, Some("cluster"), Reason::WrongCluster, why)
    }

    pub fn no_cluster() -> Self {
        let why = "the certificate is for no cluster, as it has no Common Name or several: \
                   use one whose Common Name is the cluster's name";
        Self::new(StatusCode::FORBIDDEN, Some("cluster"), Reason::WrongCluster, why)
    }

    pub fn no_subnet(name: &SubnetName) -> Self {
        let why = format_args!("there is no subnet {name}: register it, or correct the name");
        Self::new(StatusCode::NOT_FOUND, Some("subnet"), Reason::NoSubnet, why)
    }

    pub fn no_container(
        name: &SubnetName,
        ContainerRef { cluster, node, uid }: &ContainerRef,
    ) -> Self {
        let why = format!(
            "node {node} with UID {uid} of cluster {cluster} has no container in subnet {name}: \
             create it first, or correct the name"
        );
        Self::new(StatusCode::NOT_FOUND, Some("container"), Reason::NoContainer, why)
    }

    pub fn no_operation(status: StatusCode) -> Self {
        let why = "there is no such path, or not with this method: see docs/allocator.md for \
                   those that there are";
        Self::new(status, Some("path"), Reason::NoOperation, why)
    }

    pub fn too_large(limit: usize) -> Self {
        let why =
            format_args!("body: it is longer than {limit} bytes: give back fewer leases at once");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Some("body"), Reason::TooLarge, why)
    }

    pub fn too_slow(limit: std::time::Duration) -> Self {
        let why = format_args!("body: it did not come within {limit:?}: send it again, all of it");
        Self::new(StatusCode::REQUEST_TIMEOUT, Some("body"), Reason::TooSlow, why)
    }

    pub fn busy() -> Self {
        let why = "as many requests as there may be are under way: ask again in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, None, Reason::Busy, why)
    }

    pub fn unavailable(why: impl std::fmt::Display) -> Self {
        let why = format_args!("{why}; ask again: nothing is done twice");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, None, Reason::Unavailable, why)
    }

    fn of_ledger(error: LedgerError) -> Self {
        match error {
            LedgerError::NoSubnet { .. } => {
                Self::new(StatusCode::NOT_FOUND, Some("subnet"), Reason::NoSubnet, error)
            }
            LedgerError::Overlap {
                ref other, ref range, ..
            } => {
                let reason = Reason::Overlap {
                    other: other.clone(),
                    range: range.clone(),
                };
                Self::new(StatusCode::CONFLICT, Some("cidrs"), reason, error)
            }
            LedgerError::Plan(PlanError::InUse(ref in_use)) => {
                let reason = Reason::InUse { unit: in_use.unit };
                Self::new(StatusCode::CONFLICT, Some("cidrs"), reason, error)
            }
            LedgerError::Plan(PlanError::Layout(error)) => {
                // Its text begins with the field.
                let text = error.to_string();
                let field = text.split_once(':').map(|(field, _)| field);
                Self::new(StatusCode::BAD_REQUEST, field, Reason::Invalid, &text)
            }
            LedgerError::Contended { .. }
            | LedgerError::Unsure { .. }
            | LedgerError::Refused { .. }
            | LedgerError::Unclaimed { .. }
            | LedgerError::Store(_) => Self::unavailable(error),
        }
    }

    /// The error with the subnet's name as the caller knows it.
    pub fn of_allocator(error: AllocatorError, name: &SubnetName) -> Self {
        match error {
            AllocatorError::SubnetFull { .. } => {
                let subnet = name.to_string();
                let why = AllocatorError::SubnetFull { subnet };
                Self::new(
                    StatusCode::INSUFFICIENT_STORAGE,
                    Some("subnet"),
                    Reason::SubnetFull,
                    why,
                )
            }
            AllocatorError::NoSubnet { .. } => Self::no_subnet(name),
            AllocatorError::Unclaimed { .. } => {
                let subnet = name.to_string();
                let why = AllocatorError::Unclaimed { subnet };
                Self::new(StatusCode::CONFLICT, Some("subnet"), Reason::Unclaimed, why)
            }
            AllocatorError::NotAnOwner(error) => error.into(),
            AllocatorError::Ledger(error) => Self::of_ledger(error),
            AllocatorError::WrongCluster { .. }
            | AllocatorError::Invalid { .. }
            | AllocatorError::Service { .. }
            | AllocatorError::NoPodCidrs { .. } => Self::unavailable(error),
        }
    }
}

impl From<SubnetNameError> for ServiceError {
    fn from(error: SubnetNameError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Some(error.field), Reason::Invalid, error)
    }
}

impl From<NotAnOwner> for ServiceError {
    fn from(error: NotAnOwner) -> Self {
        Self::invalid("container", error)
    }
}

impl From<AddressPlanError> for ServiceError {
    fn from(error: AddressPlanError) -> Self {
        match error {
            AddressPlanError::RegisteredByAnother { .. } => {
                Self::new(StatusCode::FORBIDDEN, Some("cluster"), Reason::WrongCluster, error)
            }
            AddressPlanError::NotEmpty { others, .. } => {
                let reason = Reason::NotEmpty { owners: others + 1 };
                Self::new(StatusCode::CONFLICT, Some("subnet"), reason, error)
            }
            AddressPlanError::NoSubnet { ref name } => Self::no_subnet(name),
            AddressPlanError::Ledger(error) => Self::of_ledger(error),
            AddressPlanError::Behind { .. } => Self::unavailable(error),
            AddressPlanError::Store(error) => Self::unavailable(error),
        }
    }
}

impl IntoResponse for ServiceError {
    fn into_response(self) -> Response {
        (self.status, Json(self.refusal)).into_response()
    }
}
