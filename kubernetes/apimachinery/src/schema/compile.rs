//! Compiles an `openAPIV3Schema` to subschemas, with its patterns and CEL rules. Each subschema
//! knows whether a walk must visit it.

use regex::Regex;
use serde_json::{Map, Value};

use super::cel;
use super::format::Format;
use super::subschema::{Features, Limits, Subschema};
use super::types::{ListType, Type, flag, texts};
use crate::status::{FieldError, Path};

pub(super) fn compile_root(schema: &Value, path: &Path) -> Result<Subschema, Vec<FieldError>> {
    let mut errors = Vec::new();
    let node = compile(schema, path, None, &mut errors);
    if errors.is_empty() { Ok(node) } else { Err(errors) }
}

fn compile(
    schema: &Value,
    path: &Path,
    uncorrelated: Option<&Path>,
    errors: &mut Vec<FieldError>,
) -> Subschema {
    let Some(schema) = schema.as_object() else {
        return Subschema::default();
    };
    let mut child = |schema: &Value, path: &Path, uncorrelated: Option<&Path>| {
        Box::new(compile(schema, path, uncorrelated, errors))
    };
    let mut node = Subschema {
        kind: Type::of(schema),
        nullable: flag(schema, "nullable"),
        preserve: flag(schema, "x-kubernetes-preserve-unknown-fields"),
        embedded: flag(schema, "x-kubernetes-embedded-resource"),
        list: ListType::of(schema),
        // A null default is not a default, as in kube-apiserver.
        default: schema.get("default").filter(|v| !v.is_null()).cloned(),
        ..Subschema::default()
    };
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let property = child(property, &path.child("properties").key(name), uncorrelated);
        node.properties.insert(name.clone(), *property);
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            node.additional = Some(None);
            node.closed = !allowed;
        }
        Some(values) => {
            let values = child(values, &path.child("additionalProperties"), uncorrelated);
            node.additional = Some(Some(values));
        }
        None => {}
    }
    let anonymous = !matches!(node.list, ListType::Map(_));
    let within = uncorrelated.or(anonymous.then_some(path));
    node.items = schema
        .get("items")
        .map(|items| child(items, &path.child("items"), within));
    node.limits = limits(schema, node.kind, path, errors);
    node.rules = cel::compile(schema, &node, uncorrelated, path, errors);
    node.below = below(&node);
    node
}

fn below(node: &Subschema) -> Features {
    let start = Features {
        defaults: node.default.is_some(),
        rules: !node.rules.is_empty(),
        keyed: node.list != ListType::Atomic,
        embedded: node.embedded,
    };
    let members = node.additional.iter().flatten().chain(&node.items).map(Box::as_ref);
    node.properties
        .values()
        .chain(members)
        .fold(start, |so_far, child| Features {
            defaults: so_far.defaults || child.below.defaults,
            rules: so_far.rules || child.below.rules,
            keyed: so_far.keyed || child.below.keyed,
            embedded: so_far.embedded || child.below.embedded,
        })
}

fn limits(
    schema: &Map<String, Value>,
    kind: Type,
    path: &Path,
    errors: &mut Vec<FieldError>,
) -> Limits {
    let mut branches = |name: &str| -> Vec<Subschema> {
        let list = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        list.enumerate()
            .map(|(index, branch)| compile(branch, &path.child(name).index(index), None, errors))
            .collect()
    };
    let (all_of, any_of, one_of) = (branches("allOf"), branches("anyOf"), branches("oneOf"));
    let not = schema
        .get("not")
        .map(|branch| Box::new(compile(branch, &path.child("not"), None, errors)));
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let count = |name: &str| schema.get(name).and_then(Value::as_u64);
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    Limits {
        required: texts(schema, "required"),
        choices: schema
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        format: text("format").and_then(|name| Format::new(name, kind)),
        pattern: text("pattern").filter(|p| !p.is_empty()).and_then(|pattern| {
            Regex::new(pattern)
                .map_err(|error| errors.push(bad_pattern(path, pattern, &error)))
                .ok()
        }),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag(schema, "uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        minimum: number("minimum"),
        exclusive_minimum: flag(schema, "exclusiveMinimum"),
        maximum: number("maximum"),
        exclusive_maximum: flag(schema, "exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        all_of,
        any_of,
        one_of,
        not,
    }
}

fn bad_pattern(path: &Path, pattern: &str, error: &regex::Error) -> FieldError {
    let why = format!("must be a valid regular expression, but isn't: {error}");
    FieldError::invalid(path.child("pattern"), pattern.into(), why)
}
