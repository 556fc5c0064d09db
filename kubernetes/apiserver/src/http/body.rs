//! Request bodies: read within limits, and parsed by content type.

use std::time::Duration;

use axum::body::Body;
use berth_apimachinery::protobuf;
use berth_apimachinery::shape::{self, strict};
use berth_apimachinery::status::{Result, Status};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use serde_json::Value;

use super::call::Call;
use crate::decode::{self, Decoded, Sent};

/// As kube-apiserver.
const LARGEST_BODY: usize = 3 << 20;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const ACCEPTED: &[&str] = &["application/json", "application/yaml", PROTOBUF];

/// How much more of a body that is too large is read and discarded, and for how long. If the server
/// closed the connection while the client still writes, the client would not see the answer.
const MAX_DISCARDED: usize = 32 << 20;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(30);

pub async fn read(mut body: Body) -> Result<Bytes> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::bad_request(error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if read.len() + data.len() > LARGEST_BODY {
            // Discarded in the background: the answer does not wait for it.
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
    let (value, duplicates) = parsed.map_err(|error| {
        Status::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
    })?;
    let duplicates = duplicates
        .iter()
        .map(|path| format!("duplicate field {path:?}"))
        .collect();
    Ok(Sent { value, duplicates })
}

/// If keys are given twice, the last value counts, and the first such key is reported.
pub fn parse_yaml(bytes: &[u8]) -> Result<Sent> {
    if let Some(value) = json_in_yaml(bytes) {
        return Ok(Sent {
            value,
            duplicates: Vec::new(),
        });
    }
    let refused = |why: &dyn std::fmt::Display| {
        Status::bad_request(format!("error converting YAML to JSON: {why}"))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| refused(&error))?;
    let mut duplicates = Vec::new();
    let value = match serde_saphyr::from_str(text) {
        Err(error) => {
            if let serde_saphyr::Error::DuplicateMappingKey { key, location } =
                error.without_snippet()
            {
                let key = key.as_deref().unwrap_or_default();
                duplicates
                    .push(format!("line {}: key {key:?} already set in map", location.line()));
                let last = serde_saphyr::options! { duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins };
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

/// Clients send JSON as YAML, and the JSON parser is much faster. `None` where YAML could differ:
/// it reports duplicate fields with their line, and has its own forms of numbers with a fraction.
fn json_in_yaml(bytes: &[u8]) -> Option<Value> {
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let (value, duplicates) = strict::parse_json(bytes).ok()?;
    (duplicates.is_empty() && !has_fraction(&value)).then_some(value)
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

pub async fn object(call: &Call, body: Body) -> Result<Decoded> {
    let bytes = read(body).await?;
    let sent = parse(&call.headers, &bytes)?;
    decode::decode_object(&call.kind, sent, call.params.field_validation)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_read_as_yaml_reads_it() {
        for text in [
            r#"{"a": {"b": [1, -2, "3", true, null, "ä\n\u00e4"]}, "c": {}}"#,
            " \n {\"a\": 18446744073709551615}\n",
        ] {
            let fast = json_in_yaml(text.as_bytes()).unwrap();
            let read: Value = serde_saphyr::from_str(text).unwrap();
            assert_eq!(fast, read, "{text}");
            assert_eq!(parse_yaml(text.as_bytes()).unwrap().value, read, "{text}");
        }
    }

    #[test]
    fn what_yaml_reads_in_its_own_way_is_left_to_it() {
        for text in ["a: 1", r#"{"a": 1.0}"#, r#"{"a": 1, "a": 2}"#, r#"{a: 1}"#, "[1]", ""] {
            assert_eq!(json_in_yaml(text.as_bytes()), None, "{text}");
        }
        let twice = parse_yaml(br#"{"a": 1, "a": 2}"#).unwrap();
        assert_eq!(twice.value, json!({"a": 2}));
        assert_eq!(twice.duplicates, [r#"line 1: key "a" already set in map"#]);
    }
}
