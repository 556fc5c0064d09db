//! Kinds for tests: the built-in ones, and a custom one with a bit of everything.

use std::sync::Arc;

use berth_apimachinery::shape::Shape;
use serde_json::{Value, json};

use crate::kinds::{self, Kind};

pub fn kinds() -> Vec<Arc<Kind>> {
    kinds::built_in().into_iter().chain(of(&widgets())).collect()
}

/// The kinds of a definition.
pub fn of(definition: &Value) -> Vec<Arc<Kind>> {
    let kinds = kinds::of_definition(definition, &Arc::new(Shape::Any)).unwrap();
    kinds.into_iter().map(Arc::new).collect()
}

/// By plural and group, as kubectl takes it: `deployments.apps`.
pub fn kind(name: &str) -> Arc<Kind> {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    let found = kinds()
        .into_iter()
        .find(|kind| kind.plural == plural && kind.group == group);
    found.unwrap_or_else(|| panic!("no kind {name}"))
}

pub fn widgets() -> Value {
    json!({
        "metadata": {"name": "widgets.example.berth.dev"},
        "spec": {
            "group": "example.berth.dev",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1alpha1", false), version("v1", true)],
        },
    })
}

fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name,
        "served": true,
        "storage": storage,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [
            {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1, "description": "How large."},
            {"name": "Parts", "type": "string", "jsonPath": ".spec.parts"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Since", "type": "date", "jsonPath": ".status.since"},
        ],
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "description": "A widget.",
            "properties": {
                "metadata": {"type": "object"},
                "spec": {
                    "type": "object",
                    "properties": {
                        "color": {"type": "string", "description": "Its color."},
                        "size": {"type": "integer"},
                        "parts": {"type": "array", "items": {"type": "string"}},
                    },
                },
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        }},
    })
}
