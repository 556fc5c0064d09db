//! Following a subnet's AddressBlocks.

use std::time::Duration;

use berth_api::AddressBlock;
use futures::stream::{self, BoxStream, StreamExt};
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use tokio::time::Instant;
use tracing::warn;

use super::{KubernetesError, object, within};
use crate::store::Change;

/// The API server ends a watch after this time.
const LENGTH_SECONDS: u32 = 120;
/// A watch that has not ended by then is on a connection that died silently.
const SLACK: Duration = Duration::from_secs(10);

/// Between attempts to reach an API server that is away.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

type Events = BoxStream<'static, kube::Result<WatchEvent<AddressBlock>>>;

/// A watch that continues when it ends, and reconnects when it breaks.
pub struct Watch {
    api: Api<AddressBlock>,
    selector: String,
    /// The resourceVersion up to which all changes were observed.
    seen: String,
    events: Events,
    deadline: Instant,
}

/// What an event means.
enum Meaning {
    Change(Change, String),
    /// Nothing happened up to here.
    Seen(String),
    /// Changes after this may have been missed.
    Broken,
}

impl Watch {
    /// Opens a watch that sees all later changes.
    pub async fn open(api: &Api<AddressBlock>, selector: String) -> Result<Self, KubernetesError> {
        let seen = now(api, &selector).await?;
        Ok(Self {
            events: begin(api, &selector, &seen).await?,
            api: api.clone(),
            selector,
            seen,
            deadline: deadline(),
        })
    }

    pub fn changes(self) -> BoxStream<'static, Change> {
        let changes = stream::unfold(self, |mut watch| async {
            let change = watch.next().await;
            Some((change, watch))
        });
        changes.boxed()
    }

    async fn next(&mut self) -> Change {
        loop {
            let event = tokio::time::timeout_at(self.deadline, self.events.next()).await;
            let is_broken = match event {
                Ok(Some(Ok(event))) => match meaning(event) {
                    Meaning::Change(change, seen) => {
                        self.seen = seen;
                        return change;
                    }
                    Meaning::Seen(seen) => {
                        self.seen = seen;
                        false
                    }
                    Meaning::Broken => true,
                },
                // The watch has reached its time limit: continue where it ended.
                Ok(None) => self.go_on().await.is_err(),
                Ok(Some(Err(_))) | Err(_) => true,
            };
            if is_broken {
                self.reconnect().await;
                // Reported only now: the new watch sees all later changes, so a caller that loads
                // now misses nothing.
                return Change::Lost;
            }
        }
    }

    /// Continues the watch. An error if the server was restored from a backup: it would accept a
    /// watch from a version that it has not reached, and stay silent.
    async fn go_on(&mut self) -> Result<(), KubernetesError> {
        let now = now(&self.api, &self.selector).await?;
        if let (Ok(now), Ok(seen)) = (now.parse::<u128>(), self.seen.parse::<u128>())
            && now < seen
        {
            return Err(KubernetesError::Behind);
        }
        self.events = begin(&self.api, &self.selector, &self.seen).await?;
        self.deadline = deadline();
        Ok(())
    }

    async fn reconnect(&mut self) {
        loop {
            match Self::open(&self.api, self.selector.clone()).await {
                Ok(watch) => {
                    *self = watch;
                    return;
                }
                Err(error) => {
                    warn!(%error, "cannot reopen a broken watch of AddressBlocks; retrying")
                }
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(LENGTH_SECONDS.into()) + SLACK
}

/// The current resourceVersion.
async fn now(api: &Api<AddressBlock>, selector: &str) -> Result<String, KubernetesError> {
    let first = ListParams::default().labels(selector).limit(1);
    let list = within(api.list_metadata(&first)).await?;
    Ok(list.metadata.resource_version.unwrap_or_default())
}

async fn begin(
    api: &Api<AddressBlock>,
    selector: &str,
    seen: &str,
) -> Result<Events, KubernetesError> {
    let params = WatchParams::default().labels(selector).timeout(LENGTH_SECONDS);
    Ok(within(api.watch(&params, seen)).await?.boxed())
}

/// A block that can't be read counts as lost: the next load reports what is wrong with it.
fn meaning(event: WatchEvent<AddressBlock>) -> Meaning {
    let (block, is_gone) = match event {
        WatchEvent::Added(block) | WatchEvent::Modified(block) => (block, false),
        WatchEvent::Deleted(block) => (block, true),
        WatchEvent::Bookmark(bookmark) => return Meaning::Seen(bookmark.metadata.resource_version),
        WatchEvent::Error(_) => return Meaning::Broken,
    };
    let change = match object::decode(&block) {
        Ok(stored) if is_gone => Change::Removed(stored.key, stored.version),
        Ok(stored) => Change::Written(stored),
        Err(_) => Change::Lost,
    };
    match block.metadata.resource_version {
        Some(seen) => Meaning::Change(change, seen),
        None => Meaning::Broken,
    }
}
