//! Errors about one field, worded as `k8s.io/apimachinery/pkg/util/validation/field` words them.

use serde_json::{Value, json};

/// Where in an object a problem is: `spec.containers[0].name`, `metadata.labels[a.b/c]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    pub fn root() -> Self {
        Self::default()
    }

    pub fn new(dotted: &str) -> Self {
        Self(dotted.to_owned())
    }

    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self(name.to_owned())
        } else {
            Self(format!("{}.{name}", self.0))
        }
    }

    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_empty() { "<nil>" } else { &self.0 })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldProblem {
    Required,
    Invalid,
    TypeInvalid,
    Duplicate,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
}

impl FieldProblem {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Required => ("FieldValueRequired", "Required value"),
            Self::Invalid => ("FieldValueInvalid", "Invalid value"),
            Self::TypeInvalid => ("FieldValueTypeInvalid", "Invalid value"),
            Self::Duplicate => ("FieldValueDuplicate", "Duplicate value"),
            Self::NotSupported => ("FieldValueNotSupported", "Unsupported value"),
            Self::Forbidden => ("FieldValueForbidden", "Forbidden"),
            Self::TooLong => ("FieldValueTooLong", "Too long"),
            Self::TooMany => ("FieldValueTooMany", "Too many"),
            Self::NotFound => ("FieldValueNotFound", "Not found"),
        }
    }
}

/// One problem with one field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub problem: FieldProblem,
    pub field: Path,
    /// The value, shown after the problem where it helps: objects as JSON, strings in quotes.
    pub value: Option<Value>,
    pub detail: String,
}

impl FieldError {
    pub fn new(
        problem: FieldProblem,
        field: Path,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            problem,
            field,
            value,
            detail: detail.into(),
        }
    }

    pub fn invalid(field: Path, value: Value, detail: impl Into<String>) -> Self {
        Self::new(FieldProblem::Invalid, field, Some(value), detail)
    }

    /// `supported` are the allowed values.
    pub fn not_supported(field: Path, value: &Value, supported: &[&str]) -> Self {
        let shown: Vec<String> = supported.iter().map(|word| format!("{word:?}")).collect();
        let detail = format!("supported values: {}", shown.join(", "));
        Self::new(FieldProblem::NotSupported, field, Some(value.clone()), detail)
    }

    pub fn immutable(field: Path, value: &Value) -> Self {
        Self::invalid(field, value.clone(), "field is immutable")
    }

    pub fn duplicate(field: Path, value: Value, detail: impl Into<String>) -> Self {
        Self::new(FieldProblem::Duplicate, field, Some(value), detail)
    }

    pub fn too_long(field: Path, detail: impl Into<String>) -> Self {
        Self::new(FieldProblem::TooLong, field, None, detail)
    }

    pub fn required(field: Path, detail: impl Into<String>) -> Self {
        Self::new(FieldProblem::Required, field, None, detail)
    }

    pub fn forbidden(field: Path, detail: impl Into<String>) -> Self {
        Self::new(FieldProblem::Forbidden, field, None, detail)
    }

    fn body(&self) -> String {
        let (_, words) = self.problem.words();
        let mut text = words.to_owned();
        if let Some(value) = &self.value {
            text.push_str(&format!(": {value}"));
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    pub fn cause(&self) -> Value {
        json!({"reason": self.problem.words().0, "message": self.body(), "field": self.field.to_string()})
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_error_reads_as_kube_apiserver_words_it() {
        let error = FieldError::invalid(
            Path::new("spec").child("ports").index(0).child("port"),
            json!(0),
            "must be between 1 and 65535, inclusive",
        );
        assert_eq!(
            error.to_string(),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"
        );
        assert_eq!(error.cause()["reason"], "FieldValueInvalid");
    }
}
