//! JSON as CEL values by its schema: `1` is an int or a double by the declared type, dates and
//! durations have their own types, and only declared fields exist.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use kube_cel::cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use kube_cel::cel::common::value::Val;
use kube_cel::cel::{self, functions};
use serde_json::{Map, Number, Value};

use crate::schema::format::Known;
use crate::schema::number;
use crate::schema::subschema::Subschema;
use crate::schema::types::Type;

type Boxed = Box<dyn Val>;

pub(super) fn convert(node: &Subschema, resource: bool, value: &Value) -> Boxed {
    match value {
        Value::Object(fields) => object(node, resource, fields),
        Value::Array(items) => {
            let item = |value| match node.items.as_deref() {
                Some(schema) => convert(schema, schema.embedded, value),
                None => raw(value),
            };
            Box::new(CelList::from(items.iter().map(item).collect::<Vec<_>>()))
        }
        Value::String(text) => string(node, text),
        Value::Number(number) => match node.kind {
            Type::Number => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
            Type::Integer | Type::IntOrString => match number::integer(number) {
                Some(whole) => Box::new(CelInt::from(whole)),
                None => untyped(number),
            },
            _ => untyped(number),
        },
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Null => Box::new(CelNull),
    }
}

fn object(node: &Subschema, resource: bool, fields: &Map<String, Value>) -> Boxed {
    let mut map: HashMap<CelMapKey, Boxed> = HashMap::with_capacity(fields.len());
    for (name, value) in fields {
        let property = node.properties.get(name);
        let (key, value) = match (name.as_str(), property, &node.additional) {
            ("metadata", ..) if resource => (Cow::Borrowed("metadata"), metadata(value)),
            ("apiVersion" | "kind", ..) if resource => (Cow::Borrowed(name.as_str()), raw(value)),
            (_, Some(property), _) => {
                let Some(key) = escape(name) else {
                    continue;
                };
                (key, convert(property, property.embedded, value))
            }
            (_, None, Some(Some(values))) => {
                (Cow::Borrowed(name.as_str()), convert(values, values.embedded, value))
            }
            _ if node.preserve && node.properties.is_empty() => {
                (Cow::Borrowed(name.as_str()), raw(value))
            }
            _ => continue,
        };
        map.insert(CelMapKey::from(key.as_ref()), value);
    }
    Box::new(CelMap::from(map))
}

/// Rules see only the names in the metadata.
fn metadata(value: &Value) -> Boxed {
    let seen = ["name", "generateName"]
        .iter()
        .filter_map(|name| Some((CelMapKey::from(*name), raw(value.get(name)?))));
    Box::new(CelMap::from(seen.collect::<HashMap<_, _>>()))
}

fn string(node: &Subschema, text: &str) -> Boxed {
    let typed = match node.limits.format.as_ref().map(|format| format.kind) {
        Some(Known::DateTime) => functions::timestamp(Arc::new(text.to_owned())).ok(),
        Some(Known::Date) => functions::timestamp(Arc::new(format!("{text}T00:00:00Z"))).ok(),
        Some(Known::Duration) => functions::duration(Arc::new(text.to_owned())).ok(),
        Some(Known::Byte) => base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()
            .map(cel::Value::from),
        _ => None,
    };
    typed
        .and_then(|value| Boxed::try_from(value).ok())
        .unwrap_or_else(|| Box::new(CelString::from(text)))
}

fn raw(value: &Value) -> Boxed {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(flag) => Box::new(CelBool::from(*flag)),
        Value::Number(number) => untyped(number),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => Box::new(CelList::from(items.iter().map(raw).collect::<Vec<_>>())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(k, v)| (CelMapKey::from(k.as_str()), raw(v)));
            Box::new(CelMap::from(fields.collect::<HashMap<_, _>>()))
        }
    }
}

fn untyped(number: &Number) -> Boxed {
    if let Some(whole) = number.as_i64() {
        Box::new(CelInt::from(whole))
    } else if let Some(whole) = number.as_u64() {
        Box::new(CelUInt::from(whole))
    } else {
        Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN)))
    }
}

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A field's name as a CEL identifier. Rules can't use fields whose name can't be one.
fn escape(name: &str) -> Option<Cow<'_, str>> {
    if RESERVED.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    let other = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    if !name.starts_with(first) || !name.chars().all(other) {
        return None;
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return Some(Cow::Borrowed(name));
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Some(Cow::Owned(escaped))
}
