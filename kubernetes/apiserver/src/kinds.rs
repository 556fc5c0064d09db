//! The kinds that are served: built-in ones from a table, custom ones from the CustomResourceDefinitions in the store.

mod builtin;
mod convert;
mod custom_resource;
mod registry;
mod selectable;

pub use convert::Conversion;
#[cfg(test)]
pub use custom_resource::kinds as of_definition;
pub use registry::{DEFINITIONS, Registry};

use std::sync::Arc;

use serde_json::Value;

use berth_apimachinery::shape::Shape;
use berth_apimachinery::status::Subject;

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
    /// `/status` is a subresource: the main resource ignores changes of status, and the other way round.
    pub status: bool,
    /// JSON paths of `/scale`.
    pub scale: Option<ScalePaths>,
    /// `metadata.generation` counts changes of what is wanted.
    pub generation: bool,
    pub names: NameRule,
    pub shape: Arc<Shape>,
    /// From what is stored to what is served, where they differ.
    pub conversion: Conversion,
    /// What only a custom resource has.
    pub custom: Option<Arc<Custom>>,
}

/// What a name of this kind may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: most kinds.
    Subdomain,
    /// RFC 1123 label: namespaces.
    Label,
    /// RFC 1035 label: services.
    Label1035,
    /// Anything that can stand in a path: RBAC.
    Segment,
}

/// Where `/scale` finds its numbers: `.spec.replicas` and so on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

/// The parts of a CustomResourceDefinition that act on its resources, for one version.
#[derive(Clone, Debug)]
pub struct Custom {
    /// `openAPIV3Schema` of this version, as it stands in the definition.
    pub schema: Value,
    /// `additionalPrinterColumns` as they stand in the definition.
    pub columns: Vec<Value>,
    /// Fields that field selectors may name, from `selectableFields`: `.spec.use`.
    pub selectable: Vec<String>,
    /// The schema with its CEL rules compiled.
    pub rules: berth_apimachinery::schema::Schema,
}

impl Kind {
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            group: &self.group,
            resource: &self.plural,
            kind: &self.kind,
        }
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
        match self.conversion {
            Conversion::Events => "events".to_owned(),
            _ if self.group.is_empty() => self.plural.clone(),
            _ => format!("{}.{}", self.plural, self.group),
        }
    }

    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}
