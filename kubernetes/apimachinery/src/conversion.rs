//! Conversion between the stored and the served form of an object. The forms differ in two ways:
//! some fields are stored under other names, or a custom resource is served in another version than
//! the stored one.

use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    None,
    /// Stored in the form of another kind.
    Fields(StoredFields),
    /// Stored with this apiVersion, otherwise the same.
    Version(String),
}

/// The stored form of objects that several kinds serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredFields {
    pub table: &'static str,
    pub api_version: &'static str,
    /// Pairs of stored name and served name.
    pub names: &'static [(&'static str, &'static str)],
}

impl Conversion {
    /// `served` is the apiVersion of the request.
    pub fn to_served(&self, object: &mut Value, served: &str) {
        match self {
            Self::None => return,
            Self::Fields(fields) => rename(object, |name| {
                fields
                    .names
                    .iter()
                    .find(|(stored, _)| *stored == name)
                    .map(|(_, to)| *to)
            }),
            Self::Version(_) => {}
        }
        object["apiVersion"] = served.into();
    }

    pub fn to_stored(&self, object: &mut Value) {
        match self {
            Self::None => {}
            Self::Fields(fields) => {
                rename(object, |name| {
                    fields
                        .names
                        .iter()
                        .find(|(_, served)| *served == name)
                        .map(|(to, _)| *to)
                });
                object["apiVersion"] = fields.api_version.into();
            }
            Self::Version(stored) => object["apiVersion"] = stored.as_str().into(),
        }
    }
}

fn rename(object: &mut Value, new_name: impl Fn(&str) -> Option<&'static str>) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let old: Map<String, Value> = std::mem::take(fields);
    for (name, value) in old {
        let renamed = new_name(&name).map(str::to_owned);
        fields.insert(renamed.unwrap_or(name), value);
    }
}
