//! Decoding like kube-apiserver's Go types: unknown fields are dropped and reported, wrong types
//! are refused, nulls and zero values that mean "not given" disappear, and values take their
//! canonical form.
//!
//! This is for built-in kinds, and for the metadata of every kind. The rest of a custom resource
//! follows its schema: see `schema`.

mod go;
mod json;
mod quantity;
mod scalar;

use serde_json::{Map, Value};

use super::{Field, Object, Scalar, Shape};
use crate::status::{Result, Status};
use crate::trail::Trail;

pub use json::parse_json;
pub use quantity::nano;

/// Normalizes an object of a built-in kind. Returns the paths of unknown fields.
pub fn normalize(
    object: &mut Value,
    shape: &Shape,
    version: &str,
    kind: &str,
) -> Result<Vec<String>> {
    decode(object, shape, version, kind, kind, &Trail::Root)
}

/// The same for `metadata` alone, of a custom resource.
pub fn metadata(
    object: &mut Value,
    shape: &Shape,
    version: &str,
    kind: &str,
) -> Result<Vec<String>> {
    let field = match shape {
        Shape::Object(root) => root.fields.get("metadata"),
        _ => None,
    };
    match (field, object.get_mut("metadata")) {
        (Some(field), Some(metadata)) => {
            let unknown =
                decode(metadata, &field.shape, version, kind, "ObjectMeta", &Trail::Root)?;
            Ok(unknown.into_iter().map(|path| format!("metadata.{path}")).collect())
        }
        _ => Ok(Vec::new()),
    }
}

fn decode(
    value: &mut Value,
    shape: &Shape,
    version: &str,
    kind: &str,
    outermost: &str,
    at: &Trail<'_>,
) -> Result<Vec<String>> {
    let mut decoder = Decoder {
        outermost,
        unknown: Vec::new(),
    };
    match decoder.value(value, shape, at) {
        Ok(()) => Ok(decoder.unknown),
        Err(why) => Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))),
    }
}

struct Decoder<'k> {
    /// The Go type of the whole object.
    outermost: &'k str,
    unknown: Vec<String>,
}

impl Decoder<'_> {
    fn value(&mut self, value: &mut Value, shape: &Shape, at: &Trail<'_>) -> Result<(), String> {
        match (shape, &mut *value) {
            (Shape::Any, _) => Ok(()),
            (Shape::Scalar(kind), _) => scalar::decode(value, *kind, |given, expected| {
                go::mismatch(given, expected, self.outermost, at)
            }),
            (Shape::Object(object), Value::Object(fields)) => self.object(fields, object, at),
            (Shape::Map(map), Value::Object(entries)) => {
                for (key, entry) in entries {
                    fill_null(entry, &map.value);
                    self.value(entry, &map.value, &Trail::Key(at, key))?;
                }
                Ok(())
            }
            (Shape::List(list), Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    fill_null(item, &list.item);
                    self.value(item, &list.item, &Trail::Index(at, index))?;
                }
                Ok(())
            }
            _ => Err(go::mismatch(
                value,
                &go::type_name(shape, at, self.outermost),
                self.outermost,
                at,
            )),
        }
    }

    fn object(
        &mut self,
        fields: &mut Map<String, Value>,
        object: &Object,
        at: &Trail<'_>,
    ) -> Result<(), String> {
        let mut outcome = Ok(());
        fields.retain(|name, value| {
            if outcome.is_err() {
                return true;
            }
            let here = Trail::Field(at, name);
            let Some(field) = object.fields.get(name) else {
                if !object.open {
                    self.unknown.push(here.to_string());
                }
                return object.open;
            };
            if value.is_null() {
                if field.always {
                    fill_null(value, &field.shape);
                }
                return field.always;
            }
            outcome = self.value(value, &field.shape, &here);
            outcome.is_err() || !is_absent(value, field)
        });
        outcome
    }
}

/// Whether Go would omit the field: it has the zero value, and is not a pointer.
fn is_absent(value: &Value, field: &Field) -> bool {
    if field.pointer || field.always {
        return false;
    }
    match (field.shape.as_ref(), value) {
        (Shape::Scalar(Scalar::String | Scalar::Bytes), Value::String(text)) => text.is_empty(),
        (Shape::Scalar(Scalar::Bool), value) => value == &Value::Bool(false),
        (Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float), Value::Number(number)) => {
            number.as_f64() == Some(0.0)
        }
        (Shape::List(_), Value::Array(items)) => items.is_empty(),
        (Shape::Map(_) | Shape::Object(_), Value::Object(fields)) => fields.is_empty(),
        _ => false,
    }
}

/// Replaces a null member of a list or map by its zero value, since the member was given.
fn fill_null(value: &mut Value, shape: &Shape) {
    if !value.is_null() {
        return;
    }
    *value = match shape {
        Shape::Scalar(Scalar::String | Scalar::Bytes) => "".into(),
        Shape::Scalar(Scalar::Bool) => false.into(),
        Shape::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float | Scalar::IntOrString) => {
            0.into()
        }
        Shape::Scalar(Scalar::Quantity) => "0".into(),
        Shape::Object(_) | Shape::Map(_) => Value::Object(Map::new()),
        Shape::List(_) => Value::Array(Vec::new()),
        Shape::Scalar(_) | Shape::Any => return,
    };
}
