//! Tells the ledgers of one process what changed, for stores that no other process writes.

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::broadcast;

use super::Change;

/// Enough for watchers that keep up; one that falls behind loads again.
const REMEMBERED: usize = 1024;

/// Clones share the same watchers.
#[derive(Clone, Debug)]
pub struct Changes(broadcast::Sender<Change>);

impl Default for Changes {
    fn default() -> Self {
        Self(broadcast::channel(REMEMBERED).0)
    }
}

impl Changes {
    /// Sends a change to all watchers. To have none is not an error.
    pub fn tell(&self, change: Change) {
        drop(self.0.send(change));
    }

    /// The changes of one subnet from now on.
    pub fn of(&self, subnet: &str) -> BoxStream<'static, Change> {
        let subnet = subnet.to_owned();
        let told =
            stream::unfold((self.0.subscribe(), subnet), |(mut receiver, subnet)| async move {
                loop {
                    let change = match receiver.recv().await {
                        Ok(change) if concerns(&change, &subnet) => change,
                        Ok(_) => continue,
                        Err(broadcast::error::RecvError::Lagged(_)) => Change::Lost,
                        Err(broadcast::error::RecvError::Closed) => return None,
                    };
                    return Some((change, (receiver, subnet)));
                }
            });
        told.boxed()
    }
}

fn concerns(change: &Change, subnet: &str) -> bool {
    match change {
        Change::Written(stored) => stored.key.subnet == subnet,
        Change::Removed(key, _) => key.subnet == subnet,
        Change::Lost => true,
    }
}
