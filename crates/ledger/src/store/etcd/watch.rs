//! Following a subnet in etcd.

use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use tonic::{Status, Streaming};
use tracing::warn;

use super::client::Client;
use super::key::{Keys, Span};
use super::wire::{Event, EventType, WatchCreateRequest, WatchResponse};
use crate::store::Change;

/// Between attempts to reach an etcd that is away.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// A watch that reconnects when it breaks.
pub struct Watch {
    client: Client,
    keys: Keys,
    span: Span,
    responses: Streaming<WatchResponse>,
}

impl Watch {
    /// Opens a watch that sees all later changes.
    pub async fn open(client: &Client, keys: &Keys, subnet: &str) -> Result<Self, Status> {
        let span = keys.of_subnet(subnet);
        Ok(Self {
            responses: begin(client, &span).await?,
            client: client.clone(),
            keys: keys.clone(),
            span,
        })
    }

    pub fn changes(self) -> BoxStream<'static, Change> {
        let batches = stream::unfold(self, |mut watch| async {
            let changes = watch.next().await;
            Some((stream::iter(changes), watch))
        });
        batches.flatten().boxed()
    }

    async fn next(&mut self) -> Vec<Change> {
        match self.responses.message().await {
            // If etcd has cancelled the watch, we were so slow that the missed changes are
            // compacted.
            Ok(Some(response)) if !response.canceled => response
                .events
                .into_iter()
                .map(|event| change(&self.keys, event))
                .collect(),
            _ => {
                self.reconnect().await;
                // Reported only now: the new watch sees all later changes, so a caller that loads
                // now misses nothing.
                vec![Change::Lost]
            }
        }
    }

    async fn reconnect(&mut self) {
        loop {
            match begin(&self.client, &self.span).await {
                Ok(responses) => {
                    self.responses = responses;
                    return;
                }
                Err(error) => warn!(%error, "cannot reopen a broken etcd watch; retrying"),
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

async fn begin(client: &Client, span: &Span) -> Result<Streaming<WatchResponse>, Status> {
    let create = WatchCreateRequest {
        key: span.start.clone(),
        range_end: span.end.clone(),
        // The previous value says which block was deleted.
        prev_kv: true,
    };
    client.watch(create).await
}

/// A block that can't be read counts as lost: the next load reports what is wrong with it.
fn change(keys: &Keys, event: Event) -> Change {
    let (entry, is_gone) = match event.r#type() {
        EventType::Put => (event.kv, false),
        EventType::Delete => (event.prev_kv, true),
    };
    match entry.map(|entry| keys.read(&entry)) {
        Some(Ok(stored)) if is_gone => Change::Removed(stored.key, stored.version),
        Some(Ok(stored)) => Change::Written(stored),
        Some(Err(_)) | None => Change::Lost,
    }
}
