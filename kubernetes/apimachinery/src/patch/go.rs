//! How Go names and prints JSON values, as in kube-apiserver's messages about patches.

use serde_json::Value;

/// The name of a value in the decode errors of `encoding/json`.
pub(super) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The type of a decoded value, as `%T` prints it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// The value as `%v` prints it.
pub(super) fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(printed).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{key}:{}", printed(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_printed_as_go_prints_it() {
        let value = json!({"b": [1, "x", null], "a": {"c": true, "d": 1.5}});
        assert_eq!(printed(&value), "map[a:map[c:true d:1.5] b:[1 x <nil>]]");
        assert_eq!(type_name(&json!(1)), "int64");
        assert_eq!(json_kind(&json!(1)), "number");
    }
}
