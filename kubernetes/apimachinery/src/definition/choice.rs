//! Fields that take one of a few words.

use serde_json::Value;

use crate::status::{FieldError, FieldProblem, Path};

pub(super) fn choice(value: &Value, path: &Path, accepted: &[&str]) -> Option<FieldError> {
    match value.as_str().unwrap_or_default() {
        "" => Some(FieldError::required(path.clone(), "")),
        given if accepted.contains(&given) => None,
        given => Some(not_supported(path.clone(), given, accepted)),
    }
}

pub(super) fn not_supported(path: Path, given: &str, accepted: &[&str]) -> FieldError {
    let quoted: Vec<String> = accepted.iter().map(|name| format!("{name:?}")).collect();
    let detail = format!("supported values: {}", quoted.join(", "));
    FieldError::new(FieldProblem::NotSupported, path, Some(given.into()), detail)
}
