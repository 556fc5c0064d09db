//! What a controller runs: its loops, and the writer of its events. All of it ends together.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{EventType, Reporter};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::events::{Event, EventMetrics, Recorder};

/// How long the last events may take to be written at the end.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_millis(500);

/// Code that starts a loop or emits events gets this. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Background {
    events: Recorder,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Background {
    /// Runs the task for the lifetime of the controller.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.start(task.boxed());
    }

    /// The future is boxed, so that the code that runs a task is compiled once and not for each
    /// task.
    fn start(&self, task: BoxFuture<'static, ()>) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// Emits an event of type Warning.
    pub fn warn(
        &self,
        regarding: &ObjectReference,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let event = Event {
            type_: EventType::Warning,
            reason,
            action,
            note,
            related: None,
        };
        self.events.record(regarding, event);
    }
}

/// A controller that runs. Dropping it ends its loops and the writer of its events.
#[derive(Debug)]
pub struct Run {
    background: Background,
    writing: JoinHandle<()>,
    _ended: DropGuard,
}

impl Run {
    /// With the same `seed` and clock, a run takes the same steps: the seed decides the names of
    /// events.
    pub fn start(
        client: Client,
        reporter: Reporter,
        metrics: &EventMetrics,
        seed: Option<u64>,
        stop: &CancellationToken,
    ) -> Self {
        let stop = stop.child_token();
        let random = match seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::from_rng(&mut rand::rng()),
        };
        let (events, writer) = Recorder::new(client, reporter, metrics, random);
        let writing = tokio::spawn(writer.run(stop.clone()));
        let background = Background {
            events,
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        Self {
            background,
            writing,
            _ended: stop.drop_guard(),
        }
    }

    pub fn background(&self) -> Background {
        self.background.clone()
    }

    /// Runs the task; `None` if the run is stopped first.
    pub async fn until_stopped<T>(&self, task: impl Future<Output = T>) -> Option<T> {
        self.background.stop.run_until_cancelled(task).await
    }

    /// Waits for the stop and then until everything has ended: that is at once, except for writing
    /// the last events.
    pub async fn ended(self) {
        let Background { tasks, stop, events } = self.background;
        stop.cancelled().await;
        tasks.close();
        tasks.wait().await;
        drop(events);
        let abort = self.writing.abort_handle();
        let written = tokio::time::timeout(LAST_EVENTS_TIMEOUT, self.writing).await;
        if written.is_err() {
            abort.abort();
            warn!("cannot write the last events in time; dropping the rest");
        }
    }
}
