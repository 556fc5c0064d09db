//! The compiled form of a schema: one node for each place in an object.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::cel::{self, Rule, Scope};
use super::format::Format;
use crate::status::{FieldError, Path};

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kind: Type,
    pub(super) nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub(super) preserve: bool,
    /// `x-kubernetes-embedded-resource`
    pub(super) embedded: bool,
    pub(super) properties: BTreeMap<String, Node>,
    /// `additionalProperties`: not given, given without a schema, given with one.
    pub(super) additional: Option<Option<Box<Node>>>,
    /// `additionalProperties: false`
    pub(super) closed: bool,
    pub(super) items: Option<Box<Node>>,
    pub(super) list: ListType,
    pub(super) default: Option<Value>,
    pub(super) limits: Limits,
    pub(super) rules: Vec<Rule>,
    pub(super) below: Below,
}

/// What a walk can skip: whether this node or any below it has such a thing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Below {
    pub(super) defaults: bool,
    pub(super) rules: bool,
    /// Lists with `x-kubernetes-list-type` set or map.
    pub(super) keyed: bool,
    pub(super) embedded: bool,
}

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
    fn of(schema: &Map<String, Value>) -> Self {
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

    /// As it appears in messages.
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

/// How the items of a list are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl ListType {
    /// The item of `old` that is the same entry as `item`. Only lists of type map know.
    pub(super) fn find<'v>(&self, old: Option<&'v Value>, item: &Value) -> Option<&'v Value> {
        let Self::Map(keys) = self else {
            return None;
        };
        let same = |candidate: &&Value| keys.iter().all(|key| candidate.get(key) == item.get(key));
        old?.as_array()?.iter().find(same)
    }
}

/// Value validations.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) required: Vec<String>,
    pub(super) choices: Vec<Value>,
    pub(super) format: Option<Format>,
    pub(super) pattern: Option<Regex>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) unique_items: bool,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

pub(super) fn compile_root(schema: &Value, path: &Path) -> Result<Node, Vec<FieldError>> {
    let mut errors = Vec::new();
    let scope = Scope {
        resource: true,
        uncorrelated: None,
    };
    let node = compile(schema, path, scope, &mut errors);
    if errors.is_empty() { Ok(node) } else { Err(errors) }
}

fn compile(schema: &Value, path: &Path, scope: Scope<'_>, errors: &mut Vec<FieldError>) -> Node {
    let Some(schema) = schema.as_object() else {
        return Node::default();
    };
    let mut child = |schema: &Value, path: &Path, uncorrelated: Option<&Path>| {
        let scope = Scope {
            resource: schema["x-kubernetes-embedded-resource"] == true,
            uncorrelated,
        };
        Box::new(compile(schema, path, scope, errors))
    };
    let mut node = Node {
        kind: Type::of(schema),
        nullable: flag(schema, "nullable"),
        preserve: flag(schema, "x-kubernetes-preserve-unknown-fields"),
        embedded: flag(schema, "x-kubernetes-embedded-resource"),
        list: list_type(schema),
        // A null default is no default: that is how the apiserver's own types read it.
        default: schema.get("default").filter(|v| !v.is_null()).cloned(),
        ..Node::default()
    };
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let property = child(property, &path.child("properties").key(name), scope.uncorrelated);
        node.properties.insert(name.clone(), *property);
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            node.additional = Some(None);
            node.closed = !allowed;
        }
        Some(values) => {
            let values = child(values, &path.child("additionalProperties"), scope.uncorrelated);
            node.additional = Some(Some(values));
        }
        None => {}
    }
    let anonymous = !matches!(node.list, ListType::Map(_));
    let uncorrelated = scope.uncorrelated.or(anonymous.then_some(path));
    node.items = schema
        .get("items")
        .map(|items| child(items, &path.child("items"), uncorrelated));
    node.limits = limits(schema, node.kind, path, errors);
    node.rules = cel::compile(schema, &node, scope, path, errors);
    node.below = below(&node);
    node
}

fn below(node: &Node) -> Below {
    let start = Below {
        defaults: node.default.is_some(),
        rules: !node.rules.is_empty(),
        keyed: node.list != ListType::Atomic,
        embedded: node.embedded,
    };
    let members = node.additional.iter().flatten().chain(&node.items).map(Box::as_ref);
    node.properties
        .values()
        .chain(members)
        .fold(start, |so_far, child| Below {
            defaults: so_far.defaults || child.below.defaults,
            rules: so_far.rules || child.below.rules,
            keyed: so_far.keyed || child.below.keyed,
            embedded: so_far.embedded || child.below.embedded,
        })
}

fn limits(schema: &Map<String, Value>, kind: Type, path: &Path, errors: &mut Vec<FieldError>) -> Limits {
    let scope = Scope {
        resource: false,
        uncorrelated: None,
    };
    let mut branches = |name: &str| -> Vec<Node> {
        let list = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        list.enumerate()
            .map(|(index, branch)| compile(branch, &path.child(name).index(index), scope, errors))
            .collect()
    };
    let (all_of, any_of, one_of) = (branches("allOf"), branches("anyOf"), branches("oneOf"));
    let not = schema
        .get("not")
        .map(|branch| Box::new(compile(branch, &path.child("not"), scope, errors)));
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let count = |name: &str| schema.get(name).and_then(Value::as_u64);
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    Limits {
        required: texts(schema, "required"),
        choices: schema
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        format: text("format").and_then(|name| Format::new(name, kind)),
        pattern: text("pattern").filter(|p| !p.is_empty()).and_then(|pattern| {
            Regex::new(pattern)
                .map_err(|error| errors.push(bad_pattern(path, pattern, &error)))
                .ok()
        }),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        unique_items: flag(schema, "uniqueItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
        minimum: number("minimum"),
        exclusive_minimum: flag(schema, "exclusiveMinimum"),
        maximum: number("maximum"),
        exclusive_maximum: flag(schema, "exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        all_of,
        any_of,
        one_of,
        not,
    }
}

fn bad_pattern(path: &Path, pattern: &str, error: &regex::Error) -> FieldError {
    let why = format!("must be a valid regular expression, but isn't: {error}");
    FieldError::invalid(path.child("pattern"), pattern.into(), why)
}

fn list_type(schema: &Map<String, Value>) -> ListType {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(texts(schema, "x-kubernetes-list-map-keys")),
        _ => ListType::Atomic,
    }
}

pub(super) fn flag(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn texts(schema: &Map<String, Value>, name: &str) -> Vec<String> {
    let list = schema.get(name).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
