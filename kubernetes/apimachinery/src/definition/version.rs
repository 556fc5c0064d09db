//! The versions of a definition.

use std::collections::BTreeSet;

use serde_json::Value;

use super::structure;
use crate::names;
use crate::status::{FieldError, Path};

/// The version in which objects are stored.
pub fn storage_version(definition: &Value) -> Option<String> {
    let storage = versions(definition).iter().find(|version| version["storage"] == true)?;
    storage["name"].as_str().map(str::to_owned)
}

/// All versions, served or not.
pub fn versions(definition: &Value) -> &[Value] {
    definition["spec"]["versions"].as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn check_all(definition: &Value, spec: &Path) -> Vec<FieldError> {
    let versions = versions(definition);
    let list = spec.child("versions");
    let mut errors = Vec::new();
    // A schema that all versions share is reported once, at the top.
    let schema_of = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
    let shared = versions
        .windows(2)
        .all(|pair| schema_of(&pair[0]) == schema_of(&pair[1]));
    for (index, version) in versions.iter().enumerate() {
        let at = list.index(index);
        let name = version["name"].as_str().unwrap_or_default();
        if let Some(why) = names::label_1035(name) {
            if index == 0 {
                errors.push(FieldError::invalid(spec.child("version"), name.into(), why.clone()));
            }
            errors.push(FieldError::invalid(at.child("name"), name.into(), why));
        }
        let schema = schema_of(version);
        if schema.is_null() {
            let field = at.child("schema").child("openAPIV3Schema");
            errors.push(FieldError::required(field, ""));
        }
        if !shared || index == 0 {
            let place = if shared {
                spec.child("validation")
            } else {
                at.child("schema")
            };
            errors.extend(structure::check(&schema, &place.child("openAPIV3Schema")));
        }
    }
    let mut wrong = |why: &str| {
        errors.push(FieldError::invalid(list.clone(), versions.to_vec().into(), why));
    };
    let distinct: BTreeSet<_> = versions.iter().map(|version| version["name"].as_str()).collect();
    if distinct.len() != versions.len() {
        wrong("must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        wrong("must have exactly one version marked as storage version");
    }
    errors
}
