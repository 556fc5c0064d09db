//! Groups of the Kubernetes community need an annotation that says who approved the API.

use serde_json::Value;

use crate::schema::format;
use crate::status::{FieldError, Path};

const ANNOTATION: &str = "api-approved.kubernetes.io";
const POLICY: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

#[derive(PartialEq, Eq)]
enum State {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

pub(super) fn check(definition: &Value, old: Option<&Value>) -> Option<FieldError> {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    let protected = |suffix: &str| group == suffix || group.ends_with(&format!(".{suffix}"));
    if !protected("k8s.io") && !protected("kubernetes.io") {
        return None;
    }
    let now = state(definition);
    if old.is_some_and(|old| state(old) == now) {
        return None;
    }
    let field = Path::new("metadata.annotations").key(ANNOTATION);
    let rule = format!("protected groups must have approval annotation {ANNOTATION:?}");
    match now {
        State::Approved | State::Bypassed => None,
        State::Missing => Some(FieldError::required(field, format!("{rule}, {POLICY}"))),
        State::Invalid => Some(FieldError::invalid(
            field,
            annotation(definition).into(),
            format!("{rule} with either a URL or a reason starting with \"unapproved\", {POLICY}"),
        )),
    }
}

fn annotation(definition: &Value) -> &str {
    definition["metadata"]["annotations"][ANNOTATION]
        .as_str()
        .unwrap_or_default()
}

fn state(definition: &Value) -> State {
    let text = annotation(definition);
    let has_host = || format::scheme(text).is_some_and(|(_, rest)| rest.starts_with("//") && rest.len() > 2);
    if text.is_empty() {
        State::Missing
    } else if text.starts_with("unapproved") {
        State::Bypassed
    } else if format::is_request_uri(text) && has_host() {
        State::Approved
    } else {
        State::Invalid
    }
}
