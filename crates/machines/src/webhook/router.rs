//! The webhook over HTTP.

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tracing::warn;

use super::review::answer;
use crate::metrics::{GateMetrics, Review};

pub const PATH: &str = "/gate";

/// An API server takes objects of 3 MiB, and sends them with more around them.
const MAX_BODY: usize = 8 * 1024 * 1024;

pub fn router(metrics: GateMetrics) -> Router {
    Router::new()
        .route(PATH, post(review))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(metrics)
}

async fn review(
    State(metrics): State<GateMetrics>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let refuse = |status: StatusCode, why: String| {
        metrics.count(Review::Refused);
        warn!(why, "the webhook refused a request");
        (status, format!("{why}\n")).into_response()
    };
    let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let sent = sent.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if sent != "application/json" {
        let why = format!("Content-Type: {sent:?} can't be read: send application/json");
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
    }
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return refuse(rejection.status(), rejection.body_text()),
    };
    match answer(&body) {
        Ok(answer) => {
            metrics.count(if answer.is_gated {
                Review::Gated
            } else {
                Review::Allowed
            });
            let headers = [(CONTENT_TYPE, "application/json")];
            (headers, answer.value.to_string()).into_response()
        }
        Err(error) => refuse(StatusCode::BAD_REQUEST, error.to_string()),
    }
}
