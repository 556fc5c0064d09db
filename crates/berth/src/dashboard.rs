//! The page of `berth up`: what runs, for people. Plain HTTP on loopback, read only.
//!
//! `GET /` is one page that needs nothing else, `GET /api/state` the same as JSON. Both come from
//! what the watches brought, never from a list request.

mod guard;
mod page;
mod state;

use std::convert::Infallible;
use std::sync::{Arc, RwLock};

use axum::extract::State as Shared;
use axum::http::header;
use axum::response::{Html, IntoResponse};
use axum::routing::get;
use axum::{Json, Router, middleware};
use berth_kit::shutdown::Tasks;
use berth_kit::watch::{Change, Feed};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use tokio::sync::mpsc;

pub use state::Facts;
use state::State;

/// The state, as it is shared by the watches and the requests.
#[derive(Clone, Debug)]
pub struct Dashboard {
    state: Arc<RwLock<State>>,
}

impl Dashboard {
    /// Begins to follow nodes and pods, until `tasks` are stopped.
    pub fn start(client: Client, facts: Facts, tasks: &Tasks) -> Self {
        let dashboard = Self {
            state: Arc::new(RwLock::new(State::new(facts))),
        };
        let mut nodes = Feed::<Node>::new(Api::all(client.clone()));
        let mut pods = Feed::<Pod>::new(Api::all(client));
        let changes = (nodes.subscribe(), pods.subscribe());
        let stop = tasks.stopping();
        let followed = dashboard.clone();
        tasks.spawn("dashboard watches", async move {
            tokio::join!(
                nodes.run(stop.clone()),
                pods.run(stop.clone()),
                stop.run_until_cancelled(followed.follow(changes.0, changes.1)),
            );
            Ok::<_, Infallible>(())
        });
        dashboard
    }

    async fn follow(
        self,
        mut nodes: mpsc::Receiver<Change<Node>>,
        mut pods: mpsc::Receiver<Change<Pod>>,
    ) {
        loop {
            tokio::select! {
                Some(change) = nodes.recv() => self.write(|state| state.apply_node(change)),
                Some(change) = pods.recv() => self.write(|state| state.apply_pod(change)),
                else => return,
            }
        }
    }

    /// The page, and beside it the routes of `others`; all refuse callers that come by another name
    /// than loopback's.
    pub fn router(&self, others: Router) -> Router {
        Router::new()
            .route("/", get(html))
            .route("/api/state", get(json))
            .with_state(self.clone())
            .merge(others)
            .layer(middleware::from_fn(guard::loopback_only))
    }

    fn write(&self, on: impl FnOnce(&mut State)) {
        on(&mut self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner));
    }

    fn snapshot(&self) -> state::Snapshot {
        let state = self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.snapshot(Timestamp::now())
    }
}

const HEADERS: [(header::HeaderName, &str); 3] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src \
         'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
];

async fn html(Shared(dashboard): Shared<Dashboard>) -> impl IntoResponse {
    (HEADERS, Html(page::render(&dashboard.snapshot())))
}

async fn json(Shared(dashboard): Shared<Dashboard>) -> impl IntoResponse {
    (HEADERS, Json(dashboard.snapshot()))
}
