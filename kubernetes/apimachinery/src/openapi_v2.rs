//! OpenAPI v2, made from the operations and schemas of v3, as JSON and in protobuf.

mod encode;
mod schema;

pub use encode::encode;

use serde_json::{Map, Value, json};

use crate::release::GIT_VERSION;

const JSON: &str = "application/json";

/// All paths and schemas in one document.
pub fn document(paths: Map<String, Value>, schemas: Map<String, Value>) -> Value {
    let paths = paths.into_iter().map(|(name, item)| (name, path(item)));
    let definitions = schemas
        .into_iter()
        .map(|(name, schema)| (name, schema::convert(schema)));
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths.collect::<Map<_, _>>(),
        "definitions": definitions.collect::<Map<_, _>>(),
    })
}

fn path(mut item: Value) -> Value {
    for (name, value) in item.as_object_mut().into_iter().flatten() {
        if name == "parameters" {
            value.as_array_mut().into_iter().flatten().for_each(parameter);
        } else {
            operation(value);
        }
    }
    item
}

/// In v2, the type of a parameter is beside its name, not in a schema.
fn parameter(parameter: &mut Value) {
    let Some(fields) = parameter.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(schema)) = fields.remove("schema") {
        fields.extend(schema);
    }
}

/// In v2, a body is a parameter, and the operation lists the media types.
fn operation(operation: &mut Value) {
    let Some(fields) = operation.as_object_mut() else {
        return;
    };
    let mut parameters = match fields.remove("parameters") {
        Some(Value::Array(parameters)) => parameters,
        _ => Vec::new(),
    };
    parameters.iter_mut().for_each(parameter);
    let mut consumes = vec![json!("*/*")];
    if let Some(body) = fields.remove("requestBody") {
        let content = body["content"].as_object();
        let schema = content.and_then(|content| content.values().next());
        let schema = schema.map(|media| schema::convert(media["schema"].clone()));
        parameters.push(json!({
            "name": "body", "in": "body", "required": body["required"] == true, "schema": schema,
        }));
        consumes = content
            .into_iter()
            .flat_map(|content| content.keys())
            .map(|name| json!(name))
            .collect();
    }
    fields.insert("parameters".to_owned(), parameters.into());
    fields.insert("consumes".to_owned(), consumes.into());
    fields.insert("produces".to_owned(), json!([JSON]));
    for answer in fields
        .get_mut("responses")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flatten()
    {
        let Some(fields) = answer.1.as_object_mut() else {
            continue;
        };
        if let Some(mut content) = fields.remove("content") {
            fields.insert("schema".to_owned(), schema::convert(content[JSON]["schema"].take()));
        }
    }
}
