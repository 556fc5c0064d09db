//! The service's metrics. Labels are its own routes and codes: a small, fixed set.

use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use berth_kit::metrics::Metrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use tokio::time::Instant;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    method: &'static str,
    path: String,
    code: u16,
}

/// Clones share the same metrics.
#[derive(Clone, Debug)]
pub struct ServiceMetrics {
    answers: Family<Answer, Counter>,
    seconds: Histogram,
    refused_connections: Counter,
    waiters: Gauge,
}

impl ServiceMetrics {
    pub fn register(metrics: &Metrics) -> Self {
        let made = Self {
            answers: Family::default(),
            seconds: Histogram::new(exponential_buckets(1e-4, 4.0, 10)),
            refused_connections: Counter::default(),
            waiters: Gauge::default(),
        };
        metrics.register(|registry| {
            registry.register(
                "berth_allocator_answers",
                "Requests that were answered",
                made.answers.clone(),
            );
            registry.register(
                "berth_allocator_request_seconds",
                "Time from a request to its answer, without those that wait for what comes free",
                made.seconds.clone(),
            );
            registry.register(
                "berth_allocator_refused_connections",
                "Connections without a certificate that is trusted, or that did not finish their \
                 handshake",
                made.refused_connections.clone(),
            );
            registry.register(
                "berth_allocator_waiters",
                "Requests that wait for what comes free",
                made.waiters.clone(),
            );
        });
        made
    }

    /// Adds a sample to each family: an empty family is not encoded. The tables of `docs` are made
    /// from the encoded text.
    pub fn sample(&self) {
        self.answered("", String::new(), 0, Duration::ZERO);
    }

    pub fn refuse_connection(&self) {
        self.refused_connections.inc();
    }

    /// Counts one more for as long as it lives.
    pub fn waiting(&self) -> Waiting {
        self.waiters.inc();
        Waiting(self.waiters.clone())
    }

    fn answered(&self, method: &'static str, path: String, code: u16, took: Duration) {
        let waits = path.ends_with("/freed");
        self.answers.get_or_create(&Answer { method, path, code }).inc();
        if !waits {
            self.seconds.observe(took.as_secs_f64());
        }
    }
}

#[derive(Debug)]
pub struct Waiting(Gauge);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counts every request that has a route: a request without one may have any path.
pub async fn count(
    State(metrics): State<ServiceMetrics>,
    request: Request,
    next: Next,
) -> Response {
    let path = request
        .extensions()
        .get::<MatchedPath>()
        .map(|path| path.as_str().to_owned());
    let method = ["GET", "PUT", "PATCH", "DELETE"]
        .into_iter()
        .find(|method| request.method() == method);
    let start = Instant::now();
    let response = next.run(request).await;
    if let Some(path) = path {
        metrics.answered(
            method.unwrap_or("other"),
            path,
            response.status().as_u16(),
            start.elapsed(),
        );
    }
    response
}
