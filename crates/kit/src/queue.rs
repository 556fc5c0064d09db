//! A work queue for loops that `kube::runtime::Controller` does not fit: items that do not come
//! from a watch, several workers, delays. It keeps client-go's promises:
//! - An item that is added often before it is taken is taken once.
//! - No two workers work on the same item at once. An item that is added while it is worked on is
//!   taken once more afterwards.
//! - Items are taken in the order they were added; a delayed one counts as added when its delay is
//!   over.
//! - An item that fails comes back, after a longer delay each time, until it succeeds.

mod metrics;
mod state;

use std::{ops::Deref, pin::pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::backoff::Exponential;
use metrics::Instruments;
pub use metrics::QueueMetrics;
use state::{Next, State};

/// As client-go's: 5 ms after the first failure, never more than 1000 s.
pub const DEFAULT_BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(5),
    max: Duration::from_secs(1000),
};

/// Clones share the queue.
#[derive(Debug)]
pub struct Queue<T> {
    inner: Arc<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    state: Mutex<State<T>>,
    /// Notified of every change that a waiting worker might have to act on. All workers are woken:
    /// the next delay to end and the end of the queue concern each of them.
    changed: Notify,
    instruments: Instruments,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<T: Clone + Ord + Send + 'static> Queue<T> {
    pub fn new(name: &str, backoff: Exponential, metrics: &QueueMetrics) -> Self {
        let inner = Arc::new_cyclic(|queue: &std::sync::Weak<Inner<T>>| {
            let queue = queue.clone();
            let unfinished = move |now| {
                let inner = queue.upgrade()?;
                Some(inner.lock(|state| state.unfinished(now)))
            };
            Inner {
                state: Mutex::new(State::new(backoff)),
                changed: Notify::new(),
                instruments: metrics.instruments(name, unfinished),
            }
        });
        Self { inner }
    }

    /// Adds `item`, unless it waits already.
    pub fn add(&self, item: T) {
        self.inner.change(|state, now| state.add(item, now));
    }

    /// Adds `item` once `delay` is over; of several delays the shortest counts.
    pub fn add_after(&self, item: T, delay: Duration) {
        self.inner.instruments.retries.inc();
        self.inner.change(|state, now| state.add_after(item, delay, now));
    }

    /// How many items wait to be taken; those that are delayed or worked on don't count.
    pub fn len(&self) -> usize {
        self.inner.lock(|state| state.depth())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next item, once there is one; `None` once the queue is shut down and nothing is left to
    /// do.
    pub async fn take(&self) -> Option<Work<T>> {
        let mut changed = pin!(self.inner.changed.notified());
        loop {
            // From here on no change is missed.
            changed.as_mut().enable();
            let next = self.inner.change(|state, now| state.take(now));
            match next {
                Next::Item { item, waited } => {
                    self.inner.instruments.queue_duration.observe(waited.as_secs_f64());
                    return Some(Work {
                        item,
                        queue: self.clone(),
                        since: Instant::now(),
                    });
                }
                Next::End => return None,
                Next::Later(None) => changed.as_mut().await,
                Next::Later(Some(due)) => tokio::select! {
                    () = changed.as_mut() => {}
                    () = sleep_until(due) => {}
                },
            }
            changed.set(self.inner.changed.notified());
        }
    }

    /// Accepts no more items; delayed ones are dropped. Returns when all waiting items and all
    /// items in work are done, so workers must go on taking meanwhile.
    pub async fn drain(&self) {
        self.inner.change(|state, _| state.shut_down());
        let mut changed = pin!(self.inner.changed.notified());
        loop {
            changed.as_mut().enable();
            if self.inner.lock(|state| state.is_done()) {
                return;
            }
            changed.as_mut().await;
            changed.set(self.inner.changed.notified());
        }
    }
}

impl<T: Clone + Ord> Inner<T> {
    fn lock<R>(&self, on: impl FnOnce(&mut State<T>) -> R) -> R {
        on(&mut self.state.lock())
    }

    /// Changes the state, updates the metrics, and wakes the workers if there is something new for
    /// them.
    fn change<R>(&self, on: impl FnOnce(&mut State<T>, Instant) -> R) -> R {
        let (result, news) = self.lock(|state| {
            let result = on(state, Instant::now());
            self.instruments
                .depth
                .set(i64::try_from(state.depth()).unwrap_or(i64::MAX));
            self.instruments.adds.inc_by(state.count_adds());
            (result, state.has_news())
        });
        if news {
            self.changed.notify_waiters();
        }
        result
    }
}

/// An item that was taken. When it is dropped the item counts as done, also when the worker panics
/// or is cancelled; report the result with [`Work::succeeded`] or [`Work::failed`].
#[derive(Debug)]
pub struct Work<T: Clone + Ord + Send + 'static> {
    item: T,
    queue: Queue<T>,
    since: Instant,
}

impl<T: Clone + Ord + Send + 'static> Work<T> {
    /// The item succeeded: its failures are forgotten.
    pub fn succeeded(self) {
        self.queue.inner.change(|state, _| state.forget(&self.item));
    }

    /// The item failed: it comes back after its back-off, which is returned. Once the queue drains,
    /// it does not come back.
    pub fn failed(self) -> Duration {
        self.queue.inner.instruments.retries.inc();
        self.queue
            .inner
            .change(|state, now| state.retry(self.item.clone(), now))
    }
}

impl<T: Clone + Ord + Send + 'static> Deref for Work<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T: Clone + Ord + Send + 'static> Drop for Work<T> {
    fn drop(&mut self) {
        let worked = self.since.elapsed().as_secs_f64();
        self.queue.inner.instruments.work_duration.observe(worked);
        self.queue.inner.change(|state, _| state.done(&self.item));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use prometheus_client::registry::Registry;
    use tokio::time::sleep;

    use super::*;

    fn queue() -> Queue<u32> {
        let metrics = QueueMetrics::register(&mut Registry::default());
        Queue::new("test", DEFAULT_BACKOFF, &metrics)
    }

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_added_twice_is_taken_once() {
        let queue = queue();
        queue.add(1);
        queue.add(2);
        queue.add(1);
        assert_eq!(queue.len(), 2);
        assert_eq!(*queue.take().await.unwrap(), 1);
        assert_eq!(*queue.take().await.unwrap(), 2);
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_added_while_worked_on_is_taken_once_more_afterwards() {
        let queue = queue();
        queue.add(1);
        let work = queue.take().await.unwrap();
        queue.add(1);
        queue.add(1);
        assert!(tokio::time::timeout(millis(100), queue.take()).await.is_err());
        work.succeeded();
        queue.take().await.unwrap().succeeded();
        assert!(tokio::time::timeout(millis(100), queue.take()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_dies_leaves_its_item_to_others() {
        let queue = queue();
        queue.add(1);
        let work = queue.take().await.unwrap();
        queue.add(1);
        drop(work);
        assert_eq!(*queue.take().await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_item_is_on_time_when_its_waiting_worker_is_busy() {
        let queue = queue();
        let start = Instant::now();
        let taken = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..2 {
            let (queue, taken) = (queue.clone(), taken.clone());
            tokio::spawn(async move {
                while let Some(work) = queue.take().await {
                    taken.lock().unwrap().push((*work, start.elapsed()));
                    sleep(millis(10_000)).await;
                }
            });
        }
        sleep(millis(1)).await;
        queue.add_after(7, millis(1_000));
        sleep(millis(1)).await;
        queue.add(1);
        sleep(millis(5_000)).await;
        assert_eq!(*taken.lock().unwrap(), [(1, millis(2)), (7, millis(1_001))]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_shortest_delay_counts() {
        let queue = queue();
        let start = Instant::now();
        queue.add_after(1, millis(500));
        queue.add_after(1, millis(200));
        queue.add_after(1, millis(900));
        queue.take().await.unwrap().succeeded();
        assert_eq!(start.elapsed(), millis(200));
        assert!(tokio::time::timeout(millis(5_000), queue.take()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_back_off_per_item_until_success() {
        let queue = queue();
        queue.add(1);
        for expected in [5, 10, 20] {
            assert_eq!(queue.take().await.unwrap().failed(), millis(expected));
        }
        queue.add(2);
        assert_eq!(queue.take().await.unwrap().failed(), millis(5));
        assert_eq!(*queue.take().await.unwrap(), 2);
        queue.take().await.unwrap().succeeded();
        queue.add(1);
        assert_eq!(queue.take().await.unwrap().failed(), millis(5));
    }

    #[tokio::test(start_paused = true)]
    async fn drain_finishes_queued_items_and_drops_delayed_and_new_ones() {
        let queue = queue();
        queue.add(1);
        queue.add(2);
        queue.add_after(3, millis(1));
        let start = Instant::now();
        let workers = [(); 3].map(|()| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut taken = Vec::new();
                while let Some(work) = queue.take().await {
                    taken.push(*work);
                    queue.add(4);
                    sleep(millis(100)).await;
                }
                taken
            })
        });
        queue.drain().await;
        assert_eq!(start.elapsed(), millis(100));
        let mut taken = Vec::new();
        for worker in workers {
            taken.extend(worker.await.unwrap());
        }
        assert_eq!(taken, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_are_named_and_counted_as_client_go_does() {
        let mut registry = Registry::default();
        let metrics = QueueMetrics::register(&mut registry);
        let queue = Queue::new("nodes", DEFAULT_BACKOFF, &metrics);
        queue.add(1);
        queue.add(1);
        queue.add(2);
        sleep(millis(2_000)).await;
        let work = queue.take().await.unwrap();
        sleep(millis(3_000)).await;
        let other = queue.take().await.unwrap();
        sleep(millis(1_000)).await;

        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"workqueue_depth{name="nodes"} 0"#,
            r#"workqueue_adds_total{name="nodes"} 2"#,
            r#"workqueue_queue_duration_seconds_sum{name="nodes"} 7.0"#,
            r#"workqueue_queue_duration_seconds_count{name="nodes"} 2"#,
            r#"workqueue_unfinished_work_seconds{name="nodes"} 5.0"#,
            r#"workqueue_longest_running_processor_seconds{name="nodes"} 4.0"#,
            r#"workqueue_retries_total{name="nodes"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }

        work.failed();
        other.succeeded();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"workqueue_work_duration_seconds_sum{name="nodes"} 5.0"#,
            r#"workqueue_unfinished_work_seconds{name="nodes"} 0.0"#,
            r#"workqueue_retries_total{name="nodes"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
