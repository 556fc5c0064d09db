//! The address plan in etcd, beside blocks that several processes write.

use berth_ledger::store::{EtcdDocument, StoreError, Version};
use futures::future::{BoxFuture, FutureExt};

use super::{Kept, PlanStore, PlanStoreError};

/// Services that share an etcd share one plan.
#[derive(Clone, Debug)]
pub struct PlanDocument {
    document: EtcdDocument,
}

/// The document's name, under the ledger's prefix.
pub const NAME: &str = "subnets";

impl PlanDocument {
    pub fn new(document: EtcdDocument) -> Self {
        Self { document }
    }

    fn failed(&self, error: impl std::fmt::Display) -> PlanStoreError {
        PlanStoreError {
            place: self.place(),
            why: error.to_string(),
        }
    }

    async fn find(&self) -> Result<Kept, PlanStoreError> {
        let found = self
            .document
            .read()
            .await
            .map_err(|error: StoreError| self.failed(error))?;
        let (Version(version), text) = found.unwrap_or((Version(0), Vec::new()));
        let text = String::from_utf8(text).map_err(|error| self.failed(error))?;
        Ok(Kept { text, version })
    }
}

impl PlanStore for PlanDocument {
    fn place(&self) -> String {
        format!("etcd's key {}", self.document.key())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&self) -> BoxFuture<'_, Result<Kept, PlanStoreError>> {
        self.find().boxed()
    }

    fn write<'a>(
        &'a self,
        text: &'a str,
        over: u64,
    ) -> BoxFuture<'a, Result<bool, PlanStoreError>> {
        let swap = self.document.swap(text.as_bytes().to_vec(), version(over));
        swap.map(|written| written.map_err(|error| self.failed(error))).boxed()
    }

    fn changed(&self, seen: u64) -> BoxFuture<'_, ()> {
        self.document.changed(version(seen)).boxed()
    }
}

fn version(number: u64) -> Option<Version> {
    (number > 0).then_some(Version(number))
}
