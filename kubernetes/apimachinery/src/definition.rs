//! Defaults, validation and status of CustomResourceDefinitions.
//!
//! Paths in errors are those of kube-apiserver, which keeps what all versions share at the top: an
//! error in the schema of the only version is at `spec.validation.openAPIV3Schema`, not below
//! `spec.versions[0]`.

mod defaults;
mod names;
mod structure;
mod version;

pub use version::{storage_version, versions};

use serde_json::{Value, json};

use crate::status::{FieldError, Path};

/// Sets what a definition leaves out: singular and list names, the conversion strategy, the port of
/// a webhook, and its stored version.
pub fn set_defaults(definition: &mut Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = text(&definition["spec"]["names"]["kind"]);
    let names = &definition["spec"]["names"];
    if names.is_object() {
        if text(&names["singular"]).is_empty() && !kind.is_empty() {
            definition["spec"]["names"]["singular"] = kind.to_lowercase().into();
        }
        if text(&definition["spec"]["names"]["listKind"]).is_empty() && !kind.is_empty() {
            definition["spec"]["names"]["listKind"] = format!("{kind}List").into();
        }
    }
    if definition["spec"].is_object() && definition["spec"]["conversion"].is_null() {
        definition["spec"]["conversion"] = json!({"strategy": "None"});
    }
    let service = definition.pointer_mut("/spec/conversion/webhook/clientConfig/service");
    if let Some(service) =
        service.filter(|service| service.is_object() && service["port"].is_null())
    {
        service["port"] = 443.into();
    }
    if let Some(storage) = storage_version(definition) {
        note_stored(definition, &storage);
    }
}

/// All errors in a definition with its defaults set, except for the metadata checks of every kind.
pub fn check(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = &definition["spec"];
    let path = Path::new("spec");
    let mut errors = Vec::from_iter(names::check_own(definition));
    errors.extend(names::check_group(spec, &path));
    errors.extend(choice(&spec["scope"], &path.child("scope"), &["Cluster", "Namespaced"]));
    errors.extend(version::check_all(definition, &path));
    errors.extend(names::check_spec(&spec["names"], &path.child("names")));
    errors.extend(check_conversion(spec, &path.child("conversion")));
    if let Some(old) = old {
        errors.extend(check_change(definition, old, &path));
    }
    errors.extend(check_stored(definition));
    if spec["preserveUnknownFields"] == true {
        errors.push(FieldError::invalid(
            path.child("preserveUnknownFields"),
            true.into(),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead",
        ));
    }
    errors
}

/// Writes the status of a definition with accepted names. Conditions that are already true keep
/// their times.
pub fn established(definition: &mut Value, now: &str) {
    definition["status"]["acceptedNames"] = definition["spec"]["names"].clone();
    if let Some(storage) = storage_version(definition) {
        note_stored(definition, &storage);
    }
    for (kind, reason, message) in [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ] {
        let conditions = &mut definition["status"]["conditions"];
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        let Some(conditions) = conditions.as_array_mut() else {
            return;
        };
        let condition_now = json!({
            "type": kind,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        });
        match conditions.iter_mut().find(|condition| condition["type"] == kind) {
            Some(held) if held["status"] == "True" => {}
            Some(other) => *other = condition_now,
            None => conditions.push(condition_now),
        }
    }
}

/// A version that has ever been the storage version stays on the list.
fn note_stored(definition: &mut Value, version: &str) {
    let stored = &mut definition["status"]["storedVersions"];
    match stored.as_array_mut() {
        Some(stored) if stored.iter().any(|name| name == version) => {}
        Some(stored) => stored.push(version.into()),
        None => *stored = json!([version]),
    }
}

fn choice(value: &Value, path: &Path, accepted: &[&str]) -> Option<FieldError> {
    let given = match value.as_str().unwrap_or_default() {
        "" => return Some(FieldError::required(path.clone(), "")),
        given if accepted.contains(&given) => return None,
        given => given,
    };
    Some(FieldError::not_supported(path.clone(), &given.into(), accepted))
}

fn check_conversion(spec: &Value, path: &Path) -> Vec<FieldError> {
    let conversion = &spec["conversion"];
    if conversion.is_null() {
        return Vec::new();
    }
    let webhook = &conversion["webhook"];
    let mut errors = Vec::from_iter(choice(
        &conversion["strategy"],
        &path.child("strategy"),
        &["None", "Webhook"],
    ));
    let client = path.child("webhookClientConfig");
    match conversion["strategy"].as_str() {
        Some("Webhook") => {
            let config = &webhook["clientConfig"];
            if config.is_null() {
                errors
                    .push(FieldError::required(client, "required when strategy is set to Webhook"));
            } else if config["url"].is_null() == config["service"].is_null() {
                errors.push(FieldError::required(
                    client,
                    "exactly one of url or service is required",
                ));
            }
            if webhook["conversionReviewVersions"].as_array().is_none_or(Vec::is_empty) {
                errors.push(FieldError::required(path.child("conversionReviewVersions"), ""));
            }
        }
        _ if !webhook.is_null() => {
            let detail = "should not be set when strategy is not set to Webhook";
            errors.push(FieldError::forbidden(client, detail));
        }
        _ => {}
    }
    errors
}

/// The group and plural can't change. Once established, the scope and kind can't change either.
fn check_change(definition: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
    let mut fixed = vec!["/group", "/names/plural"];
    if is_established(old) {
        fixed.splice(0..0, ["/scope", "/names/kind"]);
    }
    let changed = |pointer: &&str| {
        let at = |definition: &Value| definition["spec"].pointer(pointer).cloned();
        let now = at(definition)?;
        let field = pointer
            .split('/')
            .skip(1)
            .fold(path.clone(), |path, step| path.child(step));
        (Some(&now) != at(old).as_ref()).then(|| FieldError::immutable(field, &now))
    };
    fixed.iter().filter_map(changed).collect()
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn check_stored(definition: &Value) -> Vec<FieldError> {
    let path = Path::new("status.storedVersions");
    let stored = definition["status"]["storedVersions"].as_array();
    let Some(stored) = stored.filter(|stored| !stored.is_empty()) else {
        return vec![FieldError::invalid(
            path,
            Value::Null,
            "must have at least one stored version",
        )];
    };
    let mut errors = Vec::new();
    if let Some(storage) = storage_version(definition)
        && !stored.contains(&storage.as_str().into())
    {
        let detail = format!("must have the storage version {storage}");
        errors.push(FieldError::invalid(path.clone(), stored.clone().into(), detail));
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions(definition).iter().any(|version| &version["name"] == name) {
            let name = name.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, \
                 and must remain in spec.versions until a storage migration ensures no \
                 data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.push(FieldError::invalid(path.index(index), name.into(), detail));
        }
    }
    errors
}
