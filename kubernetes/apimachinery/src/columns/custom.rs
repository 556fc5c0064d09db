//! Columns of custom resources, from their definition.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since_text;
use super::definition::definition;
use crate::json_path::JsonPath;

#[derive(Debug)]
pub struct CustomColumn {
    /// As the definition has it.
    given: Value,
    kind: String,
    /// `None` if the path is not supported: the cell stays empty then.
    path: Option<JsonPath>,
}

impl CustomColumn {
    /// From one of `additionalPrinterColumns`.
    pub fn new(column: &Value) -> Self {
        Self {
            given: column.clone(),
            kind: column["type"].as_str().unwrap_or_default().to_owned(),
            path: column["jsonPath"].as_str().and_then(JsonPath::parse),
        }
    }

    /// As it stands in `columnDefinitions`.
    pub fn definition(&self) -> Value {
        let text = |field: &str| self.given[field].as_str().unwrap_or_default();
        let description = match text("description") {
            "" => format!(
                "Custom resource definition column (in JSONPath format): {}",
                text("jsonPath")
            ),
            given => given.to_owned(),
        };
        let priority = self.given["priority"].as_i64().unwrap_or_default();
        definition(text("name"), &self.kind, text("format"), &description, priority)
    }

    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.as_ref().and_then(|path| path.find(object).into_iter().next())
        else {
            return Value::Null;
        };
        match (self.kind.as_str(), value) {
            (_, Value::Null) => Value::Null,
            ("string", Value::String(text)) => json!(text),
            ("string", other) => json!(
                other
                    .as_f64()
                    .map_or_else(|| other.to_string(), |number| number.to_string())
            ),
            ("integer", Value::Number(number)) => json!(whole(number)),
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("date", Value::String(text)) => json!(since_text(text, now)),
            _ => Value::Null,
        }
    }
}

/// The whole part: a fraction is cut off, not refused.
fn whole(number: &serde_json::Number) -> Option<i64> {
    number
        .as_i64()
        .or_else(|| format!("{:.0}", number.as_f64()?.trunc()).parse().ok())
}
