//! The part of the REST API between Azure's plugins and their agent, CNS, that our agent serves.
//! Names are those on the wire, with their mistakes.
//!
//! A failure is an answer with status 200 and a [`Code`] other than 0 in its body; the header
//! [`CODE_HEADER`] has the name of the code.

mod answer;
mod inspect;
mod request;

use serde::{Serialize, Serializer};

pub use answer::{
    HostInfo, IpConfigResponse, IpConfigsResponse, IpConfiguration, IpSubnet, PodIpInfo, Released,
};
pub use inspect::{
    AddressStatus, IpAddresses, PodContext, PodInfo, RestData, ServiceData, StateFilter,
    by_interface,
};
pub use request::{IpConfigsRequest, NotAContext, OrchestratorContext, Undecodable};

/// `POST`, with an [`IpConfigsRequest`]; answers [`IpConfigsResponse`].
pub const REQUEST: &str = "/network/requestipconfigs";
/// `POST`, with an [`IpConfigsRequest`]; answers [`Released`].
pub const RELEASE: &str = "/network/releaseipconfigs";
/// The older form, for one address; answers [`IpConfigResponse`].
pub const REQUEST_ONE: &str = "/network/requestipconfig";
pub const RELEASE_ONE: &str = "/network/releaseipconfig";
/// `GET` or `POST`, with a [`StateFilter`] as its body; answers [`IpAddresses`].
pub const IP_ADDRESSES: &str = "/debug/ipaddresses";
/// `GET`; answers [`PodContext`].
pub const POD_CONTEXT: &str = "/debug/podcontext";
/// `GET`; answers [`RestData`].
pub const REST_DATA: &str = "/debug/restdata";

/// Contains the name of the [`Code`].
pub const CODE_HEADER: &str = "cns_return_code";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Code {
    #[default]
    Success,
    InvalidRequest,
    FailedToAllocate,
    EmptyContext,
    UnsupportedContext,
    UnsupportedApi,
    Unexpected,
}

impl Code {
    pub fn number(self) -> i64 {
        match self {
            Self::Success => 0,
            Self::InvalidRequest => 23,
            Self::FailedToAllocate => 32,
            Self::EmptyContext => 33,
            Self::UnsupportedContext => 34,
            Self::UnsupportedApi => 43,
            Self::Unexpected => 99,
        }
    }

    /// The name for the header.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::InvalidRequest => "InvalidRequest",
            Self::FailedToAllocate => "FailedToAllocateIpConfig",
            Self::EmptyContext => "EmptyOrchestratorContext",
            Self::UnsupportedContext => "UnsupportedOrchestratorContext",
            Self::UnsupportedApi => "UnsupportedAPI",
            Self::Unexpected => "UnexpectedError",
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.number())
    }
}

/// The result of a call: part of every answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Outcome {
    pub return_code: Code,
    pub message: String,
}

impl Outcome {
    pub fn failure(return_code: Code, message: impl Into<String>) -> Self {
        Self {
            return_code,
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests;
