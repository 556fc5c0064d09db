//! OpenAPI v2: one document for all that is served, made from the same operations and schemas as
//! the documents of v3. kubectl validates the items of a `kind: List` with it before it sends any.

use std::sync::Arc;

use berth_apimachinery::openapi_v2;
use bytes::Bytes;
use serde_json::Value;

use crate::discovery::{VIRTUAL, Virtual};
use crate::kinds::Kind;

/// The only media type that kubectl accepts.
const KUBECTL_ACCEPT: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The same type as kube-apiserver names it in its answer. A media type can't contain an `@`.
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const JSON: &str = "application/json";

/// The forms of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// The first known form in `Accept`. JSON if the client names none.
    pub fn negotiate(accept: &str) -> Option<Self> {
        let media = |media: &str| match media.split(';').next().unwrap_or_default().trim() {
            JSON | "application/*" | "*/*" | "" => Some(Self::Json),
            KUBECTL_ACCEPT | PROTOBUF => Some(Self::Protobuf),
            _ => None,
        };
        accept.split(',').find_map(media)
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => PROTOBUF,
        }
    }
}

pub fn encoded(kinds: &[Arc<Kind>], encoding: Encoding) -> Bytes {
    let document = document(kinds);
    match encoding {
        Encoding::Json => document.to_string().into(),
        Encoding::Protobuf => openapi_v2::encode(&document).into(),
    }
}

fn document(kinds: &[Arc<Kind>]) -> Value {
    let kinds: Vec<&Kind> = kinds.iter().map(AsRef::as_ref).collect();
    let answered: Vec<&Virtual> = VIRTUAL.iter().collect();
    let (paths, schemas) = super::operations(&kinds, &answered);
    openapi_v2::document(paths, schemas)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples;

    #[test]
    fn kubectl_gets_protobuf_and_others_json() {
        for accept in ["", "*/*", "application/json", "text/html, application/json;q=0.9"] {
            assert_eq!(Encoding::negotiate(accept), Some(Encoding::Json), "{accept}");
        }
        for accept in [KUBECTL_ACCEPT, PROTOBUF] {
            assert_eq!(Encoding::negotiate(accept), Some(Encoding::Protobuf), "{accept}");
        }
        assert_eq!(Encoding::negotiate("application/yaml"), None);
    }

    /// kubectl refuses the whole document if one reference is broken.
    #[test]
    fn every_reference_leads_to_a_definition() {
        fn check(value: &Value, definitions: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(reference)) = fields.get("$ref") {
                        let name = reference.strip_prefix("#/definitions/").unwrap();
                        assert!(definitions.get(name).is_some(), "{name}");
                        assert!(!fields.contains_key("type"), "{value}");
                        assert!(!fields.contains_key("properties"), "{value}");
                    }
                    fields.values().for_each(|field| check(field, definitions));
                }
                Value::Array(items) => items.iter().for_each(|item| check(item, definitions)),
                _ => {}
            }
        }
        let document = document(&samples::kinds());
        check(&document, &document["definitions"]);
    }

    #[test]
    fn every_kind_has_a_definition_and_a_patch() {
        let document = document(&samples::kinds());
        for kind in samples::kinds() {
            let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
            let mut definitions = document["definitions"].as_object().unwrap().values();
            let name = "x-kubernetes-group-version-kind";
            assert!(definitions.any(|schema| schema[name] == json!([gvk])), "{gvk}");
            let mut paths = document["paths"].as_object().unwrap().values();
            let patch = paths.find(|path| path["patch"][name] == gvk).unwrap();
            let parameters = patch["patch"]["parameters"].as_array().unwrap();
            let validation = parameters.iter().find(|p| p["name"] == "fieldValidation").unwrap();
            assert_eq!(validation["type"], "string");
            assert_eq!(parameters.last().unwrap()["in"], "body");
            let consumes = patch["patch"]["consumes"].as_array().unwrap();
            assert!(consumes.contains(&json!("application/merge-patch+json")), "{gvk}");
        }
    }
}
