//! Forms that people fill in: the errors of a form, its effect, and the document to write. Pure:
//! the rules are those of [`berth_api::machines`], which the controllers use, too.

pub mod cluster;
pub mod machine;
mod overlap;

use berth_api::Count;
use kube::core::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The state of an object that a form was filled in for. A write of its status changes neither
/// field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Version {
    pub uid: String,
    pub generation: i64,
}

impl Version {
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
        }
    }
}

/// An error: the field, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldError {
    pub field: String,
    pub message: String,
    /// The row that the field is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<usize>,
}

impl FieldError {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        let field = field.into();
        Self {
            row: row_of(&field),
            message: message.into(),
            field,
        }
    }

    /// Makes a `FieldError` from an error whose text begins with its field.
    fn of(field: &str, error: &impl ToString) -> Self {
        let text = error.to_string();
        let message = text.strip_prefix(field).and_then(|rest| rest.strip_prefix(": "));
        Self::new(field, message.unwrap_or(&text))
    }
}

/// `spec.machineNetworks[2].gateway` is in row 2. The numbers of name servers are not rows.
fn row_of(field: &str) -> Option<usize> {
    let lists = ["machineNetworks[", "cidrBlocks[", "addresses["];
    let (_, rest) = lists.iter().find_map(|list| field.split_once(list))?;
    rest.split_once(']')?.0.parse().ok()
}

/// The notes about one row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// How many machines can have an address of this row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<Count>,
    pub notes: Vec<String>,
    pub warnings: Vec<String>,
}

/// The result of checking a form.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    pub errors: Vec<FieldError>,
    pub rows: Vec<Row>,
    /// How many machines can have an address in all; `None` while a row is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<Count>,
    pub has_changes: bool,
    /// The document to apply; empty if there is nothing to apply.
    pub yaml: String,
    /// Why the form is out of date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
    #[serde(skip)]
    pub document: Value,
}

impl Checked {
    pub fn may_be_written(&self) -> bool {
        self.errors.is_empty() && self.conflict.is_none() && self.has_changes
    }

    fn show(&mut self, document: Value) {
        // A document of texts, lists and objects can always be written.
        self.yaml = serde_saphyr::to_string(&document).unwrap_or_default();
        self.document = document;
        self.has_changes = true;
    }
}

/// Whether the object is still in the state that the form was filled in for. `what` is its kind and
/// name.
fn conflict(what: &str, live: Option<&ObjectMeta>, form: Option<&Version>) -> Option<String> {
    match (live.map(Version::of), form) {
        (Some(live), Some(form)) if live == *form => None,
        (None, None) => None,
        (Some(live), Some(form)) if live.uid == form.uid => Some(format!(
            "Somebody else has changed {what} since this form read it. Nothing was written: load \
             it again, and fill in what is still of use."
        )),
        (Some(_), Some(_)) => Some(format!(
            "{what} was deleted, and another one of its name made, since this form read it. \
             Nothing was written: load it again."
        )),
        (None, Some(_)) => Some(format!("{what} is not there any more. Nothing was written.")),
        (Some(_), None) => Some(format!("There is a {what} already: choose another name.")),
    }
}

/// Merges as a merge patch does, for objects without nulls.
fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (name, value) in patch {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_names_its_row() {
        assert_eq!(row_of("spec.machineNetworks[2].dnsServers[1]"), Some(2));
        assert_eq!(row_of("spec.machineNetwork.cidrBlocks[0]"), Some(0));
        assert_eq!(row_of("spec.providerConfig.network.addresses[1].cidr"), Some(1));
        assert_eq!(row_of("spec.machineNetwork.dnsServers[3]"), None);
        assert_eq!(row_of("spec.machineNetwork"), None);
    }

    #[test]
    fn a_form_is_good_for_the_state_that_it_was_filled_in_for() {
        let metadata = |uid: &str, generation| ObjectMeta {
            uid: Some(uid.to_owned()),
            generation: Some(generation),
            ..ObjectMeta::default()
        };
        let form = Version::of(&metadata("a", 1));
        let verdict = |live: Option<ObjectMeta>, form: Option<&Version>| {
            conflict("Machine m", live.as_ref(), form).unwrap_or_default()
        };
        assert_eq!(verdict(Some(metadata("a", 1)), Some(&form)), "");
        assert_eq!(verdict(None, None), "");
        assert!(verdict(Some(metadata("a", 2)), Some(&form)).contains("has changed Machine m"));
        assert!(verdict(Some(metadata("b", 1)), Some(&form)).contains("was deleted"));
        assert!(verdict(None, Some(&form)).contains("not there any more"));
        assert!(verdict(Some(metadata("a", 1)), None).contains("already"));
    }
}
