//! OpenAPI v3: an index, and one document for each group and version. `kubectl explain` reads
//! descriptions from it. `kubectl apply` reads the merge keys and the query parameters of a kind's
//! PATCH. OpenAPI v2 has the same in one document, see `v2`.
//!
//! A document describes only what is served: the schemas that its kinds use, and the operations
//! with their parameters and bodies.

mod paths;
mod schemas;
mod typed;
pub mod v2;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use berth_apimachinery::GIT_VERSION;
use serde_json::{Map, Value, json};

use crate::discovery::{VIRTUAL, Virtual};
use crate::kinds::{Kind, Subresource};
use paths::place;
use schemas::Schemas;

/// `/openapi/v3`. Each URL contains a hash of its document's sources, so that clients can cache
/// the document as long as the URL stays the same.
pub fn index(kinds: &[Arc<Kind>]) -> Value {
    let mut hashes: BTreeMap<String, DefaultHasher> = BTreeMap::new();
    let start = || {
        let mut hasher = DefaultHasher::new();
        (GIT_VERSION, env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        hasher
    };
    for kind in VIRTUAL {
        let hasher = hashes.entry(place(kind.group, kind.version)).or_insert_with(start);
        kind.plural.hash(hasher);
    }
    for kind in kinds {
        let hasher = hashes.entry(place(&kind.group, &kind.version)).or_insert_with(start);
        (
            &kind.kind,
            &kind.plural,
            kind.namespaced,
            kind.status,
            kind.scale.is_some(),
        )
            .hash(hasher);
        let schema = kind.custom().map(|custom| custom.openapi.to_string());
        schema.hash(hasher);
    }
    let paths: BTreeMap<&String, Value> = hashes
        .iter()
        .map(|(place, hasher)| {
            let url = format!("/openapi/v3/{place}?hash={:016X}", hasher.finish());
            (place, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// `/openapi/v3/api/<version>` or `/openapi/v3/apis/<group>/<version>`. `None` if no such version
/// is served.
pub fn document(group: &str, version: &str, kinds: &[Arc<Kind>]) -> Option<Value> {
    let kinds: Vec<&Kind> = kinds
        .iter()
        .map(AsRef::as_ref)
        .filter(|kind| kind.group == group && kind.version == version)
        .collect();
    let answered: Vec<&Virtual> = VIRTUAL
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
        .collect();
    if kinds.is_empty() && answered.is_empty() {
        return None;
    }
    let (paths, schemas) = operations(&kinds, &answered);
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// The paths of these kinds with their operations, and the schemas that they refer to.
fn operations(kinds: &[&Kind], answered: &[&Virtual]) -> (Map<String, Value>, Map<String, Value>) {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for kind in answered {
        let schema = schemas.add_answered((kind.group, kind.version, kind.kind));
        paths::add_answered(&mut paths, kind, &schema);
    }
    let delete_options = schemas.delete_options();
    for kind in kinds {
        let own = kind.gvk();
        let schema = match kind.custom() {
            None => schemas.add(kind),
            Some(custom) => schemas.add_custom(own, &custom.openapi),
        };
        let mut with_schema = |sub: Subresource<'_>| {
            if sub.response == own {
                schema.clone()
            } else {
                schemas.add_answered(sub.response)
            }
        };
        let subresources: Vec<_> = kind
            .subresources()
            .into_iter()
            .map(|sub| (sub, with_schema(sub)))
            .collect();
        paths::add(&mut paths, kind, &schema, &delete_options, &subresources);
    }
    (paths, schemas.finish())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::samples;

    fn documents() -> Vec<Value> {
        let kinds = samples::kinds();
        let places: BTreeSet<(&str, &str)> = kinds
            .iter()
            .map(|kind| (kind.group.as_str(), kind.version.as_str()))
            .collect();
        places
            .into_iter()
            .map(|(group, version)| document(group, version, &kinds).unwrap())
            .collect()
    }

    fn schema<'a>(document: &'a Value, name: &str) -> &'a Value {
        &document["components"]["schemas"][name]
    }

    /// kubectl checks this before it sends a write.
    #[test]
    fn every_kind_has_a_patch_that_takes_field_validation() {
        for kind in samples::kinds() {
            let document = document(&kind.group, &kind.version, &samples::kinds()).unwrap();
            let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
            let patch = document["paths"].as_object().unwrap().values().find_map(|path| {
                path.get("patch")
                    .filter(|patch| patch["x-kubernetes-group-version-kind"] == gvk)
            });
            let patch = patch.unwrap_or_else(|| panic!("{gvk}"));
            let parameters = patch["parameters"].as_array().unwrap();
            assert!(
                parameters
                    .iter()
                    .any(|p| p["name"] == "fieldValidation" && p["in"] == "query"),
                "{gvk}"
            );
            let content = patch["requestBody"]["content"].as_object().unwrap();
            assert!(content.contains_key("application/merge-patch+json"), "{gvk}");
            let strategic = content.contains_key("application/strategic-merge-patch+json");
            assert_eq!(strategic, !kind.is_custom(), "{gvk}");
        }
    }

    /// `kubectl explain` goes from a resource's path to its kind, and from the kind to its schema.
    #[test]
    fn every_kind_has_a_schema_with_a_description() {
        for kind in samples::kinds() {
            let document = document(&kind.group, &kind.version, &samples::kinds()).unwrap();
            let gvk = json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
            let schemas = document["components"]["schemas"].as_object().unwrap();
            let schema = schemas
                .values()
                .find(|schema| schema["x-kubernetes-group-version-kind"] == gvk);
            let schema = schema.unwrap_or_else(|| panic!("{gvk}"));
            assert!(schema["description"].is_string(), "{gvk}");
            assert!(!schema["required"].to_string().contains("metadata"), "{gvk}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_stands_alone() {
        fn check(value: &Value, schemas: &Value) {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(reference)) = fields.get("$ref") {
                        let name = reference.strip_prefix("#/components/schemas/").unwrap();
                        assert!(schemas.get(name).is_some(), "{name}");
                        assert_eq!(fields.len(), 1, "{value}");
                    }
                    fields.values().for_each(|field| check(field, schemas));
                }
                Value::Array(items) => items.iter().for_each(|item| check(item, schemas)),
                _ => {}
            }
        }
        for document in documents() {
            check(&document, &document["components"]["schemas"]);
        }
    }

    #[test]
    fn lists_say_how_they_merge() {
        let document = document("", "v1", &samples::kinds()).unwrap();
        let property = |schema_name: &str, name: &str| {
            schema(&document, schema_name)["properties"][name].clone()
        };
        let ports = property("io.k8s.api.core.v1.Container", "ports");
        assert_eq!(ports["x-kubernetes-list-type"], "map");
        assert_eq!(
            ports["x-kubernetes-list-map-keys"],
            json!(["containerPort", "protocol"])
        );
        assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
        assert_eq!(ports["x-kubernetes-patch-strategy"], "merge");
        let volumes = property("io.k8s.api.core.v1.PodSpec", "volumes");
        assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
        let finalizers = property("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers");
        assert_eq!(finalizers["x-kubernetes-list-type"], "set");
        assert_eq!(
            property("io.k8s.api.core.v1.ContainerPort", "protocol")["default"],
            "TCP"
        );
        let selector = schema(&document, "io.k8s.api.core.v1.ObjectReference");
        assert_eq!(selector["x-kubernetes-map-type"], "atomic");
    }

    #[test]
    fn a_custom_resource_has_its_own_schema_and_the_usual_metadata() {
        let document = document("example.berth.dev", "v1", &samples::kinds()).unwrap();
        let widget = schema(&document, "dev.berth.example.v1.Widget");
        assert_eq!(
            widget["properties"]["spec"]["properties"]["color"]["description"],
            "Its color."
        );
        assert_eq!(
            widget["properties"]["metadata"]["allOf"][0]["$ref"],
            "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        );
        assert!(widget["properties"]["apiVersion"]["description"].is_string());
        let metadata = schema(&document, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        assert_eq!(metadata["properties"]["finalizers"]["x-kubernetes-list-type"], "set");
    }

    #[test]
    fn a_document_holds_only_what_its_kinds_reach() {
        let leases = document("coordination.k8s.io", "v1", &samples::kinds()).unwrap();
        assert!(schema(&leases, "io.k8s.api.coordination.v1.LeaseSpec").is_object());
        assert!(schema(&leases, "io.k8s.api.core.v1.PodSpec").is_null());
        assert_eq!(document("nope", "v1", &samples::kinds()), None);
    }

    #[test]
    fn the_openapi_index_changes_only_where_kinds_change() {
        let kinds = samples::kinds();
        let before = index(&kinds);
        let without_widgets: Vec<_> =
            kinds.iter().filter(|kind| !kind.is_custom()).cloned().collect();
        assert_eq!(
            index(&without_widgets)["paths"]["apis/apps/v1"],
            before["paths"]["apis/apps/v1"]
        );
        assert!(index(&without_widgets)["paths"]["apis/example.berth.dev/v1"].is_null());

        let mut definition = samples::widgets();
        definition["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["description"] =
            "Another.".into();
        let changed = samples::of(&definition);
        let changed: Vec<_> = without_widgets.into_iter().chain(changed).collect();
        let after = index(&changed);
        assert_ne!(
            before["paths"]["apis/example.berth.dev/v1"],
            after["paths"]["apis/example.berth.dev/v1"]
        );
        assert_eq!(
            before["paths"]["apis/example.berth.dev/v1alpha1"],
            after["paths"]["apis/example.berth.dev/v1alpha1"]
        );
        for place in before["paths"].as_object().unwrap().keys() {
            let parts: Vec<&str> = place.split('/').collect();
            let (group, version) = if let ["apis", group, version] = parts[..] {
                (group, version)
            } else {
                ("", parts[1])
            };
            assert!(document(group, version, &kinds).is_some(), "{place}");
        }
    }
}
