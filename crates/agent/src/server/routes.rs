//! The paths, and their answers.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use berth_api::agent::{
    self, AddressLine, Check, Done, Gc, Granted, Reason, Refusal, Release, Request,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::Agent;

pub fn router(agent: Agent) -> Router {
    Router::new()
        .route(agent::REQUEST, post(request))
        .route(agent::RELEASE, post(release))
        .route(agent::CHECK, post(check))
        .route(agent::GC, post(gc))
        .route(agent::STATUS, get(status))
        .route(agent::ADDRESSES, get(addresses))
        .fallback(nothing)
        .method_not_allowed_fallback(nothing)
        .layer(DefaultBodyLimit::max(agent::MAX_BYTES))
        .with_state(agent)
}

type Answer<T> = Result<Json<T>, ErrorResponse>;

async fn request(State(agent): State<Agent>, body: Body) -> Answer<Granted> {
    let request: Request = body.read()?;
    Ok(Json(agent.request(request).await?))
}

async fn release(State(agent): State<Agent>, body: Body) -> Answer<Done> {
    let release: Release = body.read()?;
    Ok(Json(agent.release(&release)?))
}

async fn check(State(agent): State<Agent>, body: Body) -> Answer<Done> {
    let check: Check = body.read()?;
    Ok(Json(agent.check(&check)?))
}

async fn gc(State(agent): State<Agent>, body: Body) -> Answer<Done> {
    let gc: Gc = body.read()?;
    Ok(Json(agent.gc(&gc)?))
}

async fn status(State(agent): State<Agent>) -> Response {
    let status = agent.status();
    let code = if status.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (code, Json(status)).into_response()
}

async fn addresses(State(agent): State<Agent>) -> Json<Vec<AddressLine>> {
    Json(agent.addresses())
}

async fn nothing() -> ErrorResponse {
    let message = format!(
        "there is nothing here: POST to {}, {}, {} or {}, GET {} or {}",
        agent::REQUEST,
        agent::RELEASE,
        agent::CHECK,
        agent::GC,
        agent::STATUS,
        agent::ADDRESSES
    );
    ErrorResponse(Refusal::new(Reason::NotFound, message))
}

/// A body, or why it could not be read: too long, or cut.
struct Body(Result<Bytes, String>);

impl<S: Send + Sync> axum::extract::FromRequest<S> for Body {
    type Rejection = std::convert::Infallible;

    async fn from_request(
        request: axum::extract::Request,
        state: &S,
    ) -> Result<Self, Self::Rejection> {
        let read = Bytes::from_request(request, state).await;
        Ok(Self(read.map_err(|error| error.body_text())))
    }
}

impl Body {
    fn read<T: DeserializeOwned>(self) -> Result<T, ErrorResponse> {
        let invalid = |why: String| ErrorResponse(Refusal::new(Reason::Invalid, why));
        let bytes = self
            .0
            .map_err(|why| invalid(format!("the body can't be read: {why}")))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| invalid(format!("the body can't be decoded: {error}")))
    }
}

struct Json<T>(T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
}

pub struct ErrorResponse(pub Refusal);

impl From<Refusal> for ErrorResponse {
    fn from(refusal: Refusal) -> Self {
        Self(refusal)
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.0.reason.status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(self.0)).into_response()
    }
}
