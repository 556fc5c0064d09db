//! An orderly shutdown. The first SIGINT or SIGTERM, or a task that fails, asks every task to stop.
//! The tasks get a bounded time to finish; a second signal ends that time at once.

use std::{collections::BTreeMap, fmt, io, sync::Arc, time::Duration};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info};

/// Why a process did not end the way it was meant to.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclean {
    #[error("{task}: {error}")]
    Failed { task: String, error: String },
    #[error("still running {limit:?} after the signal to stop: {}", tasks.join(", "))]
    TimedOut { limit: Duration, tasks: Vec<String> },
    #[error("a second signal came while these were stopping: {}", tasks.join(", "))]
    Interrupted { tasks: Vec<String> },
}

/// The tasks of a process and the signal for them to stop.
#[derive(Debug)]
pub struct Shutdown {
    tasks: Tasks,
    signals: mpsc::Receiver<&'static str>,
}

impl Shutdown {
    /// Listens for SIGINT and SIGTERM from now on; they no longer end the process by themselves.
    pub fn on_signals() -> io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (sender, signals) = mpsc::channel(2);
        tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    _ = interrupt.recv() => "SIGINT",
                    _ = terminate.recv() => "SIGTERM",
                };
                if sender.send(name).await.is_err() {
                    return;
                }
            }
        });
        Ok(Self::on(signals))
    }

    fn on(signals: mpsc::Receiver<&'static str>) -> Self {
        Self {
            tasks: Tasks::default(),
            signals,
        }
    }

    /// Starts tasks. Tasks can use it, too.
    pub fn tasks(&self) -> Tasks {
        self.tasks.clone()
    }

    /// Waits for a signal or for [`Tasks::stop`], then at most `limit` for the tasks. Tasks that
    /// are not done by then are named; they end with the process.
    pub fn finished(mut self, limit: Duration) -> BoxFuture<'static, Result<(), Unclean>> {
        Box::pin(async move {
            let tasks = self.tasks;
            tokio::select! {
                Some(name) = self.signals.recv() => info!("received {name}; stopping"),
                () = tasks.stop.cancelled() => {}
            }
            tasks.stop();
            tasks.tracker.close();
            tokio::select! {
                () = tasks.tracker.wait() => tasks.failure().map_or(Ok(()), Err),
                () = tokio::time::sleep(limit) => Err(Unclean::TimedOut { limit, tasks: tasks.running() }),
                Some(_) = self.signals.recv() => Err(Unclean::Interrupted { tasks: tasks.running() }),
            }
        })
    }
}

/// Starts tasks and knows which of them still run.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    stop: CancellationToken,
    tracker: TaskTracker,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    running: BTreeMap<u64, String>,
    failure: Option<Unclean>,
}

impl Tasks {
    /// Cancelled when it is time to stop.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Asks all tasks to stop, as a signal does.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Starts a task that the process cannot do without: when it fails or panics, the process
    /// stops. The task must watch [`Tasks::stopping`] and return soon after it is cancelled.
    pub fn spawn<E: fmt::Display>(
        &self,
        name: impl Into<String>,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let task = async move { task.await.map_err(|error| error.to_string()) };
        self.start(name.into(), task.boxed());
    }

    /// The future is boxed, so that the code that runs a task is compiled once and not for each
    /// task.
    fn start(&self, name: String, task: BoxFuture<'static, Result<(), String>>) {
        let running = Running::new(self.clone(), name);
        self.tracker.spawn(async move {
            if let Err(error) = task.await {
                running.tasks.fail(&running.name, error);
            }
        });
    }

    /// The names of the tasks that run, in the order they were started.
    pub fn running(&self) -> Vec<String> {
        self.with(|state| state.running.values().cloned().collect())
    }

    fn fail(&self, name: &str, error: String) {
        error!(task = name, %error, "task failed; stopping all tasks");
        let task = name.to_owned();
        // The first failure is the cause; those that follow from it are only logged.
        self.with(|state| {
            state.failure.get_or_insert(Unclean::Failed { task, error });
        });
        self.stop();
    }

    fn failure(&self) -> Option<Unclean> {
        self.with(|state| state.failure.take())
    }

    fn with<T>(&self, on: impl FnOnce(&mut State) -> T) -> T {
        on(&mut self.state.lock())
    }
}

/// Held by a task while it runs. If the task panics, only this drop notices it.
struct Running {
    tasks: Tasks,
    id: u64,
    name: String,
}

impl Running {
    fn new(tasks: Tasks, name: String) -> Self {
        let id = tasks.with(|state| {
            state.next += 1;
            state.running.insert(state.next, name.clone());
            state.next
        });
        Self { tasks, id, name }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tasks.fail(&self.name, "panicked".to_owned());
        }
        self.tasks.with(|state| state.running.remove(&self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::time::{Instant, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    fn shutdown() -> (mpsc::Sender<&'static str>, Shutdown) {
        let (sender, signals) = mpsc::channel(2);
        (sender, Shutdown::on(signals))
    }

    /// Goes on for `after` once it is told to stop.
    fn spawn_slow(tasks: &Tasks, name: &str, after: Duration) {
        let stopping = tasks.stopping();
        tasks.spawn(name, async move {
            stopping.cancelled().await;
            sleep(after).await;
            Ok::<_, Infallible>(())
        });
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_waits_for_the_tasks_and_no_longer() {
        let (signal, shutdown) = shutdown();
        let start = Instant::now();
        spawn_slow(&shutdown.tasks(), "api", Duration::from_millis(300));
        signal.send("SIGTERM").await.unwrap();
        assert_eq!(shutdown.finished(LIMIT).await, Ok(()));
        assert_eq!(start.elapsed().as_millis(), 300);
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_that_do_not_end_in_time_are_named() {
        let (signal, shutdown) = shutdown();
        let start = Instant::now();
        spawn_slow(&shutdown.tasks(), "api", Duration::from_millis(300));
        spawn_slow(&shutdown.tasks(), "nodes", Duration::from_secs(3600));
        signal.send("SIGINT").await.unwrap();
        let error = shutdown.finished(LIMIT).await.unwrap_err();
        assert_eq!(error.to_string(), "still running 2s after the signal to stop: nodes");
        assert_eq!(start.elapsed(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_ends_at_once() {
        let (signal, shutdown) = shutdown();
        let start = Instant::now();
        spawn_slow(&shutdown.tasks(), "nodes", Duration::from_secs(3600));
        signal.send("SIGINT").await.unwrap();
        signal.send("SIGINT").await.unwrap();
        let tasks = vec!["nodes".to_owned()];
        assert_eq!(shutdown.finished(LIMIT).await, Err(Unclean::Interrupted { tasks }));
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_fails_stops_the_others_and_is_the_reason() {
        let (_signal, shutdown) = shutdown();
        spawn_slow(&shutdown.tasks(), "nodes", Duration::ZERO);
        shutdown.tasks().spawn("api", async { Err("disk full") });
        let error = shutdown.finished(LIMIT).await.unwrap_err();
        assert_eq!(error.to_string(), "api: disk full");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_stops_the_process_too() {
        let (_signal, shutdown) = shutdown();
        shutdown.tasks().spawn("api", async {
            assert!(std::hint::black_box(false), "expected by this test");
            Ok::<_, Infallible>(())
        });
        let error = shutdown.finished(LIMIT).await.unwrap_err();
        assert_eq!(error.to_string(), "api: panicked");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_is_done_stops_nothing() {
        let (_signal, shutdown) = shutdown();
        let tasks = shutdown.tasks();
        tasks.spawn("once", async { Ok::<_, Infallible>(()) });
        sleep(Duration::from_secs(1)).await;
        assert!(tasks.running().is_empty());
        assert!(!tasks.stopping().is_cancelled());
    }
}
