//! Decodes request bodies in `application/vnd.kubernetes.protobuf`, which kubectl's typed commands
//! send, to JSON.
//!
//! The JSON is that of a Go client, without the empty objects and nulls that Go writes for unset
//! structs. There is no encoder, because clients that send protobuf accept JSON answers.

mod error;
mod scalar;
mod wire;

pub use error::DecodeError;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value};

use crate::shape::{Field, List, Map, Shape};
use error::ProtobufErrorKind;
use wire::{Reader, Wire};

/// The prefix of every body, which tells it from other protobuf messages.
const PREFIX: &[u8] = b"k8s\0";

/// The JSON of a body. `shape_of` is called with the apiVersion and kind in the body, which are
/// empty if the client leaves them out.
pub fn decode(
    body: &[u8],
    shape_of: impl Fn(&str, &str) -> Option<Arc<Shape>>,
) -> Result<Value, DecodeError> {
    let envelope = Envelope::read(body.strip_prefix(PREFIX).ok_or(ProtobufErrorKind::Prefix)?)?;
    if !envelope.content_encoding.is_empty() {
        return Err(ProtobufErrorKind::Encoding(envelope.content_encoding.to_owned()).into());
    }
    if envelope.content_type == "application/json" {
        return Ok(serde_json::from_slice(envelope.raw).map_err(ProtobufErrorKind::Json)?);
    }
    let (api_version, kind) = (envelope.api_version, envelope.kind);
    let shape = shape_of(api_version, kind).ok_or_else(|| ProtobufErrorKind::Kind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    })?;
    let Shape::Object(object) = &*shape else {
        return Err(ProtobufErrorKind::Untyped.into());
    };
    let mut json = JsonMap::new();
    for (name, value) in [("apiVersion", api_version), ("kind", kind)] {
        if !value.is_empty() {
            json.insert(name.to_owned(), value.into());
        }
    }
    read_message(envelope.raw, &object.fields, &[], &mut json)?;
    Ok(Value::Object(json))
}

/// `runtime.Unknown`: the type of an object, and its bytes.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
    content_encoding: &'a str,
    content_type: &'a str,
}

impl<'a> Envelope<'a> {
    fn read(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut envelope = Self::default();
        let mut reader = Reader::new(message);
        while let Some((number, wire)) = reader.field()? {
            match number {
                1 => envelope.read_type(scalar::bytes(wire)?)?,
                2 => envelope.raw = scalar::bytes(wire)?,
                3 => envelope.content_encoding = scalar::text(wire)?,
                4 => envelope.content_type = scalar::text(wire)?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, message: &'a [u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(message);
        while let Some((number, wire)) = reader.field()? {
            match number {
                1 => self.api_version = scalar::text(wire)?,
                2 => self.kind = scalar::text(wire)?,
                _ => {}
            }
        }
        Ok(())
    }
}

type Fields = BTreeMap<String, Field>;

/// Reads a message into an object. `inlined` are the field numbers that lead to it if JSON has no
/// own object for it.
///
/// The recursion is never deeper than the nesting of the shape, whatever the bytes are.
fn read_message(
    message: &[u8],
    fields: &Fields,
    inlined: &[u32],
    json: &mut JsonMap<String, Value>,
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.field()? {
        let mut path = inlined.to_vec();
        path.push(number);
        match fields.iter().find(|(_, field)| field.tag.starts_with(&path)) {
            Some((name, field)) if field.tag == path => {
                read_field(wire, name, field, json).map_err(|error| error.within(name))?;
            }
            Some(_) => read_message(scalar::bytes(wire)?, fields, &path, json)?,
            // A field of a newer version.
            None => {}
        }
    }
    Ok(())
}

fn read_field(
    wire: Wire<'_>,
    name: &str,
    field: &Field,
    json: &mut JsonMap<String, Value>,
) -> Result<(), DecodeError> {
    // A message or list may come in several pieces, which are merged.
    let earlier = json.remove(name);
    let value = match &*field.shape {
        Shape::Any => return Err(ProtobufErrorKind::Untyped.into()),
        Shape::Scalar(scalar) => {
            let value = scalar::decode(*scalar, wire)?;
            let keep = field.pointer || field.always || value != scalar::zero(*scalar);
            (keep && !value.is_null()).then_some(value)
        }
        Shape::Object(object) => {
            let mut inner = match earlier {
                Some(Value::Object(inner)) => inner,
                _ => JsonMap::new(),
            };
            read_message(scalar::bytes(wire)?, &object.fields, &[], &mut inner)?;
            (field.pointer || !inner.is_empty()).then_some(Value::Object(inner))
        }
        Shape::Map(map) => {
            let mut entries = match earlier {
                Some(Value::Object(entries)) => entries,
                _ => JsonMap::new(),
            };
            read_entry(scalar::bytes(wire)?, map, &mut entries)?;
            Some(Value::Object(entries))
        }
        Shape::List(list) => {
            let mut items = match earlier {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            };
            read_items(wire, list, &mut items)?;
            Some(Value::Array(items))
        }
    };
    if let Some(value) = value {
        json.insert(name.to_owned(), value);
    }
    Ok(())
}

fn read_entry(
    message: &[u8],
    map: &Map,
    entries: &mut JsonMap<String, Value>,
) -> Result<(), DecodeError> {
    let (mut key, mut value) = ("", None);
    let mut reader = Reader::new(message);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => key = scalar::text(wire)?,
            2 => value = Some(wire),
            _ => {}
        }
    }
    let value = match (value, &*map.value) {
        (Some(wire), shape) => read_value(wire, shape).map_err(|error| error.within(key))?,
        (None, Shape::Scalar(scalar)) => scalar::zero(*scalar),
        (None, _) => Value::Object(JsonMap::new()),
    };
    entries.insert(key.to_owned(), value);
    Ok(())
}

fn read_items(wire: Wire<'_>, list: &List, items: &mut Vec<Value>) -> Result<(), DecodeError> {
    match (wire, &*list.item) {
        (Wire::Bytes(packed), Shape::Scalar(scalar)) if scalar::is_packable(*scalar) => {
            let mut reader = Reader::new(packed);
            while let Some(number) = reader.packed()? {
                items.push(scalar::decode(*scalar, Wire::Varint(number))?);
            }
        }
        (wire, shape) => items.push(read_value(wire, shape)?),
    }
    Ok(())
}

/// An item of a list or a value of a map: kept even when it is zero.
fn read_value(wire: Wire<'_>, shape: &Shape) -> Result<Value, DecodeError> {
    match shape {
        Shape::Scalar(scalar) => scalar::decode(*scalar, wire),
        Shape::Object(object) => {
            let mut inner = JsonMap::new();
            read_message(scalar::bytes(wire)?, &object.fields, &[], &mut inner)?;
            Ok(Value::Object(inner))
        }
        // Protobuf has no lists of lists and no maps of maps.
        Shape::Any | Shape::List(_) | Shape::Map(_) => Err(ProtobufErrorKind::Untyped.into()),
    }
}

#[cfg(test)]
mod tests;
