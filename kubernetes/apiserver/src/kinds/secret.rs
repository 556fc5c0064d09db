//! Secrets: like ConfigMaps, with encoded data and a type that requires certain keys.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use berth_apimachinery::columns::{AGE, Column, NAME, entries};
use berth_apimachinery::selectors::SelectableField;
use berth_apimachinery::status::{FieldError, Path};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::built_in::{BuiltIn, Change, schema_of};
use crate::rules::defaults::fill;
use crate::rules::{Errors, data};

pub static KIND: BuiltIn = BuiltIn {
    kind: "Secret",
    plural: "secrets",
    schema: schema_of::<Secret>,
    default,
    check,
    columns: &[
        NAME,
        Column::text("Type", "/type"),
        Column::made("Data", |secret, _| json!(entries(secret, "/data"))),
        AGE,
    ],
    selectable: Some(SELECTABLE),
    ..BuiltIn::PLAIN
};

const SELECTABLE: &[SelectableField] = &[SelectableField::new("type")];

/// Keys that a Secret of each type must have.
const NEEDED: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

fn default(object: &mut Value) {
    fill(object, &json!({"type": "Opaque"}));
    let plain = object.as_object_mut().and_then(|fields| fields.remove("stringData"));
    if let Some(Value::Object(plain)) = plain {
        fill(object, &json!({"data": {}}));
        for (key, value) in plain {
            let encoded = BASE64_STANDARD.encode(value.as_str().unwrap_or_default());
            object["data"][&key] = encoded.into();
        }
    }
}

fn check(object: &Value, change: &Change<'_>, errors: &mut Errors) {
    data::check(object, errors);
    let needed = NEEDED.iter().filter(|(kind, _)| object["type"] == *kind);
    for key in needed.flat_map(|(_, keys)| *keys) {
        if object["data"][key].is_null() {
            errors.push(FieldError::required(Path::new("data").key(key), ""));
        }
    }
    data::check_change(object, change.old, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_of_a_secret_is_encoded_and_not_kept() {
        let mut object = json!({"data": {"a": "eA=="}, "stringData": {"b": "y"}});
        default(&mut object);
        assert_eq!(object, json!({"type": "Opaque", "data": {"a": "eA==", "b": "eQ=="}}));
    }
}
