//! The schema of one version: OpenAPI v3 as far as Kubernetes takes it, its extensions, and rules that compile.

use serde_json::{Value, json};

use super::choice::not_supported;
use super::{defaults, structural};
use crate::schema::Schema;
use crate::status::{FieldError, Path};

/// What may stand at the root of a schema whose status is a subresource, so that the status can be checked by itself.
const AT_ROOT: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];

pub(super) fn check(version: &Value, path: &Path) -> Vec<FieldError> {
    let schema = &version["schema"]["openAPIV3Schema"];
    let Some(fields) = schema.as_object() else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    let allowed = |name: &&String| AT_ROOT.iter().any(|(known, _)| known == name);
    if !version["subresources"]["status"].is_null() && !fields.keys().all(|name| allowed(&name)) {
        let names: Vec<&str> = AT_ROOT.iter().map(|(_, name)| *name).collect();
        let why = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            names.join(" ")
        );
        errors.push(FieldError::invalid(path.clone(), schema.clone(), why));
    }
    if schema["nullable"] == true {
        errors.push(FieldError::forbidden(
            path.child("nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let before = errors.len();
    errors.extend(structural::check(schema, path));
    if errors.len() == before {
        defaults::check(schema, path, &mut errors);
    }
    let sound = errors.len() == before;
    check_node(
        schema,
        path,
        Place {
            root: true,
            no_defaults: None,
            in_meta: false,
        },
        &mut errors,
    );
    // Rules are only compiled against a schema that holds.
    if sound && errors.len() == before {
        errors.extend(Schema::check(schema, path));
    }
    errors
}

#[derive(Clone)]
struct Place {
    root: bool,
    /// Why no default may be set here.
    no_defaults: Option<String>,
    /// In the metadata of a resource.
    in_meta: bool,
}

fn check_node(schema: &Value, path: &Path, place: Place, errors: &mut Vec<FieldError>) {
    let kind = schema["type"].as_str().unwrap_or_default();
    check_constructs(schema, kind, path, &place, errors);
    let below = Place {
        root: false,
        ..place.clone()
    };
    if schema["uniqueItems"] == true {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(path.child("uniqueItems"), why));
    }
    let additional = &schema["additionalProperties"];
    let properties = schema["properties"]
        .as_object()
        .filter(|properties| !properties.is_empty());
    if !additional.is_null() {
        if properties.is_some() && additional != &Value::Bool(true) {
            let why = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(path.child("additionalProperties"), why));
        }
        let mut below = below.clone();
        if place.in_meta {
            below.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        if additional.is_object() {
            check_node(additional, &path.child("additionalProperties"), below, errors);
        }
    }
    for (name, property) in properties.into_iter().flatten() {
        let mut below = below.clone();
        let resource = place.root || schema["x-kubernetes-embedded-resource"] == true;
        if resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            below.in_meta = true;
            if place.root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        check_node(property, &path.child("properties").key(name), below, errors);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, branch) in schema[name].as_array().into_iter().flatten().enumerate() {
            check_node(branch, &path.child(name).index(index), below.clone(), errors);
        }
    }
    for name in ["not", "items"] {
        if schema[name].is_object() {
            check_node(&schema[name], &path.child(name), below.clone(), errors);
        }
    }
    check_extensions(schema, kind, path, errors);
}

fn check_constructs(schema: &Value, kind: &str, path: &Path, place: &Place, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(not_supported(path.child("type"), kind, &TYPES));
    }
    if let Some(why) = place.no_defaults.as_ref().filter(|_| !schema["default"].is_null()) {
        errors.push(FieldError::forbidden(
            path.child("default"),
            format!("must not be set {why}"),
        ));
    }
    for name in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if !schema[name].is_null() {
            errors.push(FieldError::forbidden(
                path.child(name),
                format!("{name} is not supported"),
            ));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(path.child("type"), why));
    }
    if schema["items"].is_array() {
        let why = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(path.child("items"), why));
    }
    if place.in_meta && schema["x-kubernetes-embedded-resource"] == true {
        let field = path.child("x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(field, "must not be used inside of resource meta"));
    }
}

fn check_extensions(schema: &Value, kind: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let text = |name: &str| schema[name].as_str();
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let field = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(field, false.into(), "must be true or undefined"));
    }
    let mut only_on = |extension: &str, wanted: &str| {
        if schema[extension].is_null() || kind == wanted {
            return;
        }
        let why = format!("must be {wanted} if {extension} is specified");
        errors.push(match kind {
            "" => FieldError::required(path.child("type"), why),
            _ => FieldError::invalid(path.child("type"), kind.into(), why),
        });
    };
    only_on("x-kubernetes-map-type", "object");
    only_on("x-kubernetes-list-type", "array");
    for (name, accepted) in [
        ("x-kubernetes-map-type", ["atomic", "granular"].as_slice()),
        ("x-kubernetes-list-type", &["atomic", "set", "map"]),
    ] {
        if let Some(given) = text(name).filter(|given| !accepted.contains(given)) {
            errors.push(not_supported(path.child(name), given, accepted));
        }
    }
    let items = &schema["items"];
    let list = text("x-kubernetes-list-type");
    if list == Some("set") {
        check_set(items, path, errors);
    }
    check_list_map(schema, list, path, errors);
    if matches!(list, Some("set" | "map")) && items["nullable"] == true {
        let why = format!(
            "cannot be nullable when x-kubernetes-list-type is {}",
            list.unwrap_or_default()
        );
        errors.push(FieldError::forbidden(path.child("items").child("nullable"), why));
    }
}

/// The items of a set are compared as wholes, so each has one owner.
fn check_set(items: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let (extension, wrong) = match items["type"].as_str() {
        Some("array") => {
            let given = &items["x-kubernetes-list-type"];
            ("x-kubernetes-list-type", !given.is_null() && given != "atomic")
        }
        Some("object") => ("x-kubernetes-map-type", items["x-kubernetes-map-type"] != "atomic"),
        _ => return,
    };
    if wrong {
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let given = items["x-kubernetes-list-type"].clone();
        errors.push(FieldError::invalid(path.child("items").child(extension), given, why));
    }
}

fn check_list_map(schema: &Value, list: Option<&str>, path: &Path, errors: &mut Vec<FieldError>) {
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if list != Some("map") {
        if !keys.is_empty() {
            let field = path.child("x-kubernetes-list-type");
            let why = "must be map if x-kubernetes-list-map-keys is non-empty";
            errors.push(match list {
                None => FieldError::required(field, why),
                Some(given) => FieldError::invalid(field, given.into(), why),
            });
        }
        return;
    }
    let items = &schema["items"];
    let key_list = path.child("x-kubernetes-list-map-keys");
    let item = path.child("items");
    if keys.is_empty() {
        errors.push(FieldError::required(
            key_list.clone(),
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    if items.is_null() {
        errors.push(FieldError::required(
            item,
            "must have a schema if x-kubernetes-list-type is map",
        ));
        return;
    }
    if items["type"] != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(item.child("type"), items["type"].clone(), why));
        return;
    }
    for (index, key) in keys.iter().enumerate() {
        let property = &items["properties"][key];
        let place = item.child("properties").key(key);
        let wrong = |why: &str| FieldError::invalid(key_list.clone(), json!(keys), why);
        if property.is_null() {
            errors.push(wrong("entries must all be names of item properties"));
        } else if matches!(property["type"].as_str(), Some("array" | "object")) {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(place.child("type"), items["type"].clone(), why));
        }
        if keys[..index].contains(key) {
            errors.push(wrong("must not contain duplicate entries"));
        }
        let required = items["required"]
            .as_array()
            .is_some_and(|names| names.iter().any(|name| name == key));
        if !property.is_null() && !required && property["default"].is_null() {
            let why =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(place.child("default"), why));
        }
        if property["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(place.child("nullable"), why));
        }
    }
}
