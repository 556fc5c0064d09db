//! Decodes the body of a request into an object of a kind: right kind, known fields, right types.
//!
//! A patch is decoded twice: the body that was sent, and the patched object.

use berth_apimachinery::shape::strict;
use berth_apimachinery::status::{FieldError, Path, Result, Status, Subject};
use serde_json::Value;

use crate::kinds::Kind;

/// What to do with fields that the schema does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// A parsed body, not yet checked against a kind. `duplicates` describes fields given twice.
#[derive(Clone, Debug)]
pub struct Sent {
    pub value: Value,
    pub duplicates: Vec<String>,
}

/// An object of a kind, and warnings for the client.
#[derive(Debug)]
pub struct Decoded {
    pub object: Value,
    pub warnings: Vec<String>,
}

impl From<Value> for Decoded {
    fn from(object: Value) -> Self {
        Self {
            object,
            warnings: Vec::new(),
        }
    }
}

/// Checks an object against its kind: right version, known fields, right types.
pub fn decode_object(kind: &Kind, sent: Sent, validation: FieldValidation) -> Result<Decoded> {
    let mut object = sent.value;
    check_type(kind, &mut object)?;
    let mut problems = sent.duplicates;
    problems.extend(drop_unknown_fields(kind, &mut object)?);
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => problems,
        FieldValidation::Strict if problems.is_empty() => problems,
        FieldValidation::Strict => {
            let shown = problems.join(", ");
            return Err(Status::bad_request(format!("strict decoding error: {shown}")));
        }
    };
    Ok(Decoded { object, warnings })
}

/// Drops fields that the kind does not know. Returns a description of each.
fn drop_unknown_fields(kind: &Kind, object: &mut Value) -> Result<Vec<String>> {
    let unknown = match kind.custom() {
        Some(custom) => {
            let mut unknown = strict::metadata(object, &kind.shape, &kind.version, &kind.kind)?;
            unknown.extend(custom.schema.prune(object));
            unknown
        }
        None => strict::normalize(object, &kind.shape, &kind.version, &kind.kind)?,
    };
    Ok(unknown.iter().map(|path| format!("unknown field {path:?}")).collect())
}

fn check_type(kind: &Kind, object: &mut Value) -> Result<()> {
    let expected = kind.api_version();
    if !object.is_object() {
        return Err(Status::bad_request(
            "couldn't get version/kind; json parse error: the body is not an object",
        ));
    }
    let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    let (version, name) = (text("apiVersion"), text("kind"));
    if kind.is_custom() && !name.is_empty() && name != kind.kind && version == expected {
        let error = FieldError::invalid(
            Path::new("kind"),
            name.as_str().into(),
            format!("must be {}", kind.kind),
        );
        let subject = Subject {
            kind: &name,
            ..kind.subject()
        };
        return Err(Status::invalid(subject, name_of(object), &[error]));
    }
    if !name.is_empty() && name != kind.kind {
        return Err(Status::bad_request(format!(
            "{name} in version {:?} cannot be handled as a {}: converting \
             ({version}.{name}) to ({expected}.{}): unknown conversion",
            kind.version, kind.kind, kind.kind
        )));
    }
    if !version.is_empty() && version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API \
             version ({expected})"
        )));
    }
    if kind.is_custom() && (name.is_empty() || version.is_empty()) {
        let missing = if name.is_empty() { "Kind" } else { "apiVersion" };
        return Err(Status::bad_request(format!(
            "Object '{missing}' is missing in the body: send apiVersion {expected} and kind {}",
            kind.kind
        )));
    }
    object["apiVersion"] = expected.into();
    object["kind"] = kind.kind.as_str().into();
    Ok(())
}

/// An object in a request must be the one that the path names.
pub fn check_name_and_namespace(
    kind: &Kind,
    namespace: &str,
    name: &str,
    object: &Value,
) -> Result<()> {
    check_name(name, object)?;
    check_namespace(kind, namespace, object)
}

pub fn check_name(name: &str, object: &Value) -> Result<()> {
    match name_of(object) {
        "" => Err(name_required(name)),
        given if given == name => Ok(()),
        given => Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        ))),
    }
}

pub fn name_required(name: &str) -> Status {
    Status::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// An object may repeat the path's namespace, but must not name another one.
pub fn check_namespace(kind: &Kind, namespace: &str, object: &Value) -> Result<()> {
    let given = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if kind.namespaced && !given.is_empty() && given != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
