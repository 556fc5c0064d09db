//! The type of a subschema, and the identity of list items.

use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Type {
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

impl Type {
    pub(super) fn of(schema: &Map<String, Value>) -> Self {
        if flag(schema, "x-kubernetes-int-or-string") {
            return Self::IntOrString;
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => Self::Object,
            Some("array") => Self::Array,
            Some("string") => Self::String,
            Some("integer") => Self::Integer,
            Some("number") => Self::Number,
            Some("boolean") => Self::Boolean,
            _ => Self::Any,
        }
    }

    /// The name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }
}

/// The identity of the items in a list (`x-kubernetes-list-type`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl ListType {
    /// The item of `old` with the same keys as `item`. `None` for other lists than maps.
    pub(super) fn find<'v>(&self, old: Option<&'v Value>, item: &Value) -> Option<&'v Value> {
        let Self::Map(keys) = self else {
            return None;
        };
        let same = |candidate: &&Value| keys.iter().all(|key| candidate.get(key) == item.get(key));
        old?.as_array()?.iter().find(same)
    }
}

impl ListType {
    pub(super) fn of(schema: &Map<String, Value>) -> Self {
        match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => Self::Set,
            Some("map") => Self::Map(texts(schema, "x-kubernetes-list-map-keys")),
            _ => Self::Atomic,
        }
    }
}

pub(super) fn flag(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

pub(super) fn texts(schema: &Map<String, Value>, name: &str) -> Vec<String> {
    let list = schema.get(name).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
