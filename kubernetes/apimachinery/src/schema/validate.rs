//! Validates values by the schema, except for CEL rules, with the words of kube-apiserver.

use serde_json::{Map, Value};

use super::number;
use super::subschema::{Limits, Subschema};
use super::types::Type;
use crate::status::{FieldError, FieldProblem, Path};
use crate::trail::Trail;

pub(super) fn validate(root: &Subschema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(root, new, old, &Trail::Root, &mut errors);
    let mut once: Vec<FieldError> = Vec::with_capacity(errors.len());
    for error in errors {
        if !once.contains(&error) {
            once.push(error);
        }
    }
    once
}

/// How far a value got in a schema. If several alternatives fail, the errors of the one that got
/// furthest explain most.
type Progress = usize;

/// Ratcheting: a part that an update leaves unchanged may stay invalid.
fn check(
    node: &Subschema,
    value: &Value,
    old: Option<&Value>,
    at: &Trail<'_>,
    errors: &mut Vec<FieldError>,
) -> Progress {
    let before = errors.len();
    let progress = check_value(node, value, old, at, errors);
    if errors.len() > before && old == Some(value) {
        errors.truncate(before);
    }
    progress
}

fn check_value(
    node: &Subschema,
    value: &Value,
    old: Option<&Value>,
    at: &Trail<'_>,
    errors: &mut Vec<FieldError>,
) -> Progress {
    let mut progress = 4;
    match type_problem(node, value) {
        Some((expected, given)) => errors.push(wrong_type(at, expected, given)),
        None => progress += 1,
    }
    if !value.is_null() {
        progress += check_branches(&node.limits, value, old, at, errors);
    }
    match value {
        Value::String(text) => check_string(&node.limits, text, at, errors),
        Value::Number(number) => number::check(node, number, at, errors),
        Value::Array(items) => progress += check_list(node, items, old, at, errors),
        _ => {}
    }
    check_choice(&node.limits, value, at, errors);
    if let Value::Object(fields) = value {
        progress += check_object(node, fields, old, at, errors);
    }
    progress
}

/// The expected type and the given one, if they differ.
fn type_problem<'n>(node: &'n Subschema, value: &Value) -> Option<(&'n str, &'static str)> {
    let given = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_i64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = match (node.kind, value) {
        (Type::Any, _) => true,
        (_, Value::Null) => node.nullable,
        (Type::Integer | Type::IntOrString, Value::Number(n)) => number::integer(n).is_some(),
        (Type::Number, Value::Number(_)) => true,
        (Type::IntOrString, Value::String(_)) => true,
        (kind, _) => kind.name() == given,
    };
    if fits {
        return None;
    }
    match (&node.limits.format, value) {
        (Some(format), Value::Bool(_) | Value::Object(_)) => Some((&format.name, "")),
        (Some(format), Value::Number(n)) => {
            Some((&format.name, if n.is_i64() { "int64" } else { "float64" }))
        }
        _ => Some((node.kind.name(), given)),
    }
}

fn wrong_type(at: &Trail<'_>, expected: &str, given: &str) -> FieldError {
    let detail = format!("{at} in body must be of type {expected}: {given:?}");
    FieldError::new(FieldProblem::TypeInvalid, at.path(), Some(given.into()), detail)
}

fn check_branches(
    limits: &Limits,
    value: &Value,
    old: Option<&Value>,
    at: &Trail<'_>,
    errors: &mut Vec<FieldError>,
) -> Progress {
    let name = || at.to_string();
    let report = |errors: &mut Vec<FieldError>, detail: String| {
        errors.push(FieldError::invalid(Path::root(), "".into(), detail));
    };
    let mut progress = 0;
    if !limits.any_of.is_empty() {
        let found = alternatives(&limits.any_of, value, old, at);
        progress += found.progress;
        if found.valid == 0 {
            report(
                errors,
                format!("{:?} must validate at least one schema (anyOf)", name()),
            );
            errors.extend(found.errors);
        }
    }
    if !limits.one_of.is_empty() {
        let found = alternatives(&limits.one_of, value, old, at);
        progress += found.progress;
        if found.valid != 1 {
            let count = match found.valid {
                0 => "Found none valid".to_owned(),
                several => format!("Found {several} valid alternatives"),
            };
            report(
                errors,
                format!("{:?} must validate one and only one schema (oneOf). {count}", name()),
            );
            errors.extend(found.errors);
        }
    }
    let mut valid = 0;
    for branch in &limits.all_of {
        let before = errors.len();
        progress += check_value(branch, value, old, at, errors);
        valid += usize::from(errors.len() == before);
    }
    if valid < limits.all_of.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        report(
            errors,
            format!("{:?} must validate all the schemas (allOf){none}", name()),
        );
    }
    if let Some(not) = &limits.not {
        let mut refused = Vec::new();
        check_value(not, value, old, at, &mut refused);
        if refused.is_empty() {
            report(errors, format!("{:?} must not validate the schema (not)", name()));
        }
    }
    progress
}

struct Alternatives {
    valid: usize,
    /// The errors of the branch that got furthest. Empty if a branch is valid.
    errors: Vec<FieldError>,
    progress: Progress,
}

fn alternatives(
    branches: &[Subschema],
    value: &Value,
    old: Option<&Value>,
    at: &Trail<'_>,
) -> Alternatives {
    let mut found = Alternatives {
        valid: 0,
        errors: Vec::new(),
        progress: 0,
    };
    for branch in branches {
        let mut errors = Vec::new();
        let progress = check_value(branch, value, old, at, &mut errors);
        if errors.is_empty() {
            found.valid += 1;
            found.errors.clear();
            found.progress = progress;
        } else if found.valid == 0 && progress > found.progress {
            found.errors = errors;
            found.progress = progress;
        }
    }
    found
}

fn check_string(limits: &Limits, text: &str, at: &Trail<'_>, errors: &mut Vec<FieldError>) {
    let invalid = |detail: String| FieldError::invalid(at.path(), text.into(), detail);
    // One error about length or pattern is enough.
    if limits.max_length.is_some() || limits.min_length.is_some() || limits.pattern.is_some() {
        let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        if let Some(most) = limits.max_length.filter(|most| length > *most) {
            let unit = if most == 1 { "byte" } else { "bytes" };
            let detail = format!("may not be more than {most} {unit}");
            errors.push(FieldError::new(FieldProblem::TooLong, at.path(), None, detail));
        } else if let Some(least) = limits.min_length.filter(|least| length < *least) {
            errors.push(invalid(format!("{at} in body should be at least {least} chars long")));
        } else if let Some(pattern) = limits.pattern.as_ref().filter(|p| !p.is_match(text)) {
            errors.push(invalid(format!("{at} in body should match '{pattern}'")));
        }
    }
    if let Some(format) = limits.format.as_ref().filter(|format| !format.accepts(text)) {
        let detail = format!("{at} in body must be of type {}: {text:?}", format.name);
        errors.push(FieldError::new(
            FieldProblem::TypeInvalid,
            at.path(),
            Some(text.into()),
            detail,
        ));
    }
}

fn check_list(
    node: &Subschema,
    items: &[Value],
    old: Option<&Value>,
    at: &Trail<'_>,
    errors: &mut Vec<FieldError>,
) -> Progress {
    let mut progress = 0;
    if let Some(schema) = &node.items {
        for (index, item) in items.iter().enumerate() {
            let before = node.list.find(old, item);
            progress += check(schema, item, before, &Trail::Index(at, index), errors);
        }
    }
    let size = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if let Some(least) = node.limits.min_items.filter(|least| size < *least) {
        let detail = format!("{at} in body should have at least {least} items");
        errors.push(FieldError::invalid(at.path(), size.into(), detail));
    }
    if let Some(most) = node.limits.max_items.filter(|most| size > *most) {
        errors.push(too_many(at, size, most));
    }
    let repeats = |(index, item): (usize, &Value)| items[..index].contains(item);
    if node.limits.unique_items && items.iter().enumerate().any(repeats) {
        let detail = format!("{at} in body shouldn't contain duplicates");
        errors.push(FieldError::invalid(at.path(), "".into(), detail));
    }
    progress
}

fn too_many(at: &Trail<'_>, size: u64, most: u64) -> FieldError {
    let unit = if most == 1 { "item" } else { "items" };
    let detail = format!("must have at most {most} {unit}");
    FieldError::new(FieldProblem::TooMany, at.path(), Some(size.into()), detail)
}

fn check_object(
    node: &Subschema,
    fields: &Map<String, Value>,
    old: Option<&Value>,
    at: &Trail<'_>,
    errors: &mut Vec<FieldError>,
) -> Progress {
    let size = u64::try_from(fields.len()).unwrap_or(u64::MAX);
    if let Some(least) = node.limits.min_properties.filter(|least| size < *least) {
        let detail = format!("{at} in body should have at least {least} properties");
        errors.push(FieldError::invalid(at.path(), size.into(), detail));
    }
    if let Some(most) = node.limits.max_properties.filter(|most| size > *most) {
        errors.push(too_many(at, size, most));
    }
    let mut progress = 0;
    for (name, value) in fields {
        let schema = match (node.properties.get(name), &node.additional) {
            (Some(property), _) => property,
            (None, Some(Some(values))) => values,
            (None, _) if node.closed => {
                let detail = format!("{at}.{name} in body is a forbidden property");
                errors.push(FieldError::invalid(at.path(), name.as_str().into(), detail));
                continue;
            }
            (None, _) => continue,
        };
        // Both objects have been converted to the same version, so a change here can't be seen.
        let hidden = at.is_root() && (name == "apiVersion" || name == "kind");
        let before = old.filter(|_| !hidden).and_then(|old| old.get(name));
        progress += check(schema, value, before, &Trail::Field(at, name), errors);
    }
    for name in node.limits.required.iter().filter(|name| !fields.contains_key(*name)) {
        errors.push(FieldError::required(Trail::Field(at, name).path(), ""));
    }
    progress
}

fn check_choice(limits: &Limits, value: &Value, at: &Trail<'_>, errors: &mut Vec<FieldError>) {
    let same = |choice: &Value| match (choice, value) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b && !b.is_null(),
    };
    if limits.choices.is_empty() || limits.choices.iter().any(same) {
        return;
    }
    let quoted: Vec<String> = limits
        .choices
        .iter()
        .map(|choice| {
            format!(
                "{:?}",
                choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)
            )
        })
        .collect();
    errors.push(FieldError::new(
        FieldProblem::NotSupported,
        at.path(),
        Some(value.clone()),
        format!("supported values: {}", quoted.join(", ")),
    ));
}
