//! Namespaces. `housekeeping` deletes the content of a deleted namespace; until then its finalizer
//! holds it.

use berth_apimachinery::columns::{AGE, Column, NAME};
use berth_apimachinery::metadata::NameRule;
use berth_apimachinery::selectors::SelectableField;
use k8s_openapi::api::core::v1::Namespace;
use serde_json::{Value, json};

use super::built_in::{BuiltIn, Deletion, Subresource, schema_of};

pub static KIND: BuiltIn = BuiltIn {
    kind: "Namespace",
    plural: "namespaces",
    short_names: &["ns"],
    namespaced: false,
    names: NameRule::Label,
    status: true,
    subresources: &[Subresource {
        name: "finalize",
        response: ("", "v1", "Namespace"),
        verbs: &["update"],
    }],
    delete_collection: false,
    schema: schema_of::<Namespace>,
    default: |object| {
        let name = object["metadata"]["name"].clone();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    },
    admit_create: |object| {
        object["spec"]["finalizers"] = json!(["kubernetes"]);
        object["status"] = json!({"phase": "Active"});
    },
    columns: &[NAME, Column::text("Status", "/status/phase"), AGE],
    selectable: Some(SELECTABLE),
    deletion: Deletion {
        refusal: |name| PERMANENT.contains(&name).then_some("this namespace may not be deleted"),
        grace: None,
        mark: |object| object["status"]["phase"] = "Terminating".into(),
        is_held: |object| {
            let finalizers = object["spec"]["finalizers"].as_array();
            finalizers.is_some_and(|list: &Vec<Value>| !list.is_empty())
        },
        needs_empty_namespace: true,
        ..Deletion::PLAIN
    },
    ..BuiltIn::PLAIN
};

/// Every cluster needs these.
const PERMANENT: &[&str] = &["default", "kube-public", "kube-system"];

const SELECTABLE: &[SelectableField] = &[SelectableField::new("status.phase")];
