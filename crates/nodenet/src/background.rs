//! Tasks that live as long as the controllers do.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Clones are the same.
#[derive(Clone, Debug)]
pub struct Background {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Background {
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            tasks: TaskTracker::new(),
            stop,
        }
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// Returns when it was told to stop and all tasks have ended.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}
