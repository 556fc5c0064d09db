//! The shape of a custom resource, from the structural schema of its definition.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Field, List, ListKind, ListPatch, Map, Object, Scalar, Shape};

/// `metadata` is the shape of ObjectMeta. Every resource has it, whatever its schema says.
pub fn custom(schema: &Value, metadata: Arc<Shape>) -> Shape {
    resource(schema, &metadata)
}

fn resource(schema: &Value, metadata: &Arc<Shape>) -> Shape {
    let mut object = object(schema, metadata);
    for name in ["apiVersion", "kind"] {
        let text = Arc::new(Shape::Scalar(Scalar::String));
        object.fields.insert(name.to_owned(), field(text, None));
    }
    object
        .fields
        .insert("metadata".to_owned(), field(Arc::clone(metadata), None));
    Shape::Object(object)
}

fn shape(schema: &Value, metadata: &Arc<Shape>) -> Shape {
    let is = |name: &str| schema[name] == true;
    if is("x-kubernetes-int-or-string") {
        return Shape::Scalar(Scalar::IntOrString);
    }
    if is("x-kubernetes-embedded-resource") {
        return resource(schema, metadata);
    }
    match schema["type"].as_str() {
        Some("object") => match &schema["additionalProperties"] {
            Value::Null
                if schema["properties"].is_null() && is("x-kubernetes-preserve-unknown-fields") =>
            {
                untyped(schema)
            }
            Value::Null => Shape::Object(object(schema, metadata)),
            values => Shape::Map(Map {
                value: Arc::new(if values.is_object() {
                    shape(values, metadata)
                } else {
                    Shape::Any
                }),
                atomic: is_atomic(schema),
            }),
        },
        Some("array") => Shape::List(List {
            item: Arc::new(shape(&schema["items"], metadata)),
            kind: list_kind(schema),
            // Custom resources have no strategic merge patch.
            patch: ListPatch::Replace,
        }),
        Some("string") => Shape::Scalar(Scalar::String),
        Some("boolean") => Shape::Scalar(Scalar::Bool),
        Some("integer") => Shape::Scalar(Scalar::Int64),
        Some("number") => Shape::Scalar(Scalar::Float),
        _ => Shape::Any,
    }
}

fn is_atomic(schema: &Value) -> bool {
    schema["x-kubernetes-map-type"] == "atomic"
}

/// An object without declared fields: untyped data, unless it is atomic.
fn untyped(schema: &Value) -> Shape {
    if is_atomic(schema) {
        return Shape::Object(Object {
            open: true,
            atomic: true,
            ..Object::default()
        });
    }
    Shape::Any
}

fn object(schema: &Value, metadata: &Arc<Shape>) -> Object {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let fields: BTreeMap<String, Field> = properties
        .map(|(name, property)| {
            let default = property.get("default").filter(|value| !value.is_null()).cloned();
            (name.clone(), field(Arc::new(shape(property, metadata)), default))
        })
        .collect();
    Object {
        fields,
        open: schema["x-kubernetes-preserve-unknown-fields"] == true,
        atomic: is_atomic(schema),
    }
}

/// Custom resources keep zero values, so every field counts as a pointer.
fn field(shape: Arc<Shape>, default: Option<Value>) -> Field {
    Field {
        shape,
        tag: Vec::new(),
        pointer: true,
        always: false,
        retain_keys: false,
        default,
    }
}

fn list_kind(schema: &Value) -> ListKind {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            ListKind::Map(keys.filter_map(|key| key.as_str().map(str::to_owned)).collect())
        }
        _ => ListKind::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(shape: &Shape) -> &BTreeMap<String, Field> {
        let Shape::Object(object) = shape else {
            panic!("{shape:?} is not an object");
        };
        &object.fields
    }

    fn spec(schema: Value) -> Shape {
        let metadata = Arc::new(Shape::Any);
        let schema = json!({"type": "object", "properties": {"spec": schema}});
        fields(&custom(&schema, metadata))["spec"].shape.as_ref().clone()
    }

    #[test]
    fn every_resource_has_its_type_and_metadata() {
        let metadata = Arc::new(Shape::Scalar(Scalar::Raw));
        let schema = json!({"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        }});
        let shape = custom(&schema, Arc::clone(&metadata));
        let known = fields(&shape);
        assert_eq!(known["metadata"].shape, metadata);
        assert_eq!(*known["apiVersion"].shape, Shape::Scalar(Scalar::String));
        assert_eq!(fields(&known["inner"].shape)["metadata"].shape, metadata);
    }

    #[test]
    fn scalars_maps_and_open_objects_follow_the_schema() {
        let any = Arc::new(Shape::Any);
        let text = Arc::new(Shape::Scalar(Scalar::String));
        let map = |value: &Arc<Shape>, atomic| {
            Shape::Map(Map {
                value: Arc::clone(value),
                atomic,
            })
        };
        let table = [
            (json!({"type": "string"}), Shape::Scalar(Scalar::String)),
            (json!({"type": "boolean"}), Shape::Scalar(Scalar::Bool)),
            (
                json!({"type": "integer", "format": "int32"}),
                Shape::Scalar(Scalar::Int64),
            ),
            (json!({"type": "number"}), Shape::Scalar(Scalar::Float)),
            (
                json!({"x-kubernetes-int-or-string": true}),
                Shape::Scalar(Scalar::IntOrString),
            ),
            (json!({"x-kubernetes-preserve-unknown-fields": true}), Shape::Any),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                Shape::Any,
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                map(&text, false),
            ),
            (
                json!({"type": "object", "additionalProperties": true, "x-kubernetes-map-type": "atomic"}),
                map(&any, true),
            ),
        ];
        for (schema, expected) in table {
            assert_eq!(spec(schema), expected);
        }
        let Shape::Object(open) = spec(json!({
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}},
        })) else {
            panic!("an object with fields");
        };
        assert!(open.open && open.atomic && open.fields.contains_key("a"));
    }

    #[test]
    fn lists_know_how_their_items_are_told_apart() {
        let table = [
            (json!({}), ListKind::Atomic),
            (json!({"x-kubernetes-list-type": "set"}), ListKind::Set),
            (
                json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]}),
                ListKind::Map(vec!["port".to_owned(), "protocol".to_owned()]),
            ),
        ];
        for (mut schema, expected) in table {
            schema["type"] = json!("array");
            schema["items"] = json!({"type": "object", "properties": {
                "port": {"type": "integer"},
                "protocol": {"type": "string", "default": "TCP"},
            }});
            let Shape::List(list) = spec(schema) else {
                panic!("a list");
            };
            assert_eq!(list.kind, expected);
            assert_eq!(fields(&list.item)["protocol"].default, Some(json!("TCP")));
        }
    }
}
