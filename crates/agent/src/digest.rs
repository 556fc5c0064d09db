//! A read-only view of the agent's addresses, served beside the metrics, so that `berth check` can
//! read it remotely. It names no pod.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use berth_api::agent::{DIGEST, Digest, DigestLine};
use parking_lot::Mutex;

use crate::agent::Agent;
use crate::run::Standing;

/// The agent that serves now, if any does.
#[derive(Clone, Debug, Default)]
pub struct Digests {
    serving: Arc<Mutex<Option<Agent>>>,
}

impl Digests {
    /// To be called with every report of [`crate::run`].
    pub fn follow(&self, standing: &Standing<'_>) {
        *self.serving.lock() = match standing {
            Standing::Serves(agent) => Some((*agent).clone()),
            Standing::Waits(_) => None,
        };
    }

    pub fn router(&self) -> Router {
        Router::new().route(DIGEST, get(digest)).with_state(self.clone())
    }
}

async fn digest(State(digests): State<Digests>) -> Response {
    let agent = digests.serving.lock().clone();
    match agent {
        Some(agent) => Json(agent.digest()).into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the agent serves nobody yet\n").into_response(),
    }
}

impl Agent {
    pub fn digest(&self) -> Digest {
        Digest {
            node: self.node().to_owned(),
            addresses: self.addresses().into_iter().map(DigestLine::from).collect(),
        }
    }
}
