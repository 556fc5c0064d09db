//! `components.schemas`: the schemas of the kinds that a document shows, and all that these refer
//! to.

use std::sync::Arc;

use berth_apimachinery::openapi_v3;
use berth_apimachinery::shape::{self, Shape};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::typed;
use crate::kinds::{Gvk, Kind, MakeSchema};

const PREFIX: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

#[derive(Debug)]
pub struct Schemas {
    generator: SchemaGenerator,
    roots: Vec<Root>,
    custom: Map<String, Value>,
}

#[derive(Debug)]
struct Root {
    name: String,
    gvk: Value,
    shape: Option<Arc<Shape>>,
}

impl Default for Schemas {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12();
        let settings =
            settings.with(|settings| settings.definitions_path = "/components/schemas".into());
        Self {
            generator: settings.into_generator(),
            roots: Vec::new(),
            custom: Map::new(),
        }
    }
}

impl Schemas {
    /// Adds a built-in kind. Returns a reference to its schema.
    pub fn add(&mut self, kind: &Kind) -> Value {
        self.add_made(kind.gvk(), kind.make_schema(), Some(&kind.shape))
    }

    /// Adds a kind that is answered but never stored.
    pub fn add_answered(&mut self, own: Gvk<'_>) -> Value {
        self.add_made(own, typed::find(own), None)
    }

    fn add_made(
        &mut self,
        own: Gvk<'_>,
        make: Option<MakeSchema>,
        shape: Option<&Arc<Shape>>,
    ) -> Value {
        let Some(make) = make else {
            return json!({"type": "object"});
        };
        let reference = make(&mut self.generator).to_value();
        if let Some(name) = reference["$ref"].as_str().and_then(|text| text.strip_prefix(PREFIX)) {
            self.roots.push(Root {
                name: name.to_owned(),
                gvk: json!([gvk(own)]),
                shape: shape.cloned(),
            });
        }
        reference
    }

    /// Adds a custom kind by the schema in its definition.
    pub fn add_custom(&mut self, own: Gvk<'_>, schema: &Value) -> Value {
        let (group, version, kind) = own;
        let reversed: Vec<&str> = group.rsplit('.').collect();
        let name = format!("{}.{version}.{kind}", reversed.join("."));
        let mut schema = schema.clone();
        schema["x-kubernetes-group-version-kind"] = json!([gvk(own)]);
        let given = schema.get_mut("properties").map(Value::take).unwrap_or_default();
        schema["properties"] = typed::object_fields(&mut self.generator);
        if let (Value::Object(given), Value::Object(all)) = (given, &mut schema["properties"]) {
            // A definition's own schema for `metadata` could only restrict its name, so all of
            // ObjectMeta stays.
            all.extend(given.into_iter().filter(|(field, _)| {
                !["apiVersion", "kind", "metadata"].contains(&field.as_str())
            }));
        }
        let reference = json!({"$ref": format!("{PREFIX}{name}")});
        self.custom.insert(name, schema);
        reference
    }

    pub fn delete_options(&mut self) -> Value {
        typed::DELETE_OPTIONS(&mut self.generator).to_value()
    }

    pub fn patch() -> Value {
        json!({"$ref": format!("{PREFIX}{PATCH}")})
    }

    pub fn finish(mut self) -> Map<String, Value> {
        let mut schemas = self.generator.take_definitions(false);
        openapi_v3::adapt_all(&mut schemas);
        for Root { name, gvk, shape } in self.roots {
            if let Some(schema) = schemas.get_mut(&name) {
                schema["x-kubernetes-group-version-kind"] = gvk;
                openapi_v3::do_not_require(schema, "metadata");
            }
            if let Some(shape) = shape {
                openapi_v3::mark(&mut schemas, &name, &shape);
            }
        }
        // Custom resources use ObjectMeta too, and have no shape that would mark it.
        if let Some(shape) = shape::builtin("meta.k8s.io", "v1", "ObjectMeta") {
            openapi_v3::mark(&mut schemas, OBJECT_META, &shape);
        }
        schemas.append(&mut self.custom);
        schemas.insert(
            PATCH.to_owned(),
            json!({"type": "object", "description": "A patch, in the form that its content type says."}),
        );
        schemas
    }
}

pub fn gvk((group, version, kind): Gvk<'_>) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
