//! Names of a definition: its own, its group's, and those of its resources.

use serde_json::Value;

use crate::names;
use crate::status::{FieldError, Path};

pub(super) fn check_own(definition: &Value) -> Option<FieldError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &definition["spec"];
    let name = text(&definition["metadata"]["name"]);
    let required = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
    (name != required).then(|| {
        FieldError::invalid(
            Path::new("metadata.name"),
            name.into(),
            "must be spec.names.plural+\".\"+spec.group",
        )
    })
}

pub(super) fn check_group(spec: &Value, path: &Path) -> Option<FieldError> {
    let field = path.child("group");
    let group = spec["group"].as_str().unwrap_or_default();
    if group.is_empty() {
        return Some(FieldError::required(field, ""));
    }
    if let Some(why) = names::subdomain(group) {
        return Some(FieldError::invalid(field, group.into(), why));
    }
    (!group.contains('.')).then(|| {
        FieldError::invalid(field, group.into(), "should be a domain with at least one dot")
    })
}

pub(super) fn check_spec(names: &Value, path: &Path) -> Vec<FieldError> {
    let text = |name: &str| names[name].as_str().unwrap_or_default();
    let mut errors = Vec::new();
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(name).is_empty() {
            errors.push(FieldError::required(path.child(name), ""));
        }
    }
    for name in ["plural", "singular"] {
        if let Some(why) = names::label_1035(text(name)).filter(|_| !text(name).is_empty()) {
            errors.push(FieldError::invalid(path.child(name), text(name).into(), why));
        }
    }
    for name in ["kind", "listKind"] {
        if let Some(why) =
            names::label_1035(&text(name).to_lowercase()).filter(|_| !text(name).is_empty())
        {
            let why = format!("may have mixed case, but should otherwise match: {why}");
            errors.push(FieldError::invalid(path.child(name), text(name).into(), why));
        }
    }
    errors.extend(check_list(names, "shortNames", path));
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(
            path.child("listKind"),
            text("listKind").into(),
            why,
        ));
    }
    errors.extend(check_list(names, "categories", path));
    errors
}

fn check_list(names: &Value, list: &str, path: &Path) -> Vec<FieldError> {
    let items = names[list].as_array().into_iter().flatten().enumerate();
    items
        .filter_map(|(index, item)| {
            let why = names::label_1035(item.as_str().unwrap_or_default())?;
            Some(FieldError::invalid(path.child(list).index(index), item.clone(), why))
        })
        .collect()
}
