//! Label selectors and field selectors.
//!
//! Objects are stored as JSON text, and a list checks thousands of them. So a `Matcher` reads only
//! the values that its terms need, borrowed from that text, and stops reading once it has them.

mod fields;
mod labels;
mod pick;
mod selectable;

pub use labels::{Labels, Requirement};
pub use selectable::{Selectable, SelectableField};

use crate::status::{Result, Status};

/// The parsed selectors of one request, for objects of one kind.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    terms: Vec<Term>,
    wanted: pick::Wanted,
    single_name: Option<String>,
    single_node: Option<String>,
}

#[derive(Clone, Debug)]
enum Term {
    Label {
        slot: usize,
        requirement: Requirement,
    },
    /// The first of `slots` with a value counts, else `missing`.
    Field {
        slots: Vec<usize>,
        missing: &'static str,
        value: String,
        equal: bool,
    },
}

impl Matcher {
    /// `label` and `field` are the percent-decoded query parameters. `known` has the fields that
    /// the kind's field selectors can use.
    pub fn new(label: Option<&str>, field: Option<&str>, known: &Selectable) -> Result<Self> {
        let mut matcher = Self::default();
        let labels = Labels::parse(label.unwrap_or_default()).map_err(Status::bad_request)?;
        for requirement in labels.requirements {
            let slot = matcher.wanted.add(&["metadata", "labels", requirement.key()]);
            matcher.terms.push(Term::Label { slot, requirement });
        }
        let parsed = fields::parse(field.unwrap_or_default()).map_err(Status::bad_request)?;
        for term in parsed {
            let source = known.source(&term.field).map_err(Status::bad_request)?;
            if term.field == "metadata.name" && term.equal {
                matcher.single_name = Some(term.value.clone());
            }
            if term.field == "spec.nodeName" && term.equal && !term.value.is_empty() {
                matcher.single_node = Some(term.value.clone());
            }
            matcher.terms.push(Term::Field {
                slots: source.paths.iter().map(|path| matcher.wanted.add(path)).collect(),
                missing: source.missing,
                value: term.value,
                equal: term.equal,
            });
        }
        Ok(matcher)
    }

    /// Whether there is no term, so that everything matches.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The only name that can match, if the selector has `metadata.name=`.
    pub fn single_name(&self) -> Option<&str> {
        self.single_name.as_deref()
    }

    /// The only node whose pods can match, if the selector has `spec.nodeName=`.
    pub fn single_node(&self) -> Option<&str> {
        self.single_node.as_deref()
    }

    /// Whether the object in this JSON text matches. Text that is not a JSON object has no labels
    /// and no fields.
    pub fn matches(&self, json: &[u8]) -> bool {
        if self.is_everything() {
            return true;
        }
        let found = self.wanted.find(json);
        self.terms.iter().all(|term| match term {
            Term::Label { slot, requirement } => requirement.accepts(found.get(*slot)),
            Term::Field {
                slots,
                missing,
                value,
                equal,
            } => {
                let given = slots
                    .iter()
                    .filter_map(|slot| found.get(*slot))
                    .find(|text| !text.is_empty());
                (given.unwrap_or(missing) == value) == *equal
            }
        })
    }
}

/// The node that the pod in this JSON text is bound to.
pub fn node_of(json: &[u8]) -> Option<Box<str>> {
    let mut wanted = pick::Wanted::default();
    let slot = wanted.add(&["spec", "nodeName"]);
    wanted.find(json).get(slot).map(Into::into)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known() -> Selectable {
        Selectable::Listed {
            namespaced: true,
            fields: vec![
                SelectableField::new("spec.nodeName"),
                SelectableField::stored_at("spec.host", &["spec.nodeName"]),
                SelectableField::flag("spec.hostNetwork"),
                SelectableField::new("status.phase"),
            ],
        }
    }

    fn matcher(label: &str, field: &str) -> Matcher {
        Matcher::new(Some(label), Some(field), &known()).unwrap()
    }

    #[test]
    fn labels_and_fields_must_both_match() {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "n", "labels": {"app": "web"}},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Running"},
        });
        let text = pod.to_string();
        let matches = |label, field| matcher(label, field).matches(text.as_bytes());
        assert!(matches("app=web", "spec.nodeName=node-1,status.phase!=Failed"));
        assert!(!matches("app=web", "spec.nodeName=node-2"));
        assert!(!matches("app!=web", "spec.nodeName=node-1"));
        assert!(matches("", "metadata.name=a,metadata.namespace=n"));
        assert!(matches("", "spec.host=node-1"));
    }

    #[test]
    fn a_field_that_is_left_out_counts_as_its_zero() {
        let object = br#"{"metadata":{"name":"a"},"spec":{}}"#;
        assert!(matcher("", "spec.hostNetwork=false,spec.nodeName=").matches(object));
    }

    #[test]
    fn an_unsupported_field_is_refused_in_kube_apiservers_words() {
        let refused = |known: &Selectable, field| {
            let status = Matcher::new(None, Some(field), known).unwrap_err();
            assert_eq!((status.code, status.reason), (400, "BadRequest"));
            status.message
        };
        assert_eq!(refused(&known(), "spec.foo=x"), "field label not supported: spec.foo");
        let cluster = Selectable::Listed {
            namespaced: false,
            fields: Vec::new(),
        };
        assert_eq!(
            refused(&cluster, "metadata.namespace=x"),
            "field label not supported: metadata.namespace"
        );
        assert_eq!(
            refused(&Selectable::Metadata, "data=x"),
            "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
    }

    #[test]
    fn no_selector_matches_everything() {
        let matcher = matcher("", "");
        assert!(matcher.is_everything());
        assert!(matcher.matches(b"{}"));
    }

    #[test]
    fn a_name_is_known_only_where_the_selector_pins_it() {
        let name = |field| matcher("", field).single_name().map(str::to_owned);
        assert_eq!(name("metadata.name=a,status.phase=Running"), Some("a".to_owned()));
        assert_eq!(name("metadata.name!=a"), None);
    }
}
