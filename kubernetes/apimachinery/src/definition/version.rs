//! The versions of a definition, each with its schema, subresources and columns.

use std::collections::BTreeSet;

use serde_json::Value;

use super::version_schema;
use crate::names;
use crate::status::{FieldError, FieldProblem, Path};

/// The version that objects are stored in.
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
    let places = Places {
        schema: shared(versions, "schema").then(|| spec.child("validation")),
        subresources: shared(versions, "subresources").then(|| spec.child("subresources")),
        columns: shared(versions, "additionalPrinterColumns").then(|| spec.child("additionalPrinterColumns")),
        selectable: shared(versions, "selectableFields").then(|| spec.child("selectableFields")),
    };
    for (index, version) in versions.iter().enumerate() {
        let at = list.index(index);
        let name = version["name"].as_str().unwrap_or_default();
        if let Some(why) = names::label_1035(name) {
            if index == 0 {
                errors.push(FieldError::invalid(spec.child("version"), name.into(), why.clone()));
            }
            errors.push(FieldError::invalid(at.child("name"), name.into(), why));
        }
        errors.extend(check_deprecation(version, &at));
        if version["schema"]["openAPIV3Schema"].is_null() {
            errors.push(FieldError::required(at.child("schema").child("openAPIV3Schema"), ""));
        }
        // What all versions share is checked once.
        let own = |place: &Option<Path>, field: &str| match place {
            None => Some(at.child(field)),
            Some(top) => (index == 0).then(|| top.clone()),
        };
        if let Some(place) = own(&places.schema, "schema") {
            errors.extend(version_schema::check(version, &place.child("openAPIV3Schema")));
        }
        if let Some(place) = own(&places.subresources, "subresources") {
            errors.extend(check_scale(&version["subresources"]["scale"], &place));
        }
        if let Some(place) = own(&places.columns, "additionalPrinterColumns") {
            errors.extend(check_columns(version, &place));
        }
        if let Some(place) = own(&places.selectable, "selectableFields") {
            errors.extend(check_selectable(version, &place));
        }
    }
    let distinct: BTreeSet<Option<&str>> = versions.iter().map(|version| version["name"].as_str()).collect();
    if distinct.len() != versions.len() {
        errors.push(about_list(&list, versions, "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(about_list(&list, versions, why));
    }
    errors
}

/// Where the parts that all versions have in common are reported, if they are in common.
struct Places {
    schema: Option<Path>,
    subresources: Option<Path>,
    columns: Option<Path>,
    selectable: Option<Path>,
}

fn shared(versions: &[Value], field: &str) -> bool {
    let mut parts = versions.iter().map(|version| &version[field]);
    let first = parts.next();
    first.is_some_and(|first| !first.is_null() && parts.all(|part| part == first))
}

fn about_list(path: &Path, versions: &[Value], why: &str) -> FieldError {
    FieldError::invalid(path.clone(), versions.to_vec().into(), why)
}

fn check_deprecation(version: &Value, at: &Path) -> Vec<FieldError> {
    let Some(warning) = version["deprecationWarning"].as_str() else {
        return Vec::new();
    };
    let field = at.child("deprecationWarning");
    let fail = |why: &str| vec![FieldError::invalid(field.clone(), warning.into(), why)];
    if version["deprecated"] != true {
        fail("can only be set for deprecated versions")
    } else if warning.is_empty() {
        fail("must not be an empty string")
    } else if warning.len() > 256 {
        fail("must be <= 256 characters long")
    } else {
        Vec::new()
    }
}

fn check_scale(scale: &Value, place: &Path) -> Vec<FieldError> {
    if scale.is_null() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    let rules: [(&str, bool, &[&str], &str); 3] = [
        (
            "specReplicasPath",
            true,
            &[".spec."],
            "should be a json path under .spec",
        ),
        (
            "statusReplicasPath",
            true,
            &[".status."],
            "should be a json path under .status",
        ),
        (
            "labelSelectorPath",
            false,
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ];
    for (name, required, parents, why) in rules {
        let field = place.child("scale").child(name);
        match scale[name].as_str().unwrap_or_default() {
            "" if required => errors.push(FieldError::required(field, "")),
            "" => {}
            path if !path.starts_with('.') => errors.push(not_simple(field, path)),
            path if !parents.iter().any(|parent| path.starts_with(parent)) => {
                errors.push(FieldError::invalid(field, path.into(), why));
            }
            _ => {}
        }
    }
    errors
}

fn not_simple(field: Path, path: &str) -> FieldError {
    FieldError::invalid(field, path.into(), "must be a simple json path starting with .")
}

fn check_columns(version: &Value, place: &Path) -> Vec<FieldError> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    let mut errors = Vec::new();
    let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
    for (index, column) in columns.enumerate() {
        let at = place.index(index);
        let text = |name: &str| column[name].as_str().unwrap_or_default();
        let one_of = |names: &[&str]| format!("must be one of {}", names.join(","));
        if text("name").is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        match text("type") {
            "" => errors.push(FieldError::required(at.child("type"), one_of(&TYPES))),
            given if !TYPES.contains(&given) => {
                errors.push(FieldError::invalid(at.child("type"), given.into(), one_of(&TYPES)));
            }
            _ => {}
        }
        let format = text("format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            errors.push(FieldError::invalid(at.child("format"), format.into(), one_of(&FORMATS)));
        }
        match text("jsonPath") {
            "" => errors.push(FieldError::required(at.child("JSONPath"), "")),
            path if !path.starts_with('.') => errors.push(not_simple(at.child("JSONPath"), path)),
            _ => {}
        }
    }
    errors
}

fn check_selectable(version: &Value, place: &Path) -> Vec<FieldError> {
    const MOST: usize = 8;
    let fields = version["selectableFields"].as_array().map_or(&[][..], Vec::as_slice);
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let at = place.index(index).child("jsonPath");
        let path = field["jsonPath"].as_str().unwrap_or_default();
        let mut fail = |why: &str| errors.push(FieldError::invalid(at.clone(), path.into(), why));
        let Some(steps) = path.strip_prefix('.') else {
            fail("is an invalid path: expected [ or .");
            continue;
        };
        let root = &version["schema"]["openAPIV3Schema"];
        let found = steps.split('.').fold(root, |schema, name| &schema["properties"][name]);
        if found.is_null() {
            fail("is an invalid path: does not refer to a valid field");
        } else if steps.starts_with("metadata.") {
            fail("must not point to fields in metadata");
        } else if !matches!(found["type"].as_str(), Some("string" | "boolean" | "integer")) {
            fail(
                "must point to a field of type string, boolean or integer. \
                 Enum string fields and strings with formats are allowed.",
            );
        } else if !seen.insert(path) {
            errors.push(FieldError::new(FieldProblem::Duplicate, at, Some(path.into()), ""));
        }
    }
    if seen.len() > MOST {
        let why = format!("must have at most {MOST} items");
        errors.push(FieldError::new(
            FieldProblem::TooMany,
            place.clone(),
            Some(seen.len().into()),
            why,
        ));
    }
    errors
}
