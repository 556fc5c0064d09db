//! Request bodies: read within limits, decoded by content type, held against the kind.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde_json::Value;

use super::Call;
use super::params::FieldValidation;
use crate::kinds::Kind;
use crate::resources::name_of;
use berth_apimachinery::protobuf;
use berth_apimachinery::shape::{self, strict};
use berth_apimachinery::status::{FieldError, Path, Result, Status, Subject};

/// As kube-apiserver.
const LARGEST_BODY: usize = 3 << 20;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPTED: &[&str] = &["application/json", "application/yaml", PROTOBUF];

/// Of a body that is refused, so much more is taken and thrown away, for so long. A connection that
/// is closed on a client that still writes takes the answer with it.
const MAX_DISCARDED: usize = 32 << 20;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(30);

pub async fn read(mut body: Body) -> Result<Bytes> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::bad_request(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if read.len() + data.len() > LARGEST_BODY {
            // The answer does not wait for it.
            tokio::spawn(tokio::time::timeout(DISCARD_TIMEOUT, discard(body)));
            return Err(Status::too_large(format!(
                "Request entity too large: limit is {LARGEST_BODY}"
            )));
        }
        read.extend_from_slice(&data);
    }
    Ok(read.freeze())
}

async fn discard(mut body: Body) {
    let mut discarded = 0;
    while let Some(Ok(frame)) = body.frame().await {
        discarded += frame.data_ref().map_or(0, Bytes::len);
        if discarded > MAX_DISCARDED {
            return;
        }
    }
}

pub fn content_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("application/json");
    value.split(';').next().unwrap_or_default().trim()
}

/// A body as it was sent: not yet held against any kind. What was given twice in it is told.
pub struct Sent {
    pub value: Value,
    pub duplicates: Vec<String>,
}

pub fn parse(headers: &HeaderMap, bytes: &[u8]) -> Result<Sent> {
    let plain = |value| Sent {
        value,
        duplicates: Vec::new(),
    };
    match content_type(headers) {
        "application/json" => parse_json(bytes),
        "application/yaml" => parse_yaml(bytes),
        PROTOBUF => protobuf::decode(bytes, |api_version, kind| {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            shape::builtin(group, version, kind)
        })
        .map(plain)
        .map_err(|error| Status::bad_request(error.to_string())),
        other => Err(Status::unsupported_media_type(other, ACCEPTED)),
    }
}

pub fn parse_json(bytes: &[u8]) -> Result<Sent> {
    let parsed = strict::parse_json(bytes);
    let (value, duplicates) =
        parsed.map_err(|error| Status::bad_request(format!("couldn't get version/kind; json parse error: {error}")))?;
    let duplicates = duplicates
        .iter()
        .map(|path| format!("duplicate field {path:?}"))
        .collect();
    Ok(Sent { value, duplicates })
}

/// Of keys that are given twice the last one counts, and the first such key is told.
pub fn parse_yaml(bytes: &[u8]) -> Result<Sent> {
    let refused = |why: &dyn std::fmt::Display| Status::bad_request(format!("error converting YAML to JSON: {why}"));
    let text = std::str::from_utf8(bytes).map_err(|error| refused(&error))?;
    let mut duplicates = Vec::new();
    let value = match serde_saphyr::from_str(text) {
        Err(error) => {
            if let serde_saphyr::Error::DuplicateMappingKey { key, location } = error.without_snippet() {
                let key = key.as_deref().unwrap_or_default();
                duplicates.push(format!("line {}: key {key:?} already set in map", location.line()));
                let last =
                    serde_saphyr::options! { duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins };
                serde_saphyr::from_str_with_options(text, last)
            } else {
                Err(error)
            }
        }
        parsed => parsed,
    };
    let value = value.map_err(|error| refused(&error))?;
    Ok(Sent { value, duplicates })
}

/// An object of the kind that the path names, and what the client should be warned of.
pub struct Decoded {
    pub object: Value,
    pub warnings: Vec<String>,
}

pub async fn object(call: &Call, body: Body) -> Result<Decoded> {
    let bytes = read(body).await?;
    let sent = parse(&call.headers, &bytes)?;
    conform(&call.kind, sent, call.params.field_validation)
}

/// Holds an object against its kind: right version, known fields, right types.
pub fn conform(kind: &Kind, sent: Sent, validation: FieldValidation) -> Result<Decoded> {
    let mut object = sent.value;
    check_type(kind, &mut object)?;
    let mut problems = sent.duplicates;
    problems.extend(strictly(kind, &mut object)?);
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

/// Drops what the kind does not know, and says what that was.
fn strictly(kind: &Kind, object: &mut Value) -> Result<Vec<String>> {
    let unknown = match &kind.custom {
        Some(custom) => {
            let mut unknown = strict::metadata(object, &kind.shape, &kind.version, &kind.kind)?;
            unknown.extend(custom.rules.prune(object));
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
    if kind.custom.is_some() && !name.is_empty() && name != kind.kind && version == expected {
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
            "{name} in version {:?} cannot be handled as a {}: converting ({version}.{name}) to ({expected}.{}): unknown conversion",
            kind.version, kind.kind, kind.kind
        )));
    }
    if !version.is_empty() && version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if kind.custom.is_some() && (name.is_empty() || version.is_empty()) {
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
