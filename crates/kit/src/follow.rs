//! A watch that lasts as long as the process: it lists, watches, goes on where a watch ended, and
//! lists again when it must.
//!
//! It differs from `kube::runtime::watcher` in one thing. An API server whose store was put back
//! from a backup has lower resourceVersions than its clients have seen. It takes a watch from a
//! version that it has not reached yet and stays silent until it gets there, which may be never.
//! So before a watch goes on, the server is asked how far it is; if that is behind what was seen,
//! everything is listed again.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Status;
use kube::runtime::watcher::Event;
use kube::{Api, Resource, ResourceExt};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info, warn};

use crate::backoff::{Backoff, Exponential};

/// As many objects in one answer, as client-go asks for.
const PAGE: u32 = 500;
/// The server ends a watch after so long. The client's own limit for a silent connection is 295 s.
const WATCH_SECONDS: u32 = 290;
/// A watch that has not ended by then is on a connection that died without a word.
const WATCH_SLACK: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A watch that ends sooner has failed, whatever the server says: it must not be begun again at
/// once, and again.
const SHORTEST_WATCH: Duration = Duration::from_millis(100);
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(800),
    max: Duration::from_secs(30),
};

/// Why a watch does not go on from where it is.
enum Broken {
    /// What happened since is not known any more, or what was seen never happened.
    Relist,
    /// Tried again from the same place.
    Failed(String),
}

impl From<kube::Error> for Broken {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => status.into(),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<Box<Status>> for Broken {
    fn from(status: Box<Status>) -> Self {
        match status.code {
            410 => Self::Relist,
            _ => Self::Failed(status.to_string()),
        }
    }
}

/// Who is told. A closure is, and whoever must be waited for.
pub trait Told<K>: Send {
    fn tell(&mut self, event: Event<K>) -> impl Future<Output = ()> + Send;
}

impl<K: Send, F: FnMut(Event<K>) + Send> Told<K> for F {
    async fn tell(&mut self, event: Event<K>) {
        self(event);
    }
}

/// Tells every change of what `selection` selects, for ever. [`Event::Init`] to
/// [`Event::InitDone`] is all that there is, also when it is older than what was told before.
pub async fn follow<K>(api: Api<K>, selection: ListParams, mut told: impl Told<K>)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut backoff = Backoff::new(BACKOFF, StdRng::from_rng(&mut rand::rng()));
    let watch = Watch { api, selection };
    loop {
        let mut seen = loop {
            match watch.list(&mut told).await {
                Ok(seen) => break seen,
                Err(broken) => watch.wait(&broken, &mut backoff).await,
            }
        };
        loop {
            let begin = Instant::now();
            let mut ended = watch.watch(&mut seen, &mut told).await;
            if ended.is_ok() && begin.elapsed() < SHORTEST_WATCH {
                ended = Err(Broken::Failed("the server ended the watch at once".to_owned()));
            }
            if ended.is_ok() || begin.elapsed() > BACKOFF.max {
                backoff.succeed();
            }
            if let Err(broken) = &ended {
                watch.wait(broken, &mut backoff).await;
            }
            if matches!(ended, Err(Broken::Relist)) {
                break;
            }
            let is_behind = loop {
                match watch.is_behind(&seen).await {
                    Ok(is_behind) => break is_behind,
                    Err(broken) => watch.wait(&broken, &mut backoff).await,
                }
            };
            if is_behind {
                info!(
                    resource = watch.api.resource_url(),
                    seen, "the API server's store is older than what was seen; listing again"
                );
                break;
            }
        }
    }
}

struct Watch<K> {
    api: Api<K>,
    selection: ListParams,
}

impl<K> Watch<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// Gives the resourceVersion of what was listed.
    async fn list(&self, told: &mut impl Told<K>) -> Result<String, Broken> {
        told.tell(Event::Init).await;
        let mut page = self.selection.clone().limit(PAGE);
        loop {
            let list = within(self.api.list(&page)).await?;
            for object in list.items {
                told.tell(Event::InitApply(trimmed(object))).await;
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => {
                    told.tell(Event::InitDone).await;
                    return Ok(list.metadata.resource_version.unwrap_or_default());
                }
            }
        }
    }

    /// Until the server ends it.
    async fn watch(&self, seen: &mut String, told: &mut impl Told<K>) -> Result<(), Broken> {
        let params = WatchParams {
            label_selector: self.selection.label_selector.clone(),
            field_selector: self.selection.field_selector.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            send_initial_events: false,
        };
        let deadline = Instant::now() + Duration::from_secs(WATCH_SECONDS.into()) + WATCH_SLACK;
        let mut events = within(self.api.watch(&params, seen)).await?.boxed();
        while let Ok(Some(event)) = timeout_at(deadline, events.next()).await {
            match event? {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    advance(seen, &object);
                    told.tell(Event::Apply(trimmed(object))).await;
                }
                WatchEvent::Deleted(object) => {
                    advance(seen, &object);
                    told.tell(Event::Delete(trimmed(object))).await;
                }
                WatchEvent::Bookmark(bookmark) => *seen = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => return Err(status.into()),
            }
        }
        Ok(())
    }

    /// Whether the server has not reached what was seen of it.
    async fn is_behind(&self, seen: &str) -> Result<bool, Broken> {
        let first = self.selection.clone().limit(1);
        let list = within(self.api.list_metadata(&first)).await?;
        let now = list.metadata.resource_version.unwrap_or_default();
        Ok(match (now.parse::<u128>(), seen.parse::<u128>()) {
            (Ok(now), Ok(seen)) => now < seen,
            _ => false,
        })
    }

    async fn wait(&self, broken: &Broken, backoff: &mut Backoff<StdRng>) {
        let delay = backoff.fail();
        let resource = self.api.resource_url();
        match broken {
            Broken::Failed(error) => {
                warn!(error, resource, "watch failed; retrying in {delay:.1?}")
            }
            Broken::Relist => {
                debug!(resource, "what was seen has expired; listing again in {delay:.1?}")
            }
        }
        tokio::time::sleep(delay).await;
    }
}

fn advance<K: Resource>(seen: &mut String, object: &K) {
    if let Some(version) = object.resource_version() {
        *seen = version;
    }
}

/// Nobody here reads who wrote which field, and it is half of a small object.
fn trimmed<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

async fn within<T>(answer: impl Future<Output = kube::Result<T>>) -> Result<T, Broken> {
    match timeout(REQUEST_TIMEOUT, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Broken::Failed("the API server does not answer".to_owned())),
    }
}
