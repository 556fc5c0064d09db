//! The queues' metrics, under client-go's names, so that dashboards and alerts for client-go work.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::time::Instant;

use super::state::Unfinished;
use crate::metrics::Name;

/// The metrics of all queues of a process, registered once; each queue is told apart by its name.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    depth: Family<Name, Gauge>,
    adds: Family<Name, Counter>,
    retries: Family<Name, Counter>,
    queue_duration: Family<Name, Histogram>,
    work_duration: Family<Name, Histogram>,
    running: Arc<Running>,
}

impl QueueMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        // client-go's buckets: 10 ns to 10 s.
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(1e-8, 10.0, 10));
        let metrics = Self {
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            queue_duration: Family::new_with_constructor(histogram),
            work_duration: Family::new_with_constructor(histogram),
            running: Arc::default(),
        };
        registry.register("workqueue_depth", "Items that wait to be taken", metrics.depth.clone());
        registry.register("workqueue_adds", "Items added", metrics.adds.clone());
        registry.register("workqueue_retries", "Items added with a delay", metrics.retries.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long an item waited before it was taken",
            metrics.queue_duration.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long an item was worked on",
            metrics.work_duration.clone(),
        );
        registry.register_collector(Box::new(metrics.running.clone()));
        metrics
    }

    /// Adds a sample to each family: an empty family is not encoded. The tables of `docs` are made
    /// from the encoded text.
    pub fn sample(&self) {
        self.instruments("", |_| Some(Unfinished::default()));
    }

    pub(super) fn instruments(
        &self,
        name: &str,
        unfinished: impl Fn(Instant) -> Option<Unfinished> + Send + Sync + 'static,
    ) -> Instruments {
        let name = Name::from(name);
        let instruments = Instruments {
            depth: self.depth.get_or_create_owned(&name),
            adds: self.adds.get_or_create_owned(&name),
            retries: self.retries.get_or_create_owned(&name),
            queue_duration: self.queue_duration.get_or_create_owned(&name),
            work_duration: self.work_duration.get_or_create_owned(&name),
        };
        let mut queues = self.running.queues.lock();
        // Removes the probes of queues that are gone: a controller may restart often.
        let now = Instant::now();
        queues.retain(|(_, probe)| probe(now).is_some());
        queues.push((name, Box::new(unfinished)));
        instruments
    }
}

/// One queue's part of the metrics.
#[derive(Debug)]
pub(super) struct Instruments {
    pub(super) depth: Gauge,
    pub(super) adds: Counter,
    pub(super) retries: Counter,
    pub(super) queue_duration: Histogram,
    pub(super) work_duration: Histogram,
}

/// `None` once the queue is gone.
type Probe = Box<dyn Fn(Instant) -> Option<Unfinished> + Send + Sync>;

/// These values hold only at one moment, so they are computed at each scrape.
#[derive(Default)]
struct Running {
    queues: Mutex<Vec<(Name, Probe)>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Running").finish_non_exhaustive()
    }
}

impl Collector for Running {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let now = Instant::now();
        let found: Vec<(Name, Unfinished)> = self
            .queues
            .lock()
            .iter()
            .filter_map(|(name, probe)| Some((name.clone(), probe(now)?)))
            .collect();
        let mut gauge = |name, help, value: fn(&Unfinished) -> f64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (queue, unfinished) in &found {
                ConstGauge::new(value(unfinished)).encode(family.encode_family(queue)?)?;
            }
            Ok(())
        };
        gauge(
            "workqueue_unfinished_work_seconds",
            "Sum over the items in work: how long each has been worked on",
            |unfinished| unfinished.total.as_secs_f64(),
        )?;
        gauge(
            "workqueue_longest_running_processor_seconds",
            "How long the item that is longest in work has been worked on",
            |unfinished| unfinished.longest.as_secs_f64(),
        )
    }
}
