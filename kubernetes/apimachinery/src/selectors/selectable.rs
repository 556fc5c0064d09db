//! Which fields of a kind a field selector can ask for.

use std::borrow::Cow;

/// A field that selectors can ask for, by the name they call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    name: Cow<'static, str>,
    /// Where its value stands, if not under its name: the first path that has a value counts.
    paths: &'static [&'static str],
    /// What a missing value counts as.
    missing: &'static str,
}

impl SelectableField {
    pub const fn new(name: &'static str) -> Self {
        Self::stored_at(name, &[])
    }

    /// A field whose value stands elsewhere in the stored form of an object.
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

/// What can be asked for, beside `metadata.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selectable {
    /// The kind has a list of fields, be it empty. `namespaced`: it has `metadata.namespace` too.
    Listed {
        namespaced: bool,
        fields: Vec<SelectableField>,
    },
    /// The kind names none: its metadata is all there is, and a namespace can be asked for even
    /// where it has none.
    Metadata,
}

/// Where a value stands, and what a missing one counts as.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) paths: Vec<Vec<String>>,
    pub(super) missing: &'static str,
}

impl Selectable {
    /// Where the value of `field` stands, or why it cannot be asked for.
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
