//! A kind as the rest of the server uses it, built-in or custom.

use std::sync::Arc;

use berth_apimachinery::columns::Column;
use berth_apimachinery::conversion::Conversion;
use berth_apimachinery::metadata::{self, NameRule};
use berth_apimachinery::schema::Schema;
use berth_apimachinery::selectors::{Selectable, SelectableField};
use berth_apimachinery::shape::{self, Shape};
use berth_apimachinery::status::{FieldError, Subject};
use serde_json::Value;

use super::built_in::{BuiltIn, Change, Deletion, Gvk, MakeSchema, Subresource};

/// One served resource at one version, with all that the generic handlers need.
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
    /// Whether objects have a `metadata.generation`.
    pub generation: bool,
    pub names: NameRule,
    pub shape: Arc<Shape>,
    /// How to convert stored objects to served ones, where they differ.
    pub conversion: Conversion,
    pub source: Source,
}

/// Where the rules of a kind come from.
#[derive(Clone, Debug)]
pub enum Source {
    BuiltIn(&'static BuiltIn),
    Custom(Arc<Custom>),
}

/// The parts of a CustomResourceDefinition that its resources need, for one version.
#[derive(Clone, Debug)]
pub struct Custom {
    /// `openAPIV3Schema` of this version, as it stands in the definition.
    pub openapi: Value,
    /// The same, compiled with its CEL rules.
    pub schema: Schema,
    /// `additionalPrinterColumns` as they stand in the definition.
    pub columns: Vec<Value>,
    /// Fields that field selectors may name, from `selectableFields`: `.spec.use`.
    pub selectable: Vec<String>,
}

/// Where `/scale` finds its numbers: `.spec.replicas` and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

#[rustfmt::skip]
const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

impl Kind {
    pub fn built_in(kind: &'static BuiltIn) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let scale = ScalePaths {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            label_selector: Some(".spec.selector".to_owned()),
        };
        let shape = shape::builtin(kind.group, "v1", kind.kind);
        Self {
            group: kind.group.to_owned(),
            version: "v1".to_owned(),
            kind: kind.kind.to_owned(),
            plural: kind.plural.to_owned(),
            singular: kind.kind.to_lowercase(),
            short_names: owned(kind.short_names),
            categories: owned(kind.categories),
            namespaced: kind.namespaced,
            status: kind.status,
            scale: kind.scale.then_some(scale),
            generation: kind.generation,
            names: kind.names,
            shape: shape.unwrap_or_else(|| Arc::new(Shape::Any)),
            conversion: kind.stored.map_or(Conversion::None, Conversion::Fields),
            source: Source::BuiltIn(kind),
        }
    }

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

    fn rules(&self) -> Option<&'static BuiltIn> {
        match self.source {
            Source::BuiltIn(built_in) => Some(built_in),
            Source::Custom(_) => None,
        }
    }

    /// Fills in defaults.
    pub fn default(&self, object: &mut Value) {
        match &self.source {
            Source::BuiltIn(built_in) => (built_in.default)(object),
            Source::Custom(custom) => custom.schema.default(object),
        }
    }

    /// Mutating admission of a new object, and its first status.
    pub fn admit_create(&self, object: &mut Value) {
        let Some(built_in) = self.rules() else { return };
        (built_in.admit_create)(object);
        if self.status && object["status"].is_null() {
            object["status"] = (built_in.initial_status)();
        }
    }

    /// Mutating admission of every later change.
    pub fn admit_update(&self, object: &mut Value) {
        if let Some(built_in) = self.rules() {
            (built_in.admit_update)(object);
        }
    }

    pub fn check_metadata(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let rule = old.is_none().then_some(self.names);
        metadata::check(object, rule, self.status_updates_metadata())
    }

    /// All errors of an object, except those in its metadata.
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

    /// Sets the server's own fields of a valid object.
    pub fn finish(&self, object: &mut Value, change: &Change<'_>) {
        if let Some(built_in) = self.rules() {
            (built_in.finish)(object, change);
        }
    }

    /// Whether the change increments `metadata.generation`. A change of the status alone does not.
    pub fn bumps_generation(&self, new: &Value, live: &Value) -> bool {
        if let Some(built_in) = self.rules() {
            return (built_in.bumps_generation)(new, live);
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

    /// Whether an update creates a missing object.
    pub fn allows_create_on_update(&self) -> bool {
        self.rules().is_some_and(|kind| kind.allow_create_on_update)
    }

    /// Whether an update must name a resourceVersion.
    pub fn needs_resource_version(&self) -> bool {
        self.rules().is_none_or(|kind| kind.needs_resource_version)
    }

    /// Whether `/status` also changes labels and the like. Finalizers of such kinds must have a
    /// domain.
    pub fn status_updates_metadata(&self) -> bool {
        self.rules().is_some_and(|kind| kind.status_updates_metadata)
    }

    /// Restores fields that `/status` can't change.
    pub fn reset_on_status_update(&self, new: &mut Value, live: &Value) {
        if let Some(built_in) = self.rules() {
            (built_in.reset_on_status_update)(new, live);
        }
    }

    pub fn deletion(&self) -> &'static Deletion {
        self.rules().map_or(&Deletion::PLAIN, |kind| &kind.deletion)
    }

    /// The verbs of the main resource.
    pub fn verbs(&self) -> &'static [&'static str] {
        let all = self.rules().is_none_or(|kind| kind.delete_collection);
        if all {
            ALL_VERBS
        } else {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        }
    }

    /// The subresources, by name.
    pub fn subresources(&self) -> Vec<Subresource<'_>> {
        const CHANGE: &[&str] = &["get", "patch", "update"];
        let own = self.rules().map_or(&[][..], |kind| kind.subresources);
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
        self.rules().map(|kind| kind.schema)
    }

    /// The columns of a built-in kind.
    pub fn columns(&self) -> &'static [Column] {
        self.rules().map_or(&[], |kind| kind.columns)
    }

    /// The fields that field selectors can use.
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
