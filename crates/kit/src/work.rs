//! Works through a queue: several items at a time, but never the same item twice at once.

use std::fmt::{Debug, Display};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tracing::{debug, error, warn};

use crate::queue::Queue;

/// Why an item is to be tried again.
pub trait Retry: Display + Send + 'static {
    /// Another writer was faster: this is logged at debug level only.
    fn is_contention(&self) -> bool {
        false
    }
}

/// Takes items until the queue is shut down and empty. An item that fails comes back after its
/// back-off. The future can be dropped at any point: the running handlers end with it.
pub async fn work<T, F, E>(queue: Queue<T>, at_once: usize, handle: impl Fn(T) -> F)
where
    T: Clone + Debug + Ord + Send + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Retry,
{
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(ended) = running.join_next() => if let Err(error) = ended {
                error!(%error, "a reconcile panicked; its item is not requeued");
            },
            work = queue.take(), if running.len() < at_once => {
                let Some(work) = work else {
                    return;
                };
                let handling = handle(work.clone());
                let task = async move {
                    match handling.await {
                        Ok(()) => work.succeeded(),
                        Err(failure) => {
                            let item = work.clone();
                            let delay = work.failed();
                            if failure.is_contention() {
                                debug!(?item, %failure, "conflict; retrying in {delay:.1?}");
                            } else {
                                warn!(?item, %failure, "reconcile failed; retrying in {delay:.1?}");
                            }
                        }
                    }
                };
                start(&mut running, task.boxed());
            }
        }
    }
}

/// The future is boxed, so that the code that runs a task is compiled once and not for each task.
fn start(running: &mut JoinSet<()>, task: BoxFuture<'static, ()>) {
    running.spawn(task);
}
