//! The compiled form of a schema: a subschema for each place in an object.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::format::Format;
use super::rule::Rule;
use super::types::{ListType, Type};

#[derive(Debug, Default)]
pub(super) struct Subschema {
    pub(super) kind: Type,
    pub(super) nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub(super) preserve: bool,
    /// `x-kubernetes-embedded-resource`
    pub(super) embedded: bool,
    pub(super) properties: BTreeMap<String, Subschema>,
    /// `additionalProperties`: not given, given without a schema, given with one.
    pub(super) additional: Option<Option<Box<Subschema>>>,
    /// `additionalProperties: false`
    pub(super) closed: bool,
    pub(super) items: Option<Box<Subschema>>,
    pub(super) list: ListType,
    pub(super) default: Option<Value>,
    pub(super) limits: Limits,
    pub(super) rules: Vec<Rule>,
    pub(super) below: Features,
}

/// Whether this node, or any below it, has each feature. A walk skips nodes without its feature.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Features {
    pub(super) defaults: bool,
    pub(super) rules: bool,
    /// Lists with `x-kubernetes-list-type` set or map.
    pub(super) keyed: bool,
    pub(super) embedded: bool,
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
    pub(super) all_of: Vec<Subschema>,
    pub(super) any_of: Vec<Subschema>,
    pub(super) one_of: Vec<Subschema>,
    pub(super) not: Option<Box<Subschema>>,
}
