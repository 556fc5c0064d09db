//! Encodes the document in protobuf, as gnostic's `openapi.v2`: the only form that kubectl reads.
//!
//! Field numbers are those of gnostic's `OpenAPIv2.proto`. A value of any type is YAML text, and
//! JSON is valid YAML.

use serde_json::{Map, Value};

pub fn encode(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    message.message(2, &info);
    message.message(8, &named(2, &document["paths"], path));
    message.message(9, &named(1, &document["definitions"], schema));
    message.0
}

fn path(item: &Value) -> Message {
    let mut message = Message::default();
    for (method, number) in [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)] {
        if let Some(given) = item.get(method) {
            message.message(number, &operation(given));
        }
    }
    message.messages(9, &item["parameters"], parameter);
    message
}

fn operation(operation: &Value) -> Message {
    let mut message = Message::default();
    message.texts(6, &operation["produces"]);
    message.texts(7, &operation["consumes"]);
    message.messages(8, &operation["parameters"], parameter);
    message.message(9, &named(1, &operation["responses"], response));
    message.extensions(13, operation);
    message
}

/// A parameter, in the messages that tell the kinds of parameters apart.
fn parameter(parameter: &Value) -> Message {
    let mut inner = Message::default();
    let place = parameter["in"].as_str().unwrap_or_default();
    if place == "body" {
        inner.text(2, &parameter["name"]);
        inner.text(3, &parameter["in"]);
        inner.bool(4, &parameter["required"]);
        inner.message(5, &schema(&parameter["schema"]));
        return inner.inside(1).inside(1);
    }
    inner.bool(1, &parameter["required"]);
    inner.text(2, &parameter["in"]);
    inner.text(3, &parameter["description"]);
    inner.text(4, &parameter["name"]);
    let (kind, number) = if place == "query" { (3, 6) } else { (4, 5) };
    inner.text(number, &parameter["type"]);
    inner.inside(kind).inside(2).inside(1)
}

fn response(response: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, &response["description"]);
    if let Some(given) = response.get("schema") {
        message.message(2, &schema(given).inside(1));
    }
    message.inside(1)
}

/// Writes a field of a schema under its number.
type Write = fn(&mut Message, u32, &Value);

/// The fields of a schema by their numbers.
const FIELDS: &[(&str, u32, Write)] = &[
    ("$ref", 1, Message::text),
    ("format", 2, Message::text),
    ("title", 3, Message::text),
    ("description", 4, Message::text),
    ("default", 5, |message, number, value| {
        message.message(number, &any(value))
    }),
    ("multipleOf", 6, Message::number),
    ("maximum", 7, Message::number),
    ("exclusiveMaximum", 8, Message::bool),
    ("minimum", 9, Message::number),
    ("exclusiveMinimum", 10, Message::bool),
    ("maxLength", 11, Message::count),
    ("minLength", 12, Message::count),
    ("pattern", 13, Message::text),
    ("maxItems", 14, Message::count),
    ("minItems", 15, Message::count),
    ("uniqueItems", 16, Message::bool),
    ("maxProperties", 17, Message::count),
    ("minProperties", 18, Message::count),
    ("required", 19, Message::texts),
    ("enum", 20, |message, number, value| {
        message.messages(number, value, any)
    }),
    ("additionalProperties", 21, |message, number, value| {
        message.message(number, &additional(value))
    }),
    ("type", 22, |message, number, value| {
        let mut name = Message::default();
        name.text(1, value);
        message.message(number, &name);
    }),
    ("items", 23, |message, number, value| {
        message.message(number, &schema(value).inside(1))
    }),
    ("properties", 25, |message, number, value| {
        message.message(number, &named(1, value, schema))
    }),
    ("example", 30, |message, number, value| {
        message.message(number, &any(value))
    }),
];

fn schema(schema: &Value) -> Message {
    let mut message = Message::default();
    for (name, number, write) in FIELDS {
        if let Some(value) = schema.get(name) {
            write(&mut message, *number, value);
        }
    }
    message.extensions(31, schema);
    message
}

/// The schema of values whose names are data, or whether there may be any.
fn additional(value: &Value) -> Message {
    if value.is_object() {
        return schema(value).inside(1);
    }
    let mut message = Message::default();
    message.bool(2, value);
    message
}

fn any(value: &Value) -> Message {
    let mut message = Message::default();
    message.bytes(2, value.to_string().as_bytes());
    message
}

/// A map: pairs of a name and a message, all under one number.
fn named(number: u32, map: &Value, value: fn(&Value) -> Message) -> Message {
    let mut message = Message::default();
    for (name, entry) in map.as_object().into_iter().flatten() {
        message.message(number, &pair(name, &value(entry)));
    }
    message
}

fn pair(name: &str, value: &Message) -> Message {
    let mut pair = Message::default();
    pair.bytes(1, name.as_bytes());
    pair.message(2, value);
    pair
}

/// A message that is being written. As always in protobuf, empty, zero and missing values are not
/// written.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn inside(self, number: u32) -> Self {
        let mut outer = Self::default();
        outer.message(number, &self);
        outer
    }

    fn message(&mut self, number: u32, message: &Self) {
        self.bytes(number, &message.0);
    }

    fn messages(&mut self, number: u32, list: &Value, value: fn(&Value) -> Self) {
        for item in list.as_array().into_iter().flatten() {
            self.message(number, &value(item));
        }
    }

    fn text(&mut self, number: u32, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn texts(&mut self, number: u32, list: &Value) {
        for text in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn bool(&mut self, number: u32, value: &Value) {
        if value == true {
            self.key(number, 0);
            self.varint(1);
        }
    }

    fn count(&mut self, number: u32, value: &Value) {
        if let Some(count) = value.as_u64().filter(|count| *count > 0) {
            self.key(number, 0);
            self.varint(count);
        }
    }

    fn number(&mut self, number: u32, value: &Value) {
        if let Some(value) = value.as_f64().filter(|value| *value != 0.0) {
            self.key(number, 1);
            self.0.extend(value.to_le_bytes());
        }
    }

    fn extensions(&mut self, number: u32, of: &Value) {
        let fields = of.as_object().into_iter().flat_map(Map::iter);
        for (name, value) in fields.filter(|(name, _)| name.starts_with("x-")) {
            self.message(number, &pair(name, &any(value)));
        }
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.key(number, 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn key(&mut self, number: u32, wire_type: u64) {
        self.varint(u64::from(number) << 3 | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push((value & 0x7f | 0x80).to_le_bytes()[0]);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    /// The vector is made by gnostic itself: see `xtask/fields/openapi.go`.
    #[test]
    fn a_document_is_encoded_as_gnostic_does_it() {
        let vector = include_str!("../../tests/vectors/openapi_v2.json");
        let vector: Value = serde_json::from_str(vector).unwrap();
        let expected = BASE64_STANDARD.decode(vector["protobuf"].as_str().unwrap()).unwrap();
        assert_eq!(encode(&vector["document"]), expected);
    }
}
