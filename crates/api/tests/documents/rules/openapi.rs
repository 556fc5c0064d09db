//! The part of OpenAPI that our CRDs use, in the API server's words.

use serde_json::Value;

/// Field and message of everything in `value` that the schema does not allow.
pub fn violations(schema: &Value, value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    visit(schema, value, String::new(), &mut found);
    found
}

fn visit(schema: &Value, value: &Value, path: String, found: &mut Vec<(String, String)>) {
    let bound = |key: &str| schema[key].as_u64().map(|n| usize::try_from(n).unwrap());
    let mut refuse = |message: String| found.push((path.clone(), message));
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        refuse(format!("supported values: {}", allowed.join(", ")));
    }
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap();
            if let Some(least) = schema["minimum"].as_f64().filter(|least| number < *least) {
                refuse(format!("should be greater than or equal to {least}"));
            }
            if let Some(most) = schema["maximum"].as_f64().filter(|most| number > *most) {
                refuse(format!("should be less than or equal to {most}"));
            }
        }
        Value::String(text) => {
            if let Some(least) = bound("minLength").filter(|least| text.len() < *least) {
                refuse(format!("should be at least {least} chars long"));
            }
            if let Some(most) = bound("maxLength").filter(|most| text.len() > *most) {
                refuse(format!("may not be more than {most} bytes"));
            }
        }
        Value::Array(items) => {
            if let Some(least) = bound("minItems").filter(|least| items.len() < *least) {
                refuse(format!("should have at least {least} items"));
            }
            if let Some(most) = bound("maxItems").filter(|most| items.len() > *most) {
                refuse(format!("must have at most {most} items"));
            }
            for (i, item) in items.iter().enumerate() {
                visit(&schema["items"], item, format!("{path}[{i}]"), found);
            }
        }
        Value::Object(fields) => {
            let within = |name: &str| {
                if path.is_empty() {
                    name.to_owned()
                } else {
                    format!("{path}.{name}")
                }
            };
            for required in schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
            {
                if !fields.contains_key(required) {
                    found.push((within(required), "Required value".to_owned()));
                }
            }
            for (name, field) in fields {
                let schema = schema["properties"]
                    .get(name)
                    .unwrap_or(&schema["additionalProperties"]);
                visit(schema, field, within(name), found);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}
