//! Structural schemas: types stand outside of `allOf`, `anyOf`, `oneOf` and `not`, and these only restrict what is declared.

use serde_json::{Map, Value};

use crate::status::{FieldError, Path};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Sorted by their words, as kube-apiserver does.
pub(super) fn check(schema: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_node(schema, Level::Root, path, &mut errors);
    check_declared(schema, schema, path, path, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

fn text<'v>(schema: &'v Value, name: &str) -> &'v str {
    schema[name].as_str().unwrap_or_default()
}

fn members(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn check_node(schema: &Value, level: Level, path: &Path, errors: &mut Vec<FieldError>) {
    let is = |name: &str| schema[name] == true;
    let kind = text(schema, "type");
    if kind == "array" && schema["items"].is_null() {
        errors.push(FieldError::required(path.child("items"), "must be specified"));
    }
    if schema["items"].is_object() {
        check_node(&schema["items"], Level::Item, &path.child("items"), errors);
    }
    for (name, property) in members(schema) {
        check_node(property, Level::Field, &path.child("properties").key(name), errors);
    }
    let additional = &schema["additionalProperties"];
    let embedded = is("x-kubernetes-embedded-resource");
    let preserves = is("x-kubernetes-preserve-unknown-fields");
    if !additional.is_null() {
        let place = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(place.clone(), "must not be used at the root"));
        }
        if embedded {
            let why = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push(FieldError::forbidden(place.clone(), why));
        }
        if additional.is_object() {
            check_node(additional, Level::Field, &place, errors);
        }
    }
    if is("x-kubernetes-int-or-string") {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if is(name) {
                let why = "must be false if x-kubernetes-int-or-string is true";
                errors.push(FieldError::invalid(path.child(name), true.into(), why));
            }
        }
    }
    check_restrictions(schema, path, errors);
    let place = path.child("type");
    if embedded && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(place.clone(), why),
            _ => FieldError::invalid(place.clone(), kind.into(), why),
        });
    } else if kind.is_empty() && !is("x-kubernetes-int-or-string") && !preserves {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(place.clone(), why));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(place, kind.into(), "must be object at the root"));
    }
    check_meta(schema, level, embedded, path, errors);
    if embedded && !preserves && members(schema).next().is_none() {
        let why =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(path.child("properties"), why));
    }
}

/// What the server itself knows of every resource may be declared, but hardly restricted.
fn check_meta(schema: &Value, level: Level, embedded: bool, path: &Path, errors: &mut Vec<FieldError>) {
    if level != Level::Root && !embedded {
        return;
    }
    for (name, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        let property = &schema["properties"][name];
        let kind = text(property, "type");
        if !property.is_null() && kind != wanted {
            let place = path.child("properties").key(name).child("type");
            errors.push(FieldError::invalid(place, kind.into(), format!("must be {wanted}")));
        }
    }
    let metadata = &schema["properties"]["metadata"];
    if level == Level::Root && !metadata.is_null() {
        let known = |name: &String| matches!(name.as_str(), "type" | "properties" | "default");
        let only_names = members(metadata).all(|(name, _)| name == "name" || name == "generateName");
        if !only_names || !metadata.as_object().is_none_or(|fields| fields.keys().all(known)) {
            let why =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(path.child("properties").key("metadata"), why));
        }
    }
}

/// `allOf`, `anyOf`, `oneOf` and `not`, each with its path.
fn branches<'v>(schema: &'v Value, path: &Path) -> Vec<(&'v Value, Path)> {
    let mut found = Vec::new();
    for name in ["anyOf", "allOf", "oneOf"] {
        let list = schema[name].as_array().into_iter().flatten().enumerate();
        found.extend(list.map(|(index, branch)| (branch, path.child(name).index(index))));
    }
    if schema["not"].is_object() {
        found.push((&schema["not"], path.child("not")));
    }
    found
}

fn check_restrictions(schema: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    // The one place where types may stand inside: how int-or-string was written before it had a word.
    let int_or_string = serde_json::json!([{"type": "integer"}, {"type": "string"}]);
    for (branch, place) in branches(schema, path) {
        let anyway =
            schema["anyOf"] == int_or_string && place.to_string().starts_with(&path.child("anyOf").to_string());
        let first = branch["anyOf"] == int_or_string && place == path.child("allOf").index(0);
        if anyway {
            continue;
        }
        if first {
            let mut rest = branch.clone();
            rest["anyOf"] = Value::Null;
            check_branch(&rest, &place, errors);
        } else {
            check_branch(branch, &place, errors);
        }
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = regex::Regex::new(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(path.child("pattern"), pattern.into(), why));
    }
}

fn check_branch(branch: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    check_restrictions(branch, path, errors);
    if branch["items"].is_object() {
        check_branch(&branch["items"], &path.child("items"), errors);
    }
    for (name, property) in members(branch) {
        check_branch(property, &path.child("properties").key(name), errors);
    }
    for (name, what) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        if is_given(branch.as_object(), name) {
            errors.push(FieldError::forbidden(
                path.child(name),
                format!("must be {what} to be structural"),
            ));
        }
    }
    if !branch["properties"]["metadata"].is_null() {
        let place = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(
            place,
            "must not be specified in a nested context",
        ));
    }
}

fn is_given(schema: Option<&Map<String, Value>>, name: &str) -> bool {
    schema
        .and_then(|schema| schema.get(name))
        .is_some_and(|value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        })
}

/// What a branch restricts has to be declared outside of it.
fn check_declared(branch: &Value, declared: &Value, at: &Path, branch_at: &Path, errors: &mut Vec<FieldError>) {
    for (inner, inner_at) in branches(branch, branch_at) {
        check_declared(inner, declared, at, &inner_at, errors);
        for (name, property) in members(inner) {
            let place = at.child("properties").key(name);
            let from = inner_at.child("properties").key(name);
            match &declared["properties"][name] {
                Value::Null => errors.push(undeclared(place, &from)),
                found => check_declared(property, found, &place, &from, errors),
            }
        }
        if inner["items"].is_object() {
            let (place, from) = (at.child("items"), inner_at.child("items"));
            match &declared["items"] {
                Value::Null => errors.push(undeclared(place, &from)),
                found => check_declared(&inner["items"], found, &place, &from, errors),
            }
        }
    }
}

fn undeclared(place: Path, from: &Path) -> FieldError {
    FieldError::required(place, format!("because it is defined in {from}"))
}
