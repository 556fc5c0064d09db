//! Why a plugin did not do what it was asked.

use serde_json::{Value, json};

use super::Version;

/// By the specification; those from 100 on are ours.
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
    /// The agent does not do what it was asked, and says why.
    Refused,
    /// A CHECK found something else than it was told.
    Mismatch,
    /// An ADD that was started before the DEL that is already done.
    Detached,
    /// A desired address that is not to be had.
    Taken,
    /// The agent can't keep what it would give out.
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

/// One line for people, and more of it.
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

    /// What goes to stdout, with a non-zero exit.
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
