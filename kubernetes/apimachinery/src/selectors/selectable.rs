//! The fields of a kind that field selectors can use.

use std::borrow::Cow;

/// A field that selectors can use, by its name there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    name: Cow<'static, str>,
    /// The paths of its value, if it is not at `name`. The first path with a value counts.
    paths: &'static [&'static str],
    /// What a missing value counts as.
    missing: &'static str,
}

impl SelectableField {
    pub const fn new(name: &'static str) -> Self {
        Self::stored_at(name, &[])
    }

    /// A field with other paths in the stored form of an object.
    pub const fn stored_at(name: &'static str, paths: &'static [&'static str]) -> Self {
        Self {
            name: Cow::Borrowed(name),
            paths,
            missing: "",
        }
    }

    /// A boolean: absent is false.
    pub const fn flag(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            paths: &[],
            missing: "false",
        }
    }

    /// What a missing value counts as.
    pub const fn or(mut self, missing: &'static str) -> Self {
        self.missing = missing;
        self
    }

    /// A field of a custom resource, by its path: `.spec.use`.
    pub fn of_path(path: &str) -> Self {
        let name = path.trim_start_matches('.').to_owned();
        Self {
            name: Cow::Owned(name),
            paths: &[],
            missing: "",
        }
    }
}

/// The fields that selectors can use, beside `metadata.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selectable {
    /// The kind lists its fields, maybe none. `namespaced`: it also has `metadata.namespace`.
    Listed {
        namespaced: bool,
        fields: Vec<SelectableField>,
    },
    /// The kind has no list: selectors can use its name and namespace, even if it is
    /// cluster-scoped.
    Metadata,
}

/// The paths of a value, and what a missing one counts as.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) paths: Vec<Vec<String>>,
    pub(super) missing: &'static str,
}

impl Selectable {
    /// The source of `field`, or why selectors can't use it.
    pub(super) fn source(&self, field: &str) -> Result<Source, String> {
        let path = |text: &str| -> Vec<String> { text.split('.').map(str::to_owned).collect() };
        let plain = Source {
            paths: vec![path(field)],
            missing: "",
        };
        let (namespaced, fields) = match (self, field) {
            (_, "metadata.name") | (Self::Metadata, "metadata.namespace") => return Ok(plain),
            (Self::Metadata, _) => {
                return Err(format!(
                    "{field:?} is not a known field selector: \
                     only \"metadata.name\", \"metadata.namespace\""
                ));
            }
            (Self::Listed { namespaced, fields }, _) => (*namespaced, fields),
        };
        if field == "metadata.namespace" && namespaced {
            return Ok(plain);
        }
        match fields.iter().find(|known| known.name == field) {
            None => Err(format!("field label not supported: {field}")),
            Some(known) if known.paths.is_empty() => Ok(Source {
                missing: known.missing,
                ..plain
            }),
            Some(known) => Ok(Source {
                paths: known.paths.iter().map(|text| path(text)).collect(),
                missing: known.missing,
            }),
        }
    }
}
