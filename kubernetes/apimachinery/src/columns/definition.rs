//! What a table says of a column.

use serde_json::{Value, json};

pub(super) fn definition(
    name: &str,
    kind: &str,
    format: &str,
    description: &str,
    priority: i64,
) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}
