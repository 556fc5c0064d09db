//! Custom resources against their structural schema: pruning, defaults, validation, CEL rules.
//!
//! A schema is compiled once, when its definition is stored: regular expressions and CEL rules are
//! parsed, and each node knows whether a walk must visit it. A write then walks the tree. Paths are
//! only built for problems.

mod cel;
mod compile;
mod default;
mod embedded;
pub(crate) mod format;
mod lists;
mod number;
mod prune;
mod rule;
mod subschema;
mod types;
mod validate;

use std::sync::Arc;

use serde_json::Value;

use crate::status::{FieldError, FieldProblem, Path};
use subschema::Subschema;

/// A compiled schema.
#[derive(Clone, Debug)]
pub struct Schema(Arc<Subschema>);

/// Why a schema can't be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Problems(pub Vec<FieldError>);

impl std::fmt::Display for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&shown.join(", "))
    }
}

impl std::error::Error for Problems {}

impl Schema {
    /// Fails if a pattern or a CEL rule does not compile. `definition::check` reports the same with
    /// the definition's paths.
    pub fn new(schema: &Value) -> Result<Self, Problems> {
        let path = Path::new("openAPIV3Schema");
        let root = compile::compile_root(schema, &path).map_err(Problems)?;
        Ok(Self(Arc::new(root)))
    }

    /// The errors in the patterns and rules of the schema at `path`.
    pub(crate) fn check(schema: &Value, path: &Path) -> Vec<FieldError> {
        compile::compile_root(schema, path).err().unwrap_or_default()
    }

    /// Removes unknown fields from a part of an object.
    pub(crate) fn prune_part(&self, value: &mut Value) {
        prune::prune(&self.0, value, self.0.embedded);
    }

    /// Removes unknown fields, and nulls without a meaning. Returns the paths of unknown fields in
    /// order. `shape::strict` handles `metadata`.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.0, object, true)
    }

    /// Fills in defaults in all existing objects. A null that is not allowed counts as missing.
    pub fn default(&self, object: &mut Value) {
        default::fill(&self.0, object);
    }

    /// All errors in `new`. With `old`, parts that an update leaves unchanged may stay invalid.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate::validate(&self.0, new, old);
        errors.extend(embedded::check(&self.0, new));
        errors.extend(lists::check_change(&self.0, new, old));
        if !self.0.below.rules {
            return errors;
        }
        if errors.iter().any(blocks_rules) {
            errors.push(FieldError::invalid(
                Path::root(),
                Value::Null,
                "some validation rules were not checked because the object was invalid; \
                 correct the existing errors to complete validation",
            ));
        } else {
            errors.extend(cel::validate(&self.0, new, old));
        }
        errors
    }
}

/// Rules may rely on types, required fields, enums and sizes. They do not run if one of these
/// checks fails.
fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.problem,
        FieldProblem::NotSupported
            | FieldProblem::Required
            | FieldProblem::TooLong
            | FieldProblem::TooMany
            | FieldProblem::TypeInvalid
    )
}
