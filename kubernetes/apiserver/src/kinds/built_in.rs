//! The description of a built-in kind.

use berth_apimachinery::columns::{self, Column};
use berth_apimachinery::metadata::NameRule;
use berth_apimachinery::selectors::SelectableField;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::rules::Errors;
use berth_apimachinery::conversion::StoredFields;

/// A built-in kind. Its fields are in the field table of `apimachinery`; the rest is here. A kind
/// lists only its differences from `PLAIN`. All are served as version v1.
#[derive(Debug)]
pub struct BuiltIn {
    pub group: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub namespaced: bool,
    /// The rule for names of objects.
    pub names: NameRule,
    pub status: bool,
    /// `/scale`, at the usual paths.
    pub scale: bool,
    /// Beside `status` and `scale`.
    pub subresources: &'static [Subresource<'static>],
    pub delete_collection: bool,
    /// Whether objects have a `metadata.generation`.
    pub generation: bool,
    /// Set if objects are stored as another kind.
    pub stored: Option<StoredFields>,
    pub schema: MakeSchema,

    /// Fills in defaults.
    pub default: fn(&mut Value),
    /// Mutating admission of a new object.
    pub admit_create: fn(&mut Value),
    /// Mutating admission of every later change.
    pub admit_update: fn(&mut Value),
    /// The status of a new object.
    pub initial_status: fn() -> Value,
    /// Validates a new or changed object.
    pub check: fn(&Value, &Change<'_>, &mut Errors),
    /// Sets the server's own fields of a valid object.
    pub finish: fn(&mut Value, &Change<'_>),
    /// Whether the change from the live object (second) to the new one increments the generation.
    pub bumps_generation: fn(&Value, &Value) -> bool,
    /// Whether an update creates a missing object.
    pub allow_create_on_update: bool,
    /// Whether an update must name a resourceVersion.
    pub needs_resource_version: bool,
    /// Whether `/status` also changes labels and the like, as controllers do.
    pub status_updates_metadata: bool,
    /// Restores fields of the new object that `/status` can't change, from the live one.
    pub reset_on_status_update: fn(&mut Value, &Value),

    pub columns: &'static [Column],
    /// Fields for field selectors beside name and namespace, if there are any.
    pub selectable: Option<&'static [SelectableField]>,
    pub deletion: Deletion,
}

/// A group, version and kind.
pub type Gvk<'a> = (&'a str, &'a str, &'a str);

/// A subresource: its name, the kind of its requests and answers, and its verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource<'a> {
    pub name: &'static str,
    pub response: Gvk<'a>,
    pub verbs: &'static [&'static str],
}

/// The write that led to an object.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The object before the write; `None` for a create.
    pub old: Option<&'a Value>,
    /// Empty for the main resource.
    pub subresource: &'a str,
    /// The time of the write, in RFC 3339.
    pub now: &'a str,
}

/// How objects of a kind are deleted.
#[derive(Debug)]
pub struct Deletion {
    /// Why an object of this name can't be deleted.
    pub refusal: fn(&str) -> Option<&'static str>,
    /// The grace period in seconds, from the object and the period in the request. A kind without
    /// this function has no grace period in its metadata.
    pub grace: Option<fn(&Value, Option<i64>) -> i64>,
    /// Changes other fields when an object is marked as deleted.
    pub mark: fn(&mut Value),
    /// The finalizer that holds an object while the table of its name has records.
    pub content_finalizer: Option<&'static str>,
    /// Whether anything beside finalizers and the grace period holds an object.
    pub is_held: fn(&Value) -> bool,
    /// Whether an object can go only when the namespace of its name is empty.
    pub needs_empty_namespace: bool,
    pub answer: Answer,
}

/// The answer to a delete that removes the object at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A Status.
    Status,
    /// The object as it was.
    Object,
    /// The object with the mark, though the mark was never stored.
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

/// Adds a schema to the generator, and returns a reference to it.
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
        admit_create: |_| {},
        admit_update: |_| {},
        initial_status: || json!({}),
        check: |_, _, _| {},
        finish: |_, _| {},
        bumps_generation: |new, live| new["spec"] != live["spec"],
        allow_create_on_update: false,
        needs_resource_version: false,
        status_updates_metadata: true,
        reset_on_status_update: |_, _| {},
        columns: columns::PLAIN,
        selectable: None,
        deletion: Deletion::PLAIN,
    };
}
