//! The API that changes the cluster: it checks forms while a person types, and applies them. Only
//! this page may call it ([`guard::own_page_only`]); applying needs the token.

mod apply;
mod cluster;
mod machine;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Dashboard;
use super::answer::{json, refuse};
use crate::form::Checked;
use crate::guard;

/// A form is some hundred bytes.
const MAX_BODY: usize = 64 * 1024;

/// Whether this caller may apply the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum TokenState {
    Missing,
    Wrong,
    Good,
}

/// The answer to a form.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(flatten)]
    checked: Checked,
    token: TokenState,
    /// Where a person finds the token.
    token_hint: &'a str,
}

pub fn router() -> Router<Dashboard> {
    let writing = Router::new()
        .route("/api/clusters/{name}/check", post(cluster::check))
        .route("/api/clusters/{name}", post(cluster::apply))
        .route("/api/machines/check", post(machine::check))
        .route("/api/machines", post(machine::apply))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .route_layer(middleware::from_fn(guard::own_page_only));
    Router::new()
        .route("/api/clusters/{name}", get(cluster::read))
        .route("/api/machines/{group}/{name}", get(machine::read_cluster_scoped))
        .route("/api/machines/{group}/{namespace}/{name}", get(machine::read))
        .merge(writing)
}

fn token(dashboard: &Dashboard, headers: &HeaderMap) -> TokenState {
    let given = headers.get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok());
    match given.and_then(|value| value.strip_prefix("Bearer ")) {
        None | Some("") => TokenState::Missing,
        Some(given) if dashboard.options.token.is(given) => TokenState::Good,
        Some(_) => TokenState::Wrong,
    }
}

/// A refusal. Boxed, because it is large and rare.
#[derive(Debug)]
struct Refusal(Box<Response>);

impl From<Response> for Refusal {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

/// Checks that the caller has the token.
fn authorize(dashboard: &Dashboard, headers: &HeaderMap) -> Result<(), Refusal> {
    let why = match token(dashboard, headers) {
        TokenState::Good => return Ok(()),
        TokenState::Missing => "the token is missing",
        TokenState::Wrong => "the token is wrong",
    };
    let hint = &dashboard.options.token_hint;
    let text = format!("Authorization: {why}: {hint}");
    Err(refuse(StatusCode::UNAUTHORIZED, text).into())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| refuse(StatusCode::BAD_REQUEST, format!("the body: {error}")).into())
}

fn answer(dashboard: &Dashboard, checked: Checked, token: TokenState) -> Response {
    json(Answer {
        checked,
        token,
        token_hint: &dashboard.options.token_hint,
    })
}
