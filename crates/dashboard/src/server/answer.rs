//! Answers to the requests of the page.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Dashboard;
use crate::form::FieldError;
use crate::map::{self, MapError};
use crate::state;

/// Answers are not cached, and are for this origin only.
const HEADERS: [(header::HeaderName, &str); 3] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// An error, for programs and for people.
#[derive(Serialize)]
struct Refusal<'a> {
    error: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
}

pub fn json(value: impl Serialize) -> Response {
    (HEADERS, Json(value)).into_response()
}

pub fn refuse(status: StatusCode, error: impl ToString) -> Response {
    let (error, errors) = (error.to_string(), &[][..]);
    (status, HEADERS, Json(Refusal { error, errors })).into_response()
}

/// All errors of fields, also as one text.
pub fn refuse_fields(status: StatusCode, errors: &[FieldError]) -> Response {
    let text = |error: &FieldError| match error.field.as_str() {
        "" => error.message.clone(),
        field => format!("{field}: {}", error.message),
    };
    let error = errors.iter().map(text).collect::<Vec<_>>().join("; ");
    (status, HEADERS, Json(Refusal { error, errors })).into_response()
}

pub async fn state(State(dashboard): State<Dashboard>) -> Response {
    json(dashboard.state())
}

/// Server-sent events: each holds a whole state, the first the current one.
pub async fn stream(State(dashboard): State<Dashboard>) -> impl IntoResponse {
    let event = |text| Ok::<_, Infallible>(Event::default().event("state").data(text));
    let events = events(&dashboard).map(event);
    (HEADERS, Sse::new(events).keep_alive(KeepAlive::default()))
}

fn events(dashboard: &Dashboard) -> impl Stream<Item = String> + use<> {
    // Subscribes before the first state is made: no change in between is missed.
    let receiver = dashboard.stream.subscribe();
    let first = serde_json::to_string(&dashboard.state()).unwrap_or_default();
    let stop = dashboard.stop.clone();
    let later = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.changed().await.ok()?;
        let text = receiver.borrow_and_update().to_string();
        Some((text, receiver))
    });
    // The stream ends with the process: it must not delay the stop.
    futures::stream::iter([first])
        .chain(later)
        .take_until(stop.cancelled_owned())
}

#[derive(Debug, Deserialize)]
pub struct PageQuery {
    #[serde(default)]
    search: String,
    #[serde(default)]
    from: usize,
    #[serde(default = "hundred")]
    count: usize,
}

fn hundred() -> usize {
    100
}

pub async fn nodes(
    State(dashboard): State<Dashboard>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Response {
    let Query(query) = match query {
        Ok(query) => query,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error),
    };
    let index = dashboard.feed.index.read();
    json(state::node_page(&index, &query.search, query.from, query.count))
}

#[derive(Debug, Deserialize)]
pub struct MapQuery {
    from: Option<IpAddr>,
    length: Option<u8>,
}

pub async fn map(
    State(dashboard): State<Dashboard>,
    Path(name): Path<String>,
    query: Result<Query<MapQuery>, QueryRejection>,
) -> Response {
    let Query(query) = match query {
        Ok(query) => query,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error),
    };
    let index = dashboard.feed.index.read();
    match map::map(&index, &name, query.from, query.length, Timestamp::now()) {
        Ok(map) => json(map),
        Err(error @ MapError::NoSubnet(_)) => refuse(StatusCode::NOT_FOUND, error),
        Err(error) => refuse(StatusCode::BAD_REQUEST, error),
    }
}

pub async fn history(State(dashboard): State<Dashboard>, Path(name): Path<String>) -> Response {
    json(dashboard.measurements.read().history.columns(&name))
}

pub async fn latency(State(dashboard): State<Dashboard>) -> Response {
    json(dashboard.measurements.read().history.latency())
}
