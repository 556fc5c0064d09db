//! The Container Network Interface: the call of a runtime and the answer of a plugin. Versions
//! 0.3.1 to 1.1.0.

mod alias;
mod call;
mod conf;
mod error;
mod outcome;

use std::fmt;

pub use alias::{Alias, stable_hash};
pub use call::{Attachment, Call, InvalidAttachment, PodRef, is_name};
pub use conf::{Conf, Document, MAX_CONF_BYTES, Need, Place, Settings};
pub use error::{CniError, Code};
pub use outcome::{Address, Interface, Outcome, Route};

/// A version of the specification. An answer has the shape of the version of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    V0_3_1,
    V0_4_0,
    V1_0_0,
    V1_1_0,
}

impl Version {
    pub const ALL: [Self; 4] = [Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// For answers to calls that cannot be read.
    pub const LATEST: Self = Self::V1_1_0;

    pub fn as_str(self) -> &'static str {
        match self {
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// Reads 0.3.0 as 0.3.1: they differ only by a mistake in the text of the specification.
    pub fn parse(text: &str) -> Option<Self> {
        let text = if text == "0.3.0" { "0.3.1" } else { text };
        Self::ALL.into_iter().find(|version| version.as_str() == text)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
