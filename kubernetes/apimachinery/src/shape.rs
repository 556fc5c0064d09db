//! The shape of a kind: its fields, their types, and how its lists and maps merge.
//!
//! Built-in kinds (from the field table) and custom resources (from their schema) have the same
//! description. Strict decoding, protobuf bodies, strategic merge patch and server-side apply all
//! read it. It does not check values: `schema` does that for custom resources, and the API server
//! for built-in kinds.

pub mod custom;
mod field_table;
pub mod strict;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub use custom::custom;
pub use field_table::builtin;

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Any JSON: unknown fields are kept, and the whole merges as untyped data (objects by key,
    /// lists atomically).
    Any,
    Scalar(Scalar),
    Object(Object),
    /// Keys are data, not field names: labels, a ConfigMap's data.
    Map(Map),
    List(List),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    String,
    Bool,
    Int32,
    Int64,
    Float,
    /// base64 in JSON.
    Bytes,
    /// RFC 3339 in JSON, `{seconds, nanos}` in protobuf.
    Time,
    /// The same with microseconds.
    MicroTime,
    /// `1h0m0s` in JSON, nanoseconds in protobuf.
    Duration,
    /// `100m` in JSON, `{string}` in protobuf.
    Quantity,
    /// A number or a string in JSON, `{type, intVal, strVal}` in protobuf.
    IntOrString,
    /// JSON in JSON, the same as bytes in protobuf: RawExtension, FieldsV1, JSON.
    Raw,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    pub fields: BTreeMap<String, Field>,
    /// Fields that are not listed are kept (`x-kubernetes-preserve-unknown-fields`).
    pub open: bool,
    /// The whole has one owner in server-side apply.
    pub atomic: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub shape: Arc<Shape>,
    /// Protobuf field numbers from the enclosing message: more than one where JSON inlines a nested
    /// message. Empty for custom resources.
    pub tag: Vec<u32>,
    /// A pointer in Go: zero differs from absent. For other fields both are the same.
    pub pointer: bool,
    /// A scalar that Go writes even when it is zero (no `omitempty`).
    pub always: bool,
    /// Strategic merge patch: `$retainKeys` acts on this field (a union, such as a deployment's
    /// strategy).
    pub retain_keys: bool,
    /// The default of a missing value in a list key (`protocol: TCP`).
    pub default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    pub value: Arc<Shape>,
    pub atomic: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct List {
    pub item: Arc<Shape>,
    /// How server-side apply merges the list.
    pub kind: ListKind,
    /// How strategic merge patch merges the list.
    pub patch: ListPatch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    Atomic,
    Set,
    Map(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListPatch {
    Replace,
    /// Scalars: the union.
    Merge,
    /// Objects: by this key.
    MergeBy(String),
}
