//! A store in etcd, for any number of processes. Each swap is a transaction that compares the key's
//! mod revision, and is answered by a quorum.

mod client;
mod document;
mod key;
mod members;
mod tls;
mod watch;
mod wire;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use tonic::Status;
use tracing::warn;

use super::{Change, Document, Store, StoreError, Stored, Version, Write, Written, codec, name};
use crate::record::BlockKey;
use client::Client;
pub use document::EtcdDocument;
use key::{Keys, Span};
pub use tls::{EtcdFiles, EtcdTls};
use watch::Watch;
use wire::{
    Compare, CompareTarget, DeleteRangeRequest, KeyValue, Operation, PutRequest, RangeRequest,
    RequestOp, TxnRequest,
};

const STORE: &str = "etcd";

/// The writes of one call that are sent at the same time.
const CONCURRENT_WRITES: usize = 16;
/// The most blocks in one answer.
const PAGE: i64 = 256;

#[derive(Debug)]
pub struct EtcdStore {
    client: Client,
    keys: Keys,
    plan: EtcdDocument,
}

impl EtcdStore {
    /// Blocks are kept under `<prefix>/blocks/`. Fails when etcd does not answer.
    pub fn connect<'a>(
        endpoints: &'a [String],
        prefix: &'a str,
        tls: Option<&'a EtcdTls>,
    ) -> BoxFuture<'a, Result<Self, StoreError>> {
        Box::pin(async move {
            let client =
                Client::new(endpoints, tls).map_err(|error| StoreError::new(STORE, error))?;
            let keys = Keys::new(prefix);
            let plan = EtcdDocument::of(client.clone(), prefix, "plan");
            let store = Self { client, keys, plan };
            match store.page(&store.keys.all(), 1, true).await {
                Ok(_) => Ok(store),
                Err(error) => {
                    let endpoints = endpoints.join(", ");
                    Err(StoreError::new(
                        STORE,
                        format_args!("{endpoints} can't be used: {}", error.why),
                    ))
                }
            }
        })
    }

    /// The first entries, in the order of their keys, and whether there are more.
    async fn page(
        &self,
        span: &Span,
        limit: i64,
        keys_only: bool,
    ) -> Result<(Vec<KeyValue>, bool), StoreError> {
        let request = RangeRequest {
            key: span.start.clone(),
            range_end: span.end.clone(),
            limit,
            keys_only,
        };
        let response = self.client.range(request).await.map_err(|error| unreachable(&error))?;
        Ok((response.kvs, response.more))
    }

    async fn load_all(&self, subnet: &str) -> Result<Vec<Stored>, StoreError> {
        let mut span = self.keys.of_subnet(subnet);
        let mut blocks = Vec::new();
        loop {
            // Each page has a revision of its own. That is enough: blocks do not depend on each
            // other, and the watch brings the changes in between.
            let (entries, more) = self.page(&span, PAGE, false).await?;
            for entry in &entries {
                blocks.push(self.keys.read(entry).map_err(|error| StoreError::new(STORE, error))?);
            }
            match entries.into_iter().next_back() {
                Some(last) if more => span = span.after(last.key),
                _ => return Ok(blocks),
            }
        }
    }

    async fn read_one(&self, key: &BlockKey) -> Result<Option<Stored>, StoreError> {
        let span = Span {
            start: self.keys.of(key),
            end: Vec::new(),
        };
        let (entries, _) = self.page(&span, 1, false).await?;
        let Some(entry) = entries.first() else {
            return Ok(None);
        };
        let stored = self.keys.read(entry).map_err(|error| StoreError::new(STORE, error))?;
        name::confirm(STORE, key, stored).map(Some)
    }

    /// Takes one request for each subnet, however many blocks it has.
    async fn all_subnets(&self) -> Result<Vec<String>, StoreError> {
        let mut span = self.keys.all();
        let mut subnets = Vec::new();
        loop {
            let (entries, _) = self.page(&span, 1, true).await?;
            let Some(entry) = entries.first() else {
                return Ok(subnets);
            };
            let (subnet, _) = self
                .keys
                .parts(&entry.key)
                .map_err(|error| StoreError::new(STORE, error))?;
            span = span.beyond(self.keys.of_subnet(subnet));
            subnets.push(subnet.to_owned());
        }
    }

    async fn swap(&self, write: Write) -> Written {
        let key = self.keys.of(&write.key);
        let record = write.record.filter(|record| !record.is_empty());
        let operation = match &record {
            Some(record) => {
                let mut value = Vec::new();
                codec::encode(write.key.first, record, &mut value);
                let key = key.clone();
                Operation::Put(PutRequest { key, value })
            }
            None => Operation::DeleteRange(DeleteRangeRequest { key: key.clone() }),
        };
        let Some(mod_revision) = revision(write.expected) else {
            return Written::Conflict;
        };
        let compare = Compare {
            target: CompareTarget::ModRevision.into(),
            key,
            mod_revision: Some(mod_revision),
        };
        let request = TxnRequest {
            compare: vec![compare],
            success: vec![RequestOp {
                request: Some(operation),
            }],
        };
        match self.client.txn(request).await {
            Ok(response) if !response.succeeded => Written::Conflict,
            Ok(response) => match (record, response.header) {
                (None, _) => Written::Done(None),
                (Some(_), Some(header)) => {
                    Written::Done(Some(Version(header.revision.unsigned_abs())))
                }
                (Some(_), None) => Written::Unknown,
            },
            Err(error) => {
                warn!(subnet = write.key.subnet, first = %write.key.first, %error, "etcd did not \
                      confirm the write of a block; reading it again");
                Written::Unknown
            }
        }
    }
}

impl Store for EtcdStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn load<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<Vec<Stored>, StoreError>> {
        self.load_all(subnet).boxed()
    }

    fn read<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.read_one(key).boxed()
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'_, Vec<Written>> {
        let swaps = stream::iter(writes).map(|write| self.swap(write));
        swaps.buffered(CONCURRENT_WRITES).collect().boxed()
    }

    fn watch<'a>(
        &'a self,
        subnet: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>> {
        async {
            let watch = Watch::open(&self.client, &self.keys, subnet).await;
            Ok(watch.map_err(|error| unreachable(&error))?.changes())
        }
        .boxed()
    }

    fn read_plan(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>> {
        self.plan.read().boxed()
    }

    fn swap_plan(
        &self,
        expected: Option<Version>,
        text: Vec<u8>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.plan.swap(text, expected).boxed()
    }

    fn plan_place(&self) -> String {
        format!("etcd's key {}", self.plan.key())
    }

    fn subnets(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.all_subnets().boxed()
    }
}

/// The mod revision that the key must have; 0 for a missing key. `None` for a version that no key
/// ever has.
fn revision(expected: Option<Version>) -> Option<i64> {
    match expected {
        None => Some(0),
        Some(Version(0)) => None,
        Some(Version(version)) => i64::try_from(version).ok(),
    }
}

fn unreachable(error: &Status) -> StoreError {
    // `Status` shows its code, its message and its metadata; the message is for people.
    StoreError::new(STORE, error.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn why(endpoints: &[&str]) -> String {
        let endpoints: Vec<String> =
            endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect();
        EtcdStore::connect(&endpoints, "berth", None)
            .await
            .unwrap_err()
            .to_string()
    }

    #[tokio::test]
    async fn an_endpoint_that_can_not_be_used_is_named_with_the_fix() {
        let none = why(&[]).await;
        assert!(none.contains("name at least one"), "{none}");
        let no_url = why(&["etcd at home"]).await;
        assert!(
            no_url.contains("endpoint etcd at home: ") && no_url.contains("write it like"),
            "{no_url}"
        );
        let no_ca = why(&["https://127.0.0.1:2379"]).await;
        assert!(
            no_ca.contains("endpoint https://127.0.0.1:2379 is https: name the CA"),
            "{no_ca}"
        );
        // Nobody listens on port 1.
        let nobody = why(&["http://127.0.0.1:1"]).await;
        assert!(nobody.contains("http://127.0.0.1:1 can't be used: "), "{nobody}");
    }
}
