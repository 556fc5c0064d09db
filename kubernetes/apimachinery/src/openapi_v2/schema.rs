//! Converts schemas of v3 to v2. kubectl refuses a whole document for one unknown keyword, so
//! keywords that v2 lacks are left out, by the rules of kube-apiserver. Clients then check less,
//! but the server still checks everything.

use serde_json::{Map, Value, json};

const V3: &str = "#/components/schemas/";
const V2: &str = "#/definitions/";

/// Keywords that v2 does not have.
const UNSUPPORTED: &[&str] = &["oneOf", "anyOf", "allOf", "not", "nullable"];
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

pub fn convert(schema: Value) -> Value {
    let Value::Object(mut fields) = schema else {
        return json!({});
    };
    if let Some(reference) = reference(&fields) {
        return with_reference(fields, &reference);
    }
    if fields.get("oneOf").is_some_and(is_int_or_string) {
        fields.insert("type".to_owned(), "string".into());
        fields.insert("format".to_owned(), "int-or-string".into());
    }
    let loose = fields.get("nullable") == Some(&Value::Bool(true));
    if loose || !has_type(&fields) {
        // For kubectl, a nullable value has no type.
        fields.remove("type");
    }
    if loose || fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        // kubectl would report fields that are not listed as unknown.
        fields.remove("properties");
        fields.remove("items");
    }
    do_not_require_nullable(&mut fields);
    fields.retain(|name, _| !UNSUPPORTED.contains(&name.as_str()));
    if let Some(Value::Object(properties)) = fields.remove("properties")
        && !properties.is_empty()
    {
        let properties: Map<String, Value> = properties
            .into_iter()
            .map(|(name, schema)| (name, convert(schema)))
            .collect();
        fields.insert("properties".to_owned(), properties.into());
    }
    for name in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(name).filter(|schema| schema.is_object()) {
            *schema = convert(schema.take());
        }
    }
    Value::Object(fields)
}

/// The reference of a schema: alone, or in the `allOf` that v3 needs beside other keywords.
fn reference(fields: &Map<String, Value>) -> Option<String> {
    let one = fields
        .get("allOf")
        .and_then(Value::as_array)
        .filter(|all| all.len() == 1);
    let found = fields.get("$ref").or_else(|| one.and_then(|all| all[0].get("$ref")))?;
    Some(found.as_str()?.replacen(V3, V2, 1))
}

/// In v2 a reference can have a description beside it, but no type.
fn with_reference(mut fields: Map<String, Value>, reference: &str) -> Value {
    fields.retain(|name, _| name == "description" || name == "default" || name.starts_with("x-"));
    fields.insert("$ref".to_owned(), reference.into());
    Value::Object(fields)
}

fn is_int_or_string(one_of: &Value) -> bool {
    *one_of == json!([{"type": "number"}, {"type": "string"}])
}

/// Whether the schema has a complete type: an array needs `items`.
fn has_type(fields: &Map<String, Value>) -> bool {
    let name = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    TYPES.contains(&name) && (name != "array" || fields.get("items").is_some_and(Value::is_object))
}

/// kubectl treats a null field as missing, so nullable fields can't be required.
fn do_not_require_nullable(fields: &mut Map<String, Value>) {
    let Some(Value::Array(mut required)) = fields.remove("required") else {
        return;
    };
    let properties = fields.get("properties");
    let is_nullable = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        properties.is_some_and(|all| all[name]["nullable"] == true)
    };
    required.retain(|name| !is_nullable(name));
    if !required.is_empty() && properties.is_some() {
        fields.insert("required".to_owned(), required.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_keeps_what_is_said_beside_it() {
        let v3 = json!({"allOf": [{"$ref": "#/components/schemas/a.B"}], "description": "d", "default": {}});
        let v2 = json!({"$ref": "#/definitions/a.B", "description": "d", "default": {}});
        assert_eq!(convert(v3), v2);
    }

    #[test]
    fn a_number_or_a_string_is_a_string_of_that_format() {
        let v3 = json!({"oneOf": [{"type": "number"}, {"type": "string"}], "description": "d"});
        let v2 = json!({"type": "string", "format": "int-or-string", "description": "d"});
        assert_eq!(convert(v3), v2);
    }

    #[test]
    fn what_may_be_null_or_unknown_is_not_checked_by_clients() {
        let v3 = json!({
            "type": "object",
            "required": ["a", "b"],
            "properties": {
                "a": {"type": "object", "nullable": true, "properties": {"x": {"type": "string"}}},
                "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {}},
                "c": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "d": {"type": "array", "items": {"type": "object", "properties": {}, "not": {}}},
                "e": {"type": "array"},
            },
        });
        let v2 = json!({
            "type": "object",
            "required": ["b"],
            "properties": {
                "a": {},
                "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "c": {"x-kubernetes-int-or-string": true},
                "d": {"type": "array", "items": {"type": "object"}},
                "e": {},
            },
        });
        assert_eq!(convert(v3), v2);
    }
}
