//! The server: the page, the state as JSON and as a stream, maps, and forms.

mod answer;
mod write;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::middleware;
use axum::routing::get;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agents::Agents;
use crate::history::{History, SAMPLE_INTERVAL};
use crate::index::Index;
use crate::measures::Measured;
use crate::state::{self, About, State};
use crate::token::WriteToken;
use crate::watches::{self, Feed};
use crate::{guard, page};

/// The minimum time between two states: ten a second.
const STREAM_INTERVAL: Duration = Duration::from_millis(100);
/// Computing states takes at most a fifth of one core: a large cluster gets fewer of them.
const REST_FACTOR: u32 = 4;

/// The settings of a dashboard.
#[derive(Clone)]
pub struct Options {
    pub client: Client,
    pub about: About,
    pub agents: Agents,
    /// The token that changes need; below, where a person finds it.
    pub token: WriteToken,
    pub token_hint: String,
}

/// Not derived: a client has nothing to show.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// Clones share everything.
#[derive(Clone, Debug)]
pub struct Dashboard {
    options: Arc<Options>,
    feed: Feed,
    measurements: Arc<RwLock<Measurements>>,
    /// The last state that was sent, as JSON.
    stream: watch::Sender<Arc<str>>,
    stop: CancellationToken,
}

/// What this process has measured over time.
#[derive(Debug, Default)]
struct Measurements {
    history: History,
    /// The last metrics of each agent.
    scrapes: Vec<Measured>,
    measured: Measured,
}

impl Measurements {
    /// An agent that does not answer keeps its last metrics: otherwise all its calls would look new
    /// when it answers again.
    fn measure(&mut self, now: Timestamp, scrapes: &[Option<String>]) {
        if scrapes.is_empty() {
            return;
        }
        // Calls before the first scrape do not count.
        let is_first = self.scrapes.is_empty();
        self.scrapes.resize_with(scrapes.len(), Measured::default);
        for (last, text) in self.scrapes.iter_mut().zip(scrapes) {
            if let Some(text) = text {
                *last = Measured::read(text);
            }
        }
        let measured = Measured::sum(&self.scrapes);
        let quantiles = measured.adds_since(&self.measured).filter(|_| !is_first);
        self.history.record_latency(now, quantiles);
        self.measured = measured;
    }
}

impl Dashboard {
    pub fn new(options: Options, stop: CancellationToken) -> Self {
        Self {
            options: Arc::new(options),
            feed: Feed::new(),
            measurements: Arc::default(),
            stream: watch::Sender::new("".into()),
            stop,
        }
    }

    /// Watches the cluster until `stop`.
    pub fn run(self) -> BoxFuture<'static, Result<(), Infallible>> {
        Box::pin(async move {
            let stop = self.stop.clone();
            let watching = watches::run(self.options.client.clone(), self.feed.clone());
            let all = async {
                tokio::join!(watching, self.clone().publish(), self.clone().sample());
            };
            stop.run_until_cancelled(all).await;
            Ok(())
        })
    }

    /// The page and its API, with the routes of `others`. All of them refuse requests whose Host is
    /// not a loopback name.
    pub fn router(&self, others: Router) -> Router {
        Router::new()
            .route("/api/state", get(answer::state))
            .route("/api/stream", get(answer::stream))
            .route("/api/nodes", get(answer::nodes))
            .route("/api/latency", get(answer::latency))
            .route("/api/subnets/{name}/map", get(answer::map))
            .route("/api/subnets/{name}/history", get(answer::history))
            .merge(write::router())
            .with_state(self.clone())
            .merge(page::router())
            .merge(others)
            .layer(middleware::from_fn(guard::loopback_only))
    }

    /// The index, for tests and benchmarks that feed it themselves.
    pub fn index(&self) -> &RwLock<Index> {
        &self.feed.index
    }

    fn state(&self) -> State {
        let now = Timestamp::now();
        // Explanations of waiting pods contain how long they wait.
        self.feed.index.write().facts.now = now;
        let index = self.feed.index.read();
        let measurements = self.measurements.read();
        let about = &self.options.about;
        state::state(&index, about, &measurements.history, &measurements.measured, now)
    }

    /// Sends each state that differs from the last, while anybody listens.
    async fn publish(self) {
        let mut version = self.feed.version.subscribe();
        loop {
            if self.stream.receiver_count() > 0 {
                let begun = Instant::now();
                let text: Arc<str> =
                    serde_json::to_string(&self.state()).unwrap_or_default().into();
                self.stream.send_if_modified(|last| {
                    let differs = *last != text;
                    *last = text;
                    differs
                });
                tokio::time::sleep(STREAM_INTERVAL.max(begun.elapsed() * REST_FACTOR)).await;
            } else {
                tokio::time::sleep(STREAM_INTERVAL).await;
            }
            // Ages and forecasts change without a change of an object.
            drop(tokio::time::timeout(SAMPLE_INTERVAL, version.changed()).await);
        }
    }

    async fn sample(self) {
        let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
        loop {
            ticks.tick().await;
            let samples = state::samples(&self.feed.index.read());
            let scrapes = self.options.agents.scrape().await;
            let now = Timestamp::now();
            let mut measurements = self.measurements.write();
            measurements.history.record(now, samples);
            measurements.measure(now, &scrapes);
        }
    }
}
