//! Events about objects, for `kubectl describe` and `kubectl get events`, in `events.k8s.io/v1`.
//!
//! Recording never waits: the event goes into a bounded queue, and a task of its own writes it.
//! Repeated events become one event with a series, and events about one object are rate-limited,
//! both with client-go's limits. Dropped events are counted by reason.

mod correlate;
mod writer;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{EventType, Reporter},
};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use rand::rngs::StdRng;
use tokio::sync::mpsc;

pub use writer::Writer;

/// The limit of client-go's broadcaster.
const MAX_QUEUED: usize = 1000;

/// What happened. `reason` and `action` are fixed in the code, so people can search for them; the
/// note is free text.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub type_: EventType,
    /// Why, in one CamelCase word: `SubnetFull`.
    pub reason: &'static str,
    /// What was done or tried, in one CamelCase word: `Allocate`.
    pub action: &'static str,
    pub note: String,
    pub related: Option<ObjectReference>,
}

/// An event, what it is about, and when it happened.
#[derive(Debug)]
struct Occurrence {
    event: Event,
    regarding: ObjectReference,
    at: Timestamp,
}

/// Why an event was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Reason {
    QueueFull,
    RateLimited,
    WriteFailed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Unwritten {
    reason: Reason,
}

#[derive(Clone, Debug, Default)]
pub struct EventMetrics {
    unwritten: Family<Unwritten, Counter>,
}

impl EventMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "berth_events_unwritten",
            "Events that were recorded but not written",
            metrics.unwritten.clone(),
        );
        // The counters exist from the start: one that first appears with a value shows no increase.
        for reason in [Reason::QueueFull, Reason::RateLimited, Reason::WriteFailed] {
            drop(metrics.unwritten.get_or_create(&Unwritten { reason }));
        }
        metrics
    }

    fn unwritten(&self, reason: Reason) {
        self.unwritten.get_or_create(&Unwritten { reason }).inc();
    }
}

/// Where parts of a process record their events. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Occurrence>,
    metrics: EventMetrics,
}

impl Recorder {
    /// Returns the recorder and the writer, which the caller must run. `rng` makes the names of
    /// events.
    pub fn new(
        client: Client,
        reporter: Reporter,
        metrics: &EventMetrics,
        rng: StdRng,
    ) -> (Self, Writer) {
        let (queue, occurrences) = mpsc::channel(MAX_QUEUED);
        let recorder = Self {
            queue,
            metrics: metrics.clone(),
        };
        (
            recorder,
            Writer::new(client, reporter, occurrences, metrics.clone(), rng),
        )
    }

    /// Records `event` about `regarding`. Returns at once; an event that finds the queue full is
    /// counted and dropped.
    pub fn record(&self, regarding: &ObjectReference, event: Event) {
        let occurrence = Occurrence {
            event,
            regarding: regarding.clone(),
            at: Timestamp::now(),
        };
        if self.queue.try_send(occurrence).is_err() {
            self.metrics.unwritten(Reason::QueueFull);
        }
    }
}
