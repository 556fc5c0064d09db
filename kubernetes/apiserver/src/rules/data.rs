//! The data of ConfigMaps and Secrets.

use berth_apimachinery::status::{FieldError, Path};
use serde_json::Value;

use super::Errors;

const LARGEST_DATA: usize = 1 << 20;

pub fn check(object: &Value, errors: &mut Errors) {
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in object[field].as_object().into_iter().flatten() {
            size += value.as_str().unwrap_or_default().len();
            let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if key.is_empty()
                || key.len() > 253
                || key == "."
                || key.starts_with("..")
                || !key.chars().all(inner)
            {
                let detail =
                    "a valid key is 1 to 253 letters, digits, '-', '_' or '.', and not '.' or '..'";
                errors.push(FieldError::invalid(
                    Path::new(field).key(key),
                    key.as_str().into(),
                    detail,
                ));
            }
        }
    }
    for key in object["binaryData"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        if !object["data"][key].is_null() {
            let field = Path::new("data").key(key);
            errors.push(FieldError::invalid(
                field,
                key.as_str().into(),
                "duplicate of key present in binaryData",
            ));
        }
    }
    if size > LARGEST_DATA {
        let detail = format!("may not be more than {LARGEST_DATA} bytes");
        errors.push(FieldError::too_long(Path::new("[]"), detail));
    }
}

/// An object marked as immutable can't change.
pub fn check_change(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let Some(old) = old else { return };
    if !old["type"].is_null() && new["type"] != old["type"] {
        errors.push(FieldError::immutable(Path::new("type"), &new["type"]));
    }
    if old["immutable"] != true {
        return;
    }
    for field in ["immutable", "data", "binaryData"] {
        if new[field] != old[field] {
            let detail = "field is immutable when `immutable` is set";
            errors.push(FieldError::forbidden(Path::new(field), detail));
        }
    }
}
