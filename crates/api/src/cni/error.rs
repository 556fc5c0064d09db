//! The errors of a plugin.

use serde_json::{Value, json};

use super::Version;

/// Error codes: those of the specification, and from 100 on our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    IncompatibleVersion,
    UnsupportedField,
    UnknownContainer,
    InvalidEnvironment,
    InputOutput,
    Undecodable,
    InvalidConf,
    TryAgainLater,
    NotAvailable,
    LimitedConnectivity,
    /// The agent refuses, and says why.
    Refused,
    /// A CHECK found another state than it was given.
    Mismatch,
    /// The ADD was started before a completed DEL.
    Detached,
    /// A desired address is not available.
    Taken,
    /// The agent cannot store what it would give out.
    Storage,
    /// The kernel refused.
    Kernel,
}

impl Code {
    pub fn number(self) -> u32 {
        match self {
            Self::IncompatibleVersion => 1,
            Self::UnsupportedField => 2,
            Self::UnknownContainer => 3,
            Self::InvalidEnvironment => 4,
            Self::InputOutput => 5,
            Self::Undecodable => 6,
            Self::InvalidConf => 7,
            Self::TryAgainLater => 11,
            Self::NotAvailable => 50,
            Self::LimitedConnectivity => 51,
            Self::Refused => 100,
            Self::Mismatch => 101,
            Self::Detached => 102,
            Self::Taken => 103,
            Self::Storage => 104,
            Self::Kernel => 105,
        }
    }
}

/// An error: one line for people, and details.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{msg}")]
pub struct CniError {
    pub code: Code,
    pub msg: String,
    pub details: String,
}

impl CniError {
    pub fn new(code: Code, msg: impl Into<String>) -> Self {
        Self {
            code,
            msg: msg.into(),
            details: String::new(),
        }
    }

    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// The document for stdout. The plugin then exits with a non-zero status.
    pub fn document(&self, version: Version) -> Value {
        let mut document =
            json!({"cniVersion": version.as_str(), "code": self.code.number(), "msg": self.msg});
        if !self.details.is_empty() {
            document["details"] = self.details.as_str().into();
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_its_code_and_leaves_out_what_it_has_not() {
        let failure = CniError::new(Code::TryAgainLater, "no address is free");
        let document = failure.document(Version::V1_0_0);
        assert_eq!(
            document,
            json!({"cniVersion": "1.0.0", "code": 11, "msg": "no address is free"})
        );
        let document = failure.with_details("16 are on their way").document(Version::V0_4_0);
        assert_eq!(document["details"], "16 are on their way");
    }
}
