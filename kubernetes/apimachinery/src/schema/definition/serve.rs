//! From a definition to what is served.

use std::sync::Arc;

use serde_json::{Value, json};

use super::versions;
use crate::kinds::{Conversion, Custom, Kind, NameRule, ScalePaths};
use crate::schema::{Compiled, Problems};
use crate::shape::{Shape, custom};

/// Writes the status of a definition whose names nobody else has. Times of conditions that hold already stay.
pub fn established(definition: &mut Value, now: &str) {
    definition["status"]["acceptedNames"] = definition["spec"]["names"].clone();
    if let Some(storage) = super::storage_version(definition) {
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

/// A version that objects were stored in stays on the list for good.
pub(super) fn note_stored(definition: &mut Value, version: &str) {
    let stored = &mut definition["status"]["storedVersions"];
    match stored.as_array_mut() {
        Some(stored) if stored.iter().any(|name| name == version) => {}
        Some(stored) => stored.push(version.into()),
        None => *stored = json!([version]),
    }
}

/// One kind for each served version, in the definition's order. `metadata` is the shape of ObjectMeta.
pub fn kinds(definition: &Value, metadata: Arc<Shape>) -> Result<Vec<Kind>, Problems> {
    versions(definition)
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| kind(definition, version, &metadata))
        .collect()
}

fn kind(definition: &Value, version: &Value, metadata: &Arc<Shape>) -> Result<Kind, Problems> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().map(text).collect() };
    let schema = version["schema"]["openAPIV3Schema"].clone();
    let scale = &version["subresources"]["scale"];
    Ok(Kind {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        kind: text(&names["kind"]),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        short_names: list(&names["shortNames"]),
        categories: list(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        status: !version["subresources"]["status"].is_null(),
        scale: (!scale.is_null()).then(|| ScalePaths {
            spec_replicas: text(&scale["specReplicasPath"]),
            status_replicas: text(&scale["statusReplicasPath"]),
            label_selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        }),
        generation: true,
        names: NameRule::Subdomain,
        conversion: match super::storage_version(definition) {
            Some(storage) if storage != version["name"] => {
                Conversion::Version(format!("{}/{storage}", text(&spec["group"])))
            }
            _ => Conversion::None,
        },
        shape: Arc::new(custom::custom(&schema, Arc::clone(metadata))),
        custom: Some(Arc::new(Custom {
            rules: Compiled::new(&schema)?,
            schema,
            columns: version["additionalPrinterColumns"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
            selectable: selectable(version),
            definition: text(&definition["metadata"]["name"]),
        })),
    })
}

fn selectable(version: &Value) -> Vec<String> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields
        .filter_map(|field| field["jsonPath"].as_str().map(str::to_owned))
        .collect()
}
