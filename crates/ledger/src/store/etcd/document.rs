//! One document beside the blocks, for decisions about all subnets at once. It is swapped like a
//! block, by a transaction that compares the key's mod revision.

use std::time::Duration;

use futures::future::BoxFuture;
use tonic::Status;

use super::client::Client;
use super::tls::EtcdTls;
use super::wire::{
    Compare, CompareTarget, Operation, PutRequest, RangeRequest, RequestOp, TxnRequest,
    WatchCreateRequest,
};
use super::{STORE, unreachable};
use crate::store::{Document, StoreError, Version};

/// The pause before another attempt to reach an etcd that is away.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub struct EtcdDocument {
    client: Client,
    key: String,
}

impl EtcdDocument {
    /// Kept as `<prefix>/<name>`. Connects when it is first used.
    pub fn new(
        endpoints: &[String],
        prefix: &str,
        name: &str,
        tls: Option<&EtcdTls>,
    ) -> Result<Self, StoreError> {
        let client = Client::new(endpoints, tls).map_err(|error| StoreError::new(STORE, error))?;
        Ok(Self::of(client, prefix, name))
    }

    pub(super) fn of(client: Client, prefix: &str, name: &str) -> Self {
        let key = format!("{}/{name}", prefix.trim_end_matches('/'));
        Self { client, key }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// `None` when it was never written.
    pub fn read(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>> {
        Box::pin(async move { self.found().await.map_err(|error| unreachable(&error)) })
    }

    async fn found(&self) -> Result<Option<(Version, Vec<u8>)>, Status> {
        let request = RangeRequest {
            key: self.key.clone().into_bytes(),
            range_end: Vec::new(),
            limit: 1,
            keys_only: false,
        };
        let found = self.client.range(request).await?.kvs.into_iter().next();
        Ok(found.map(|entry| (Version(entry.mod_revision.unsigned_abs()), entry.value)))
    }

    /// Returns whether the document was written: not if it has another version than `expected`.
    /// After an error it may have been.
    pub fn swap(
        &self,
        value: Vec<u8>,
        expected: Option<Version>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let key = self.key.clone().into_bytes();
            // A key that is not there has revision 0, and etcd counts in i64.
            let Ok(revision) = i64::try_from(expected.map_or(0, |version| version.0)) else {
                return Ok(false);
            };
            let compare = Compare {
                target: CompareTarget::ModRevision.into(),
                key: key.clone(),
                mod_revision: Some(revision),
            };
            let put = RequestOp {
                request: Some(Operation::Put(PutRequest { key, value })),
            };
            let request = TxnRequest {
                compare: vec![compare],
                success: vec![put],
            };
            let response = self.client.txn(request).await;
            Ok(response.map_err(|error| unreachable(&error))?.succeeded)
        })
    }

    /// Returns when the document may have another version than `seen`. If etcd can't be asked, that
    /// is after a pause.
    pub fn changed(&self, seen: Option<Version>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let waiting = async {
                let create = WatchCreateRequest {
                    key: self.key.clone().into_bytes(),
                    range_end: Vec::new(),
                    prev_kv: false,
                };
                // It watches first and then reads, so that no change is missed.
                let mut responses = self.client.watch(create).await?;
                if self.found().await?.map(|(version, _)| version) == seen {
                    responses.message().await?;
                }
                Ok::<_, Status>(())
            };
            if waiting.await.is_err() {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        })
    }
}
