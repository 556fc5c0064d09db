//! Rules for the metadata of every kind.

use serde_json::Value;

use crate::names;
use crate::status::{FieldError, Path};

type Errors = Vec<FieldError>;

const LARGEST_ANNOTATIONS: usize = 256 << 10;

/// The rule for the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: most kinds.
    Subdomain,
    /// RFC 1123 label: namespaces.
    Label,
    /// RFC 1035 label: services.
    Label1035,
    /// Anything that can stand in a path: RBAC.
    Segment,
}

/// `rule` checks the name, for new objects only. `needs_domain` is for finalizers.
pub fn check(object: &Value, rule: Option<NameRule>, needs_domain: bool) -> Errors {
    let mut errors = Errors::new();
    let path = Path::new("metadata");
    let metadata = &object["metadata"];
    if let Some(rule) = rule {
        check_name(rule, metadata, &path, &mut errors);
    }
    check_labels(&metadata["labels"], &path.child("labels"), &mut errors);
    check_annotations(&metadata["annotations"], &path.child("annotations"), &mut errors);
    check_owners(metadata, &path.child("ownerReferences"), &mut errors);
    check_finalizers(needs_domain, metadata, &path.child("finalizers"), &mut errors);
    errors
}

/// Restores a field of the metadata to its live value.
pub fn restore_field(new: &mut Value, live: &Value, field: &str) {
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return;
    };
    match live["metadata"].get(field) {
        Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
        None => drop(metadata.remove(field)),
    }
}

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

fn check_finalizers(needs_domain: bool, metadata: &Value, path: &Path, errors: &mut Errors) {
    for (index, finalizer) in list(&metadata["finalizers"]) {
        let name = finalizer.as_str().unwrap_or_default();
        if let Some(problem) = names::qualified(name) {
            errors.push(FieldError::invalid(path.clone(), name.into(), problem));
        }
        if needs_domain && !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(path.index(index), name.into(), detail));
        }
    }
}

fn check_name(rule: NameRule, metadata: &Value, path: &Path, errors: &mut Errors) {
    let rule = match rule {
        NameRule::Subdomain => names::subdomain,
        NameRule::Label => names::label,
        NameRule::Label1035 => names::label_1035,
        NameRule::Segment => names::segment,
    };
    let prefix = text(metadata, "generateName");
    let name = text(metadata, "name");
    if !prefix.is_empty() {
        // A prefix may end in a character that can't end a name, since more follows.
        let stem = prefix.trim_end_matches(['-', '.']);
        if let Some(problem) = rule(if stem.is_empty() { prefix } else { stem }) {
            errors.push(FieldError::invalid(path.child("generateName"), prefix.into(), problem));
        }
    }
    if name.is_empty() {
        errors.push(FieldError::required(
            path.child("name"),
            "name or generateName is required",
        ));
    } else if let Some(problem) = rule(name) {
        errors.push(FieldError::invalid(path.child("name"), name.into(), problem));
    }
}

/// Also checks the labels of a template or a selector.
pub fn check_labels(labels: &Value, path: &Path, errors: &mut Errors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        if let Some(problem) = names::qualified(key) {
            errors.push(FieldError::invalid(path.clone(), key.as_str().into(), problem));
        }
        let value = value.as_str().unwrap_or_default();
        if let Some(problem) = names::label_value(value) {
            errors.push(FieldError::invalid(path.clone(), value.into(), problem));
        }
    }
}

fn check_annotations(annotations: &Value, path: &Path, errors: &mut Errors) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        size += key.len() + value.as_str().unwrap_or_default().len();
        // Unlike a label's key, an annotation's key is checked in lower case.
        if let Some(problem) = names::qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid(path.clone(), key.as_str().into(), problem));
        }
    }
    if size > LARGEST_ANNOTATIONS {
        let detail = format!("may not be more than {LARGEST_ANNOTATIONS} bytes");
        errors.push(FieldError::too_long(path.clone(), detail));
    }
}

fn check_owners(metadata: &Value, path: &Path, errors: &mut Errors) {
    let mut controllers = 0;
    for (_, owner) in list(&metadata["ownerReferences"]) {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, field).is_empty() {
                let detail = format!("{field} must not be empty");
                errors.push(FieldError::invalid(path.child(field), "".into(), detail));
            }
        }
        controllers += usize::from(owner["controller"] == true);
    }
    if controllers > 1 {
        let value = metadata["ownerReferences"].clone();
        let detail = "Only one reference can have Controller set to true";
        errors.push(FieldError::invalid(path.clone(), value, detail));
    }
}

fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
