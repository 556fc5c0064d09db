//! The kinds that a CustomResourceDefinition defines.

use std::sync::Arc;

use berth_apimachinery::definition;
use berth_apimachinery::metadata::NameRule;
use berth_apimachinery::schema::{Problems, Schema};
use berth_apimachinery::shape::{Shape, custom};
use serde_json::Value;

use super::kind::{Custom, Kind, ScalePaths, Source};
use berth_apimachinery::conversion::Conversion;

/// One kind for each served version, in the definition's order. `metadata` is the shape of
/// ObjectMeta.
pub fn kinds(definition: &Value, metadata: &Arc<Shape>) -> Result<Vec<Kind>, Problems> {
    definition::versions(definition)
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| kind(definition, version, metadata))
        .collect()
}

fn kind(definition: &Value, version: &Value, metadata: &Arc<Shape>) -> Result<Kind, Problems> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(text).collect()
    };
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
        conversion: match definition::storage_version(definition) {
            Some(storage) if storage != version["name"] => {
                Conversion::Version(format!("{}/{storage}", text(&spec["group"])))
            }
            _ => Conversion::None,
        },
        shape: Arc::new(custom(&schema, Arc::clone(metadata))),
        source: Source::Custom(Arc::new(Custom {
            schema: Schema::new(&schema)?,
            openapi: schema,
            columns: version["additionalPrinterColumns"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
            selectable: selectable(version),
        })),
    })
}

fn selectable(version: &Value) -> Vec<String> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields
        .filter_map(|field| field["jsonPath"].as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        let mut definition = json!({
            "metadata": {"name": "bads.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "bads", "kind": "Bad", "shortNames": ["bd"], "categories": ["all"]},
                "versions": [{
                    "name": "v1",
                    "served": true,
                    "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                        "a": {"type": "string"},
                    }}}}},
                }],
            },
        });
        definition::set_defaults(&mut definition);
        definition
    }

    #[test]
    fn each_served_version_becomes_a_kind() {
        let mut definition = self::definition();
        let mut next = definition["spec"]["versions"][0].clone();
        next["name"] = json!("v2");
        next["storage"] = json!(false);
        next["subresources"] = json!({
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"},
        });
        next["additionalPrinterColumns"] =
            json!([{"name": "A", "type": "string", "jsonPath": ".spec.a"}]);
        next["selectableFields"] = json!([{"jsonPath": ".spec.a"}]);
        let mut unserved = next.clone();
        unserved["name"] = json!("v3");
        unserved["served"] = json!(false);
        let versions = definition["spec"]["versions"].as_array_mut().unwrap();
        versions.extend([next, unserved]);
        let kinds = kinds(&definition, &Arc::new(Shape::Any)).unwrap();
        let [v1, v2] = kinds.as_slice() else {
            panic!("{} kinds", kinds.len());
        };
        assert_eq!((v1.version.as_str(), v2.version.as_str()), ("v1", "v2"));
        assert_eq!(
            (v1.plural.as_str(), v1.singular.as_str(), v1.kind.as_str()),
            ("bads", "bad", "Bad")
        );
        assert_eq!(
            (&v1.short_names, &v1.categories),
            (&vec!["bd".to_owned()], &vec!["all".to_owned()])
        );
        assert!(v1.namespaced && !v1.status && v2.status);
        assert_eq!(v1.conversion, Conversion::None);
        assert_eq!(v2.conversion, Conversion::Version("example.com/v1".to_owned()));
        let scale = ScalePaths {
            spec_replicas: ".spec.n".to_owned(),
            status_replicas: ".status.n".to_owned(),
            label_selector: Some(".status.s".to_owned()),
        };
        assert_eq!((&v1.scale, &v2.scale), (&None, &Some(scale)));
        let custom = v2.custom().unwrap();
        assert_eq!(custom.columns.len(), 1);
        assert_eq!(custom.selectable, [".spec.a"]);
    }
}
