//! A watch that lasts as long as the process: it lists, watches, goes on where a watch ended, and
//! lists again when it must.
//!
//! It differs from `kube::runtime::watcher` in one thing. An API server whose store was restored
//! from a backup has lower resourceVersions than its clients have seen. Such a server accepts a
//! watch from a version that it has not reached yet, and stays silent until it reaches that
//! version, which may be never. So before a watch goes on, the client asks the server for its
//! version, and lists everything again if that is behind the version seen.
//!
//! All of that is compiled once, here. Only the code that reads an object from its JSON
//! ([`Reader`]) is compiled for each kind. When the rest was, too, it was a fifth of a controller
//! crate's code.

mod json;

use std::marker::PhantomData;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{AsyncBufReadExt, FutureExt};
use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use kube::api::{ListParams, WatchParams};
use kube::core::{Request, Status};
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource, ResourceExt};
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, info, warn};

use crate::backoff::{Backoff, Exponential};

use json::{Line, Page};

/// Objects in one page of a list, as in client-go.
const PAGE: u32 = 500;
/// The server ends a watch after this time. The client's own limit for a silent connection is
/// longer: 295 s.
const WATCH_SECONDS: u32 = 290;
/// How much longer the client waits. After that, it gives up the connection as dead.
const WATCH_SLACK: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A watch that ends sooner has failed, whatever the server says: it must not be restarted in a
/// tight loop.
const MIN_WATCH_DURATION: Duration = Duration::from_millis(100);
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(800),
    max: Duration::from_secs(30),
};

/// Why a list or a watch failed.
enum WatchError {
    /// The server no longer has the changes since the version seen: list everything again.
    Relist,
    /// Try again: a watch goes on from the version seen.
    Failed(String),
}

impl From<kube::Error> for WatchError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => status.into(),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<Box<Status>> for WatchError {
    fn from(status: Box<Status>) -> Self {
        match status.code {
            410 => Self::Relist,
            _ => Self::Failed(status.to_string()),
        }
    }
}

impl From<serde_json::Error> for WatchError {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Receives the events: a closure, or a receiver that the watch must wait for.
pub trait Told<K>: Send {
    fn tell(&mut self, event: Event<K>) -> impl Future<Output = ()> + Send;
}

impl<K: Send, F: FnMut(Event<K>) + Send> Told<K> for F {
    async fn tell(&mut self, event: Event<K>) {
        self(event);
    }
}

/// Tells every change to the objects that `selection` selects, for ever. The events from
/// [`Event::Init`] to [`Event::InitDone`] list all objects that exist, even if their state is older
/// than what was told before.
pub fn follow<'a, K>(
    api: Api<K>,
    selection: ListParams,
    told: impl Told<K> + 'a,
) -> BoxFuture<'a, ()>
where
    K: Resource + DeserializeOwned + Send + 'static,
{
    let url = api.resource_url().to_owned();
    let client = api.into_client();
    let kind = PhantomData;
    Watch {
        client,
        url,
        selection,
    }
    .follow(Box::new(Typed { told, kind }))
}

/// Reads objects of one kind from their JSON and tells them.
trait Reader: Send {
    /// Returns the object's resourceVersion, if there is an object.
    fn tell<'a>(
        &'a mut self,
        event: Event<&'a str>,
    ) -> BoxFuture<'a, serde_json::Result<Option<String>>>;
}

struct Typed<K, T> {
    told: T,
    kind: PhantomData<fn() -> K>,
}

impl<K, T> Reader for Typed<K, T>
where
    K: Resource + DeserializeOwned + Send + 'static,
    T: Told<K>,
{
    fn tell<'a>(
        &'a mut self,
        event: Event<&'a str>,
    ) -> BoxFuture<'a, serde_json::Result<Option<String>>> {
        let mut version = None;
        let mut read = |json| {
            let mut object: K = serde_json::from_str(json)?;
            // Nothing here reads managedFields, and they are half of a small object.
            object.meta_mut().managed_fields = None;
            version = object.resource_version();
            Ok(object)
        };
        let event: serde_json::Result<Event<K>> = match event {
            Event::Init => Ok(Event::Init),
            Event::InitApply(json) => read(json).map(Event::InitApply),
            Event::InitDone => Ok(Event::InitDone),
            Event::Apply(json) => read(json).map(Event::Apply),
            Event::Delete(json) => read(json).map(Event::Delete),
        };
        async move {
            self.told.tell(event?).await;
            Ok(version)
        }
        .boxed()
    }
}

struct Watch {
    client: Client,
    url: String,
    selection: ListParams,
}

impl Watch {
    /// The future is boxed, so that its drop is compiled here, too.
    fn follow<'a>(self, mut reader: Box<dyn Reader + 'a>) -> BoxFuture<'a, ()> {
        async move { self.run(reader.as_mut()).await }.boxed()
    }

    async fn run(&self, reader: &mut dyn Reader) {
        let mut backoff = Backoff::new(BACKOFF, StdRng::from_rng(&mut rand::rng()));
        loop {
            let mut seen = loop {
                match self.list(reader).await {
                    Ok(seen) => break seen,
                    Err(broken) => self.wait(&broken, &mut backoff).await,
                }
            };
            loop {
                let begin = Instant::now();
                let mut ended = self.watch(&mut seen, reader).await;
                if ended.is_ok() && begin.elapsed() < MIN_WATCH_DURATION {
                    let at_once = "the server ended the watch at once";
                    ended = Err(WatchError::Failed(at_once.to_owned()));
                }
                if ended.is_ok() || begin.elapsed() > BACKOFF.max {
                    backoff.succeed();
                }
                if let Err(broken) = &ended {
                    self.wait(broken, &mut backoff).await;
                }
                if matches!(ended, Err(WatchError::Relist)) {
                    break;
                }
                let is_behind = loop {
                    match self.is_behind(&seen).await {
                        Ok(is_behind) => break is_behind,
                        Err(broken) => self.wait(&broken, &mut backoff).await,
                    }
                };
                if is_behind {
                    info!(
                        resource = self.url,
                        seen, "the API server is behind the resourceVersion seen; listing again"
                    );
                    break;
                }
            }
        }
    }

    /// Returns the resourceVersion of the list.
    async fn list(&self, reader: &mut dyn Reader) -> Result<String, WatchError> {
        reader.tell(Event::Init).await?;
        let mut params = self.selection.clone().limit(PAGE);
        loop {
            let request = Request::new(&self.url).list(&params);
            let text = self.text(request.map_err(kube::Error::BuildRequest)?).await?;
            let page: Page<'_> = serde_json::from_str(&text)?;
            for object in page.items.unwrap_or_default() {
                reader.tell(Event::InitApply(object.get())).await?;
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => {
                    reader.tell(Event::InitDone).await?;
                    return Ok(page.metadata.resource_version.unwrap_or_default());
                }
            }
        }
    }

    /// Runs until the server or the connection ends the watch. [`Watch::is_behind`] then finds out
    /// whether the server still answers.
    async fn watch(&self, seen: &mut String, reader: &mut dyn Reader) -> Result<(), WatchError> {
        let params = WatchParams {
            label_selector: self.selection.label_selector.clone(),
            field_selector: self.selection.field_selector.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            send_initial_events: false,
        };
        let deadline = Instant::now() + Duration::from_secs(WATCH_SECONDS.into()) + WATCH_SLACK;
        let request = Request::new(&self.url).watch(&params, seen);
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        // kube's client reads only the first event of a stream that is compressed event by event.
        let identity = HeaderValue::from_static("identity");
        request.headers_mut().insert(ACCEPT_ENCODING, identity);
        let mut stream = Box::pin(with_timeout(self.client.request_stream(request)).await?);
        let mut line = Vec::new();
        loop {
            line.clear();
            match timeout_at(deadline, stream.read_until(b'\n', &mut line)).await {
                Ok(Ok(length)) if length > 0 => {}
                Ok(Err(error)) => {
                    debug!(resource = self.url, %error, "watch connection broke; reconnecting");
                    return Ok(());
                }
                Ok(Ok(_)) | Err(_) => return Ok(()),
            }
            let event = match Line::read(&line) {
                // The connection ended in the middle of the event.
                Err(error) if error.is_eof() => return Ok(()),
                event => event?,
            };
            let version = match event {
                Line::Apply(json) => reader.tell(Event::Apply(json)).await?,
                Line::Delete(json) => reader.tell(Event::Delete(json)).await?,
                Line::Bookmark(version) => Some(version),
                Line::Error(status) => return Err(status.into()),
            };
            if let Some(version) = version {
                *seen = version;
            }
        }
    }

    /// Whether the server's version is behind the version that was seen.
    async fn is_behind(&self, seen: &str) -> Result<bool, WatchError> {
        let first = self.selection.clone().limit(1);
        let request = Request::new(&self.url).list_metadata(&first);
        let text = self.text(request.map_err(kube::Error::BuildRequest)?).await?;
        let page: Page<'_> = serde_json::from_str(&text)?;
        let now = page.metadata.resource_version.unwrap_or_default();
        Ok(match (now.parse::<u128>(), seen.parse::<u128>()) {
            (Ok(now), Ok(seen)) => now < seen,
            _ => false,
        })
    }

    async fn text(&self, request: http::Request<Vec<u8>>) -> Result<String, WatchError> {
        with_timeout(self.client.request_text(request)).await
    }

    async fn wait(&self, broken: &WatchError, backoff: &mut Backoff<StdRng>) {
        let delay = backoff.fail();
        let resource = &self.url;
        match broken {
            WatchError::Failed(error) => {
                warn!(error, resource, "watch failed; retrying in {delay:.1?}")
            }
            WatchError::Relist => {
                debug!(resource, "resourceVersion expired; listing again in {delay:.1?}")
            }
        }
        tokio::time::sleep(delay).await;
    }
}

async fn with_timeout<T>(answer: impl Future<Output = kube::Result<T>>) -> Result<T, WatchError> {
    match timeout(REQUEST_TIMEOUT, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(WatchError::Failed("the API server does not answer".to_owned())),
    }
}
