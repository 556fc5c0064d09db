//! Answers: JSON, failures, and the forms in which a client can ask for objects.

use axum::body::Body;
use axum::response::Response;
use berth_apimachinery::status::{Result, Status};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json as value};

use super::params::Params;
use crate::kinds::Kind;
use crate::resources::Resources;
use crate::store::Record;
use crate::tables::{Include, Table};

pub const JSON: &str = "application/json";
const ACCEPTED: &str = "application/json";

pub fn typed(code: u16, body: Bytes, content_type: &'static str) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub fn json(code: u16, body: &Value) -> Response {
    typed(code, body.to_string().into(), JSON)
}

pub fn text(code: u16, body: &'static str) -> Response {
    typed(code, Bytes::from_static(body.as_bytes()), "text/plain; charset=utf-8")
}

pub fn failure(status: &Status) -> Response {
    let mut response = json(status.code, &status.to_value());
    if status.code == 504 || status.code == 429 {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The answer to a request that returns no object: a delete, a binding.
pub fn success(code: u16, details: Option<Value>) -> Response {
    let mut status =
        value!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if let Some(details) = details {
        status["details"] = details;
    } else {
        status["code"] = code.into();
    }
    json(code, &status)
}

pub fn warn(response: &mut Response, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

pub fn accept(headers: &HeaderMap) -> &str {
    headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// How the client wants to see objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Whole,
    /// Rows and columns. `Include` says how much of the object goes with each row.
    Table(Include),
    Metadata,
}

impl Form {
    pub fn negotiate(headers: &HeaderMap, params: &Params) -> Result<Self> {
        let accept = accept(headers);
        if accept.is_empty() {
            return Ok(Self::Whole);
        }
        for media in accept.split(',') {
            let mut parts = media.split(';').map(str::trim);
            let base = parts.next().unwrap_or_default();
            let known = matches!(base, "application/json" | "*/*" | "application/*");
            let target = parts.find_map(|part| part.strip_prefix("as="));
            match target {
                _ if !known => {}
                Some("Table") => {
                    let include = params.get("includeObject");
                    return Ok(Self::Table(Include::parse(include.as_deref())?));
                }
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => {
                    return Ok(Self::Metadata);
                }
                Some(_) => {}
                None => return Ok(Self::Whole),
            }
        }
        // A client that accepts only protobuf gets the same answer as for any unknown type.
        Err(Status::not_acceptable(ACCEPTED))
    }
}

pub fn partial(object: &Value) -> Value {
    value!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

pub fn table(columns: Option<&Value>, rows: Vec<Value>, metadata: Value) -> Value {
    value!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns.unwrap_or(&value!([])),
        "rows": rows,
    })
}

/// The bytes of an object in the requested form.
pub fn shown(resources: &Resources, kind: &Kind, record: &Record, form: Form) -> Result<Bytes> {
    if form == Form::Whole && kind.conversion == berth_apimachinery::conversion::Conversion::None {
        return Ok(record.body.clone());
    }
    let object = resources.decode(kind, record)?;
    let shown = match form {
        Form::Whole => object,
        Form::Metadata => partial(&object),
        Form::Table(include) => {
            let metadata = value!({"resourceVersion": object["metadata"]["resourceVersion"]});
            let made = Table::new(kind);
            let row = made.row(&object, include, resources.clock.now());
            table(Some(made.columns()), vec![row], metadata)
        }
    };
    Ok(shown.to_string().into())
}

pub fn object(
    resources: &Resources,
    kind: &Kind,
    record: &Record,
    form: Form,
    code: u16,
) -> Result<Response> {
    Ok(typed(code, shown(resources, kind, record, form)?, JSON))
}
