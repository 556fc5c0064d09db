//! The kinds that can be served.
//!
//! What is special about a built-in kind stands in one file, `kinds/<kind>.rs`, as a `BuiltIn`:
//! names, defaults, admission, checks, columns, selectable fields, deletion. What is special about
//! a custom resource stands in its CustomResourceDefinition. The rest of the server asks a `Kind`
//! and does not know which of the two it has.

mod built_in;
mod cluster_role;
mod cluster_role_binding;
mod config_map;
mod conversion;
mod custom_resource;
mod custom_resource_definition;
mod daemon_set;
mod deployment;
mod event;
mod lease;
mod namespace;
mod node;
mod pod;
mod replica_set;
mod role;
mod role_binding;
mod secret;
mod service;
mod service_account;
mod service_cidr;
#[cfg(test)]
mod tests;
mod validating_admission_policy;
mod validating_admission_policy_binding;

pub use built_in::{Answer, Change, Deletion, MakeSchema, schema_of};
pub use conversion::Conversion;
pub use custom_resource::{Custom, kinds as of_definition};
pub use custom_resource_definition::{CONTENT_FINALIZER, TABLE as DEFINITIONS};

use std::sync::Arc;

use berth_apimachinery::selectors::{Selectable, SelectableField};
use berth_apimachinery::shape::Shape;
use berth_apimachinery::status::{FieldError, Subject};
use serde_json::Value;

use crate::rules::metadata::{self, NameRule};
use built_in::BuiltIn;

/// In the order in which discovery names their groups.
const BUILT_IN: &[&BuiltIn] = &[
    &config_map::KIND,
    &event::KIND,
    &namespace::KIND,
    &node::KIND,
    &pod::KIND,
    &secret::KIND,
    &service::KIND,
    &service_account::KIND,
    &daemon_set::KIND,
    &deployment::KIND,
    &replica_set::KIND,
    &event::NEWER_KIND,
    &service_cidr::KIND,
    &cluster_role_binding::KIND,
    &cluster_role::KIND,
    &role_binding::KIND,
    &role::KIND,
    &validating_admission_policy::KIND,
    &validating_admission_policy_binding::KIND,
    &custom_resource_definition::KIND,
    &lease::KIND,
];

/// The kinds that are served whatever the store holds.
pub fn built_in() -> Vec<Arc<Kind>> {
    BUILT_IN.iter().map(|kind| Arc::new(kind.served())).collect()
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

/// One served resource at one version: all that the generic handlers need to know of it.
#[derive(Clone, Debug)]
pub struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// `/status` is a subresource: the main resource ignores changes of status, and the other way
    /// round.
    pub status: bool,
    /// JSON paths of `/scale`.
    pub scale: Option<ScalePaths>,
    /// `metadata.generation` counts changes of what is wanted.
    pub generation: bool,
    pub names: NameRule,
    pub shape: Arc<Shape>,
    /// From what is stored to what is served, where they differ.
    pub conversion: Conversion,
    pub source: Source,
}

/// Where the rules of a kind come from.
#[derive(Clone, Debug)]
pub enum Source {
    BuiltIn(&'static BuiltIn),
    Custom(Arc<Custom>),
}

/// Where `/scale` finds its numbers: `.spec.replicas` and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

impl Kind {
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            group: &self.group,
            resource: &self.plural,
            kind: &self.kind,
        }
    }

    pub fn gvk(&self) -> Gvk<'_> {
        (&self.group, &self.version, &self.kind)
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Where its objects are stored: the same for every version.
    pub fn table(&self) -> String {
        match &self.conversion {
            Conversion::Fields(stored) => stored.table.to_owned(),
            _ if self.group.is_empty() => self.plural.clone(),
            _ => format!("{}.{}", self.plural, self.group),
        }
    }

    pub fn custom(&self) -> Option<&Custom> {
        match &self.source {
            Source::BuiltIn(_) => None,
            Source::Custom(custom) => Some(custom),
        }
    }

    pub fn is_custom(&self) -> bool {
        self.custom().is_some()
    }

    fn built_in(&self) -> Option<&'static BuiltIn> {
        match self.source {
            Source::BuiltIn(built_in) => Some(built_in),
            Source::Custom(_) => None,
        }
    }

    /// Fills in what is not given.
    pub fn default(&self, object: &mut Value) {
        match &self.source {
            Source::BuiltIn(built_in) => (built_in.default)(object),
            Source::Custom(custom) => custom.schema.default(object),
        }
    }

    /// Adds what the server gives a new object.
    pub fn admit(&self, object: &mut Value) {
        let Some(built_in) = self.built_in() else { return };
        (built_in.admit)(object);
        if self.status && object["status"].is_null() {
            object["status"] = (built_in.first_status)();
        }
    }

    /// Adds what the server gives an object on every later change.
    pub fn readmit(&self, object: &mut Value) {
        if let Some(built_in) = self.built_in() {
            (built_in.readmit)(object);
        }
    }

    pub fn check_metadata(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let rule = old.is_none().then_some(self.names);
        metadata::check(object, rule, self.opens_metadata())
    }

    /// All that is wrong with an object, apart from its metadata.
    pub fn check(&self, object: &Value, change: &Change<'_>) -> Vec<FieldError> {
        match &self.source {
            Source::BuiltIn(built_in) => {
                let mut errors = Vec::new();
                (built_in.check)(object, change, &mut errors);
                errors
            }
            Source::Custom(custom) => custom.schema.validate(object, change.old),
        }
    }

    /// Writes what the server says of an object that it accepts.
    pub fn finish(&self, object: &mut Value, change: &Change<'_>) {
        if let Some(built_in) = self.built_in() {
            (built_in.finish)(object, change);
        }
    }

    /// Whether what is wanted (not what is) has changed: then the generation grows.
    pub fn wants_other(&self, new: &Value, live: &Value) -> bool {
        if let Some(built_in) = self.built_in() {
            return (built_in.wants_other)(new, live);
        }
        let wanted = |object: &Value| {
            let mut object = object.clone();
            if let Some(fields) = object.as_object_mut() {
                fields.remove("metadata");
                if self.status {
                    fields.remove("status");
                }
            }
            object
        };
        wanted(new) != wanted(live)
    }

    /// Whether an update makes what is not there yet.
    pub fn is_made_by_update(&self) -> bool {
        self.built_in().is_some_and(|kind| kind.made_by_update)
    }

    /// Whether an update has to name the version that it is meant for.
    pub fn needs_version(&self) -> bool {
        self.built_in().is_none_or(|kind| kind.needs_version)
    }

    /// Whether `/status` changes labels and the like too. Such kinds also want finalizers with a
    /// domain.
    pub fn opens_metadata(&self) -> bool {
        self.built_in().is_some_and(|kind| kind.opens_metadata)
    }

    /// Takes back what `/status` can't change.
    pub fn confine_status(&self, new: &mut Value, live: &Value) {
        if let Some(built_in) = self.built_in() {
            (built_in.confine_status)(new, live);
        }
    }

    pub fn deletion(&self) -> &'static Deletion {
        self.built_in().map_or(&Deletion::PLAIN, |kind| &kind.deletion)
    }

    /// Whether all objects of a namespace can be deleted at once.
    pub fn has_delete_collection(&self) -> bool {
        self.built_in().is_none_or(|kind| kind.delete_collection)
    }

    /// The subresources, by name.
    pub fn subresources(&self) -> Vec<Subresource<'_>> {
        const CHANGE: &[&str] = &["get", "patch", "update"];
        let own = self.built_in().map_or(&[][..], |kind| kind.subresources);
        let mut found: Vec<Subresource<'_>> = own.to_vec();
        let mut add = |name, response| {
            found.push(Subresource {
                name,
                response,
                verbs: CHANGE,
            })
        };
        if self.scale.is_some() {
            add("scale", ("autoscaling", "v1", "Scale"));
        }
        if self.status {
            add("status", self.gvk());
        }
        found
    }

    /// How the OpenAPI schema of a built-in kind is made.
    pub fn make_schema(&self) -> Option<MakeSchema> {
        self.built_in().map(|kind| kind.schema)
    }

    /// The columns of a built-in kind.
    pub fn columns(&self) -> &'static [crate::columns::Column] {
        self.built_in().map_or(&[], |kind| kind.columns)
    }

    /// What field selectors can ask for.
    pub fn selectable(&self) -> Selectable {
        let namespaced = self.namespaced;
        match &self.source {
            Source::Custom(custom) => {
                let paths = custom.selectable.iter();
                let fields = paths.map(|path| SelectableField::of_path(path)).collect();
                Selectable::Listed { namespaced, fields }
            }
            Source::BuiltIn(built_in) => match built_in.selectable {
                None => Selectable::Metadata,
                Some(fields) => Selectable::Listed {
                    namespaced,
                    fields: fields.to_vec(),
                },
            },
        }
    }
}
