//! The extender of kube-scheduler: filter, prioritize, bind and preempt over HTTP.
//!
//! The seed's Filter plugin is the verb filter, its PreBind plugin the verb bind. Both read the
//! same accounting, which a replica has only while it leads.

mod bind;
mod filter;
mod session;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use parking_lot::RwLock;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::metrics::SchedulerMetrics;
use bind::bind;
use filter::{BadRequest, filter, preempt, prioritize, read};
use wire::{BindingArgs, BindingResult, FilterResult};

pub use session::Session;

/// Whole nodes are some 10 kB each, and a cluster has 5,000 of them.
const MAX_BODY: usize = 256 << 20;
const NOT_LEADING: &str =
    "this replica of berth scheduler does not lead, or has not seen all pods yet";

/// Clones share it.
#[derive(Clone, Debug)]
pub struct Extender {
    session: Arc<RwLock<Option<Arc<Session>>>>,
    metrics: SchedulerMetrics,
}

impl Extender {
    pub fn new(metrics: SchedulerMetrics) -> Self {
        Self {
            session: Arc::default(),
            metrics,
        }
    }

    /// Starts serving; with `None` stops.
    pub fn serve(&self, session: Option<Arc<Session>>) {
        *self.session.write() = session;
    }

    pub fn router(&self) -> Router {
        Router::new()
            .route("/filter", post(handle_filter))
            .route("/prioritize", post(handle_prioritize))
            .route("/preempt", post(handle_preempt))
            .route("/bind", post(handle_bind))
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(self.clone())
    }

    fn session(&self) -> Option<Arc<Session>> {
        self.session.read().clone().filter(|session| session.leads())
    }

    fn count(
        &self,
        verb: &'static str,
        begin: Instant,
        answer: Result<Vec<u8>, BadRequest>,
    ) -> Response {
        let result = if answer.is_ok() { "ok" } else { "bad_request" };
        self.metrics.called(verb, result, begin.elapsed());
        match answer {
            Ok(body) => json(body),
            Err(error) => {
                warn!(%error, verb, "refused a bad request to the extender");
                (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response()
            }
        }
    }

    fn not_leading(&self, verb: &'static str, begin: Instant) -> Response {
        self.metrics.called(verb, "not_leading", begin.elapsed());
        (StatusCode::SERVICE_UNAVAILABLE, format!("{NOT_LEADING}\n")).into_response()
    }
}

async fn handle_filter(State(extender): State<Extender>, body: Bytes) -> Response {
    let begin = Instant::now();
    let Some(session) = extender.session() else {
        extender.metrics.called("filter", "not_leading", begin.elapsed());
        // The text reaches the pod's events only with status 200.
        return json(
            serde_json::to_vec(&FilterResult {
                error: NOT_LEADING.to_owned(),
                ..FilterResult::default()
            })
            .unwrap_or_default(),
        );
    };
    let filtered = session.books.change(|accounting| {
        let filtered = filter(accounting, &body);
        if let Ok((_, tally)) = &filtered {
            let refused = tally.refused.values().sum::<u64>();
            let asked = usize::try_from(refused).unwrap_or(usize::MAX);
            // kube-scheduler asks about a sample of a large cluster. Waking a node makes it try the
            // next.
            if tally.passed == 0 && refused > 0 && asked < accounting.node_count() {
                accounting.wake_any();
            }
        }
        filtered
    });
    let answer = filtered.map(|(answer, tally)| {
        for (reason, nodes) in tally.refused {
            extender.metrics.refused(reason, nodes);
        }
        answer
    });
    extender.count("filter", begin, answer)
}

async fn handle_prioritize(State(extender): State<Extender>, body: Bytes) -> Response {
    let begin = Instant::now();
    let Some(session) = extender.session() else {
        return extender.not_leading("prioritize", begin);
    };
    let answer = prioritize(&session.books.lock(), &body);
    extender.count("prioritize", begin, answer)
}

async fn handle_preempt(State(extender): State<Extender>, body: Bytes) -> Response {
    let begin = Instant::now();
    let Some(session) = extender.session() else {
        return extender.not_leading("preempt", begin);
    };
    let answer = preempt(&session.books.lock(), &body);
    extender.count("preempt", begin, answer)
}

async fn handle_bind(State(extender): State<Extender>, body: Bytes) -> Response {
    let begin = Instant::now();
    let args: BindingArgs = match read(&body) {
        Ok(args) => args,
        Err(error) => return extender.count("bind", begin, Err(error)),
    };
    let (pod, node) = (format!("{}/{}", args.pod_namespace, args.pod_name), args.node.clone());
    let (result, error) = match extender.session() {
        None => ("not_leading", NOT_LEADING.to_owned()),
        // In its own task: a caller that hangs up must not leave a binding half done.
        Some(session) => match tokio::spawn(bind(session, args)).await {
            Ok(Ok(())) => ("ok", String::new()),
            Ok(Err(error)) => (error.category(), error.to_string()),
            Err(error) => ("died", error.to_string()),
        },
    };
    extender.metrics.called("bind", result, begin.elapsed());
    if !error.is_empty() {
        info!(pod, node, error, "answered the binding of the pod with an error");
    }
    json(serde_json::to_vec(&BindingResult { error }).unwrap_or_default())
}

fn json(body: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}
