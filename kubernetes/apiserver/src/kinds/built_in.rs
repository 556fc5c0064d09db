//! What a file about a built-in kind says.

use berth_apimachinery::columns::{self, Column};
use berth_apimachinery::metadata::NameRule;
use berth_apimachinery::selectors::SelectableField;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::rules::Errors;
use berth_apimachinery::conversion::StoredFields;

/// A built-in kind. Its fields are in the field table of `apimachinery`; the rest is here, and a
/// kind says only in what it differs from `PLAIN`. All are served as version v1.
#[derive(Debug)]
pub struct BuiltIn {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    /// What an object may be called.
    pub names: NameRule,
    pub status: bool,
    /// `/scale`, at the usual paths.
    pub scale: bool,
    /// Beside `status` and `scale`.
    pub subresources: &'static [Subresource<'static>],
    pub delete_collection: bool,
    /// `metadata.generation` counts changes of what is wanted.
    pub generation: bool,
    /// Where objects are stored as another kind.
    pub stored: Option<StoredFields>,
    pub schema: MakeSchema,

    /// Fills in what is not given.
    pub default: fn(&mut Value),
    /// Adds what only a new object gets.
    pub admit: fn(&mut Value),
    /// The same for every later change.
    pub readmit: fn(&mut Value),
    /// What a status says before anybody has said anything.
    pub first_status: fn() -> Value,
    /// Finds all that is wrong with an object, new or changed.
    pub check: fn(&Value, &Change<'_>, &mut Errors),
    /// Writes what the server says of an object that it accepts.
    pub finish: fn(&mut Value, &Change<'_>),
    /// Whether what is wanted differs between the new object and the live one.
    pub wants_other: fn(&Value, &Value) -> bool,
    /// An update makes what is not there yet.
    pub made_by_update: bool,
    /// An update has to name the version that it is meant for.
    pub needs_version: bool,
    /// Controllers set labels and the like through `/status`.
    pub opens_metadata: bool,
    /// Takes back what `/status` can't change in the new object, from the live one.
    pub confine_status: fn(&mut Value, &Value),

    pub columns: &'static [Column],
    /// What field selectors can ask for, if anything beside name and namespace.
    pub selectable: Option<&'static [SelectableField]>,
    pub deletion: Deletion,
}

/// A group, version and kind.
pub type Gvk<'a> = (&'a str, &'a str, &'a str);

/// A subresource: its name, what it takes and answers, and the verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource<'a> {
    pub name: &'static str,
    pub response: Gvk<'a>,
    pub verbs: &'static [&'static str],
}

/// How an object came to be as it is.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// As it was before, if it was.
    pub old: Option<&'a Value>,
    /// Empty for the main resource.
    pub subresource: &'a str,
    /// The time, as objects carry it.
    pub now: &'a str,
}

/// What a delete does.
#[derive(Debug)]
pub struct Deletion {
    /// Why an object of this name stays.
    pub refusal: fn(&str) -> Option<&'static str>,
    /// How many seconds an object is given to end, from the object and from what the request
    /// asks for. Where a kind has no such function, no grace period is written either.
    pub grace: Option<fn(&Value, Option<i64>) -> i64>,
    /// What the mark changes beside the metadata.
    pub mark: fn(&mut Value),
    /// Holds an object for as long as there is something in the table of its name.
    pub content_finalizer: Option<&'static str>,
    /// Whether something else than finalizers and the grace period holds an object.
    pub is_held: fn(&Value) -> bool,
    /// An object goes only while nothing is in the namespace of its name.
    pub needs_empty_namespace: bool,
    pub answer: Answer,
}

/// What a delete that leaves nothing behind answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A Status.
    Status,
    /// The object as it was.
    Object,
    /// The object with the mark, though it never stood.
    MarkedObject,
}

impl Deletion {
    pub const PLAIN: Self = Self {
        refusal: |_| None,
        grace: Some(|_, _| 0),
        mark: |_| {},
        content_finalizer: None,
        is_held: |_| false,
        needs_empty_namespace: false,
        answer: Answer::Status,
    };
}

/// Answers with a reference to a schema, and leaves the schema with the generator.
pub type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

pub fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl BuiltIn {
    pub const PLAIN: Self = Self {
        group: "",
        kind: "",
        plural: "",
        short_names: &[],
        categories: &[],
        namespaced: true,
        names: NameRule::Subdomain,
        status: false,
        scale: false,
        subresources: &[],
        delete_collection: true,
        generation: false,
        stored: None,
        schema: |_| Schema::default(),
        default: |_| {},
        admit: |_| {},
        readmit: |_| {},
        first_status: || json!({}),
        check: |_, _, _| {},
        finish: |_, _| {},
        wants_other: |new, live| new["spec"] != live["spec"],
        made_by_update: false,
        needs_version: false,
        opens_metadata: true,
        confine_status: |_, _| {},
        columns: columns::PLAIN,
        selectable: None,
        deletion: Deletion::PLAIN,
    };
}
