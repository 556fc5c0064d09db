//! Why a body can't be read.

use std::fmt;

use super::wire::WireError;

/// A body that can't be read, and where.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", Place(path))]
pub struct DecodeError {
    /// Field names from the innermost outwards.
    path: Vec<String>,
    pub(super) problem: ProtobufErrorKind,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ProtobufErrorKind {
    #[error("the body does not begin with \"k8s\\0\"")]
    Prefix,
    #[error("the body is encoded as {0:?}, which is not supported")]
    Encoding(String),
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    Kind { api_version: String, kind: String },
    #[error("malformed protobuf: {0}")]
    Wire(WireError),
    #[error("malformed protobuf: the value is of another type")]
    Unexpected,
    #[error("the text is not UTF-8")]
    Utf8,
    #[error("the value is out of range")]
    Range,
    #[error("{0}")]
    Json(serde_json::Error),
    #[error("this field is not supported in protobuf: send JSON")]
    Untyped,
}

struct Place<'a>(&'a [String]);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().rev().enumerate() {
            write!(f, "{}{name}", if at == 0 { "" } else { "." })?;
        }
        f.write_str(if self.0.is_empty() { "" } else { ": " })
    }
}

impl From<ProtobufErrorKind> for DecodeError {
    fn from(problem: ProtobufErrorKind) -> Self {
        Self {
            path: Vec::new(),
            problem,
        }
    }
}

impl From<WireError> for DecodeError {
    fn from(error: WireError) -> Self {
        ProtobufErrorKind::Wire(error).into()
    }
}

impl DecodeError {
    pub(super) fn within(mut self, name: &str) -> Self {
        self.path.push(name.to_owned());
        self
    }
}
