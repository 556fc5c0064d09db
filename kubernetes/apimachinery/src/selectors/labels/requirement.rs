//! A requirement on one label.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::json;

use crate::names;
use crate::status::{FieldError, Path};

/// A requirement on one label. `new` checks that the key and values are valid, and that their
/// number fits the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    In,
    NotIn,
    Equals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl Requirement {
    pub(super) fn new(
        key: &str,
        operator: Operator,
        values: BTreeSet<String>,
    ) -> Result<Self, String> {
        let mut errors: Vec<FieldError> = check_key(key, Path::new("key")).into_iter().collect();
        let path = Path::new("values");
        if matches!(operator, Operator::In | Operator::NotIn) && values.is_empty() {
            let detail = "for 'in', 'notin' operators, values set can't be empty";
            errors.push(FieldError::invalid(path.clone(), json!([]), detail));
        }
        for (index, value) in values.iter().enumerate() {
            let path = path.index(index);
            if matches!(operator, Operator::GreaterThan | Operator::LessThan)
                && value.parse::<i64>().is_err()
            {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(path.clone(), json!(value), detail));
            }
            if let Some(problem) = names::label_value(value) {
                errors.push(FieldError::invalid(path.key(key), json!(value), problem));
            }
        }
        match errors.as_slice() {
            [] => Ok(Self {
                key: key.to_owned(),
                operator,
                values,
            }),
            [one] => Err(one.to_string()),
            several => {
                let all: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(format!("[{}]", all.join(", ")))
            }
        }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// `value` is that of the label, `None` if the object has no such label.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let listed = value.is_some_and(|value| self.values.contains(value));
        let compare = |wanted: std::cmp::Ordering| {
            let number = |text: &str| text.parse::<i64>().ok();
            let bound = self.values.first().and_then(|text| number(text));
            value
                .and_then(number)
                .zip(bound)
                .is_some_and(|(value, bound)| value.cmp(&bound) == wanted)
        };
        match self.operator {
            Operator::In | Operator::Equals => listed,
            Operator::NotIn | Operator::NotEquals => !listed,
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => compare(std::cmp::Ordering::Greater),
            Operator::LessThan => compare(std::cmp::Ordering::Less),
        }
    }
}

pub(super) fn check_key(key: &str, path: Path) -> Option<FieldError> {
    names::qualified(key).map(|problem| FieldError::invalid(path, json!(key), problem))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        let values = values.join(",");
        match self.operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}
