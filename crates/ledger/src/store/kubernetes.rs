//! A store in a Kubernetes API, for any number of processes: an AddressBlock for each block,
//! written only with the resourceVersion that was read. People can look at it with kubectl.
//!
//! The API server does not write an unchanged object: such a write succeeds and leaves the version
//! as it is. That is safe, because the next writer on that version has read what we wanted to
//! write.

mod object;
mod watch;

use std::time::Duration;

use berth_api::AddressBlock;
use berth_api::names::{NAMESPACE, SUBNET_LABEL};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Client, Error, ResourceExt};
use tracing::warn;

use super::{Change, Document, Store, StoreError, Stored, Version, Write, Written, name};
use crate::record::{BlockKey, Record};
use watch::Watch;

const STORE: &str = "kubernetes";

/// The ConfigMap that says which subnets there are.
const PLAN: &str = "berth-address-plan";
const PLAN_KEY: &str = "plan.json";

/// The writes of one call that are sent at the same time.
const CONCURRENT_WRITES: usize = 16;
/// The most blocks in one answer.
const PAGE: u32 = 256;
/// The timeout of a request. After it, the outcome is not known.
const TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub struct KubernetesStore {
    blocks: Api<AddressBlock>,
    plans: Api<ConfigMap>,
}

impl std::fmt::Debug for KubernetesStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesStore").finish_non_exhaustive()
    }
}

impl KubernetesStore {
    /// The CRD of AddressBlock must be there.
    pub fn new(client: Client) -> Self {
        Self {
            blocks: Api::all(client.clone()),
            plans: Api::namespaced(client, NAMESPACE),
        }
    }

    async fn load_all(&self, subnet: &str) -> Result<Vec<Stored>, StoreError> {
        let mut page = ListParams::default().labels(&selector(subnet)).limit(PAGE);
        let mut blocks = Vec::new();
        loop {
            let list = within(self.blocks.list(&page)).await.map_err(unreachable)?;
            for object in &list.items {
                blocks.push(decode(object)?);
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(blocks),
            }
        }
    }

    async fn read_one(&self, key: &BlockKey) -> Result<Option<Stored>, StoreError> {
        let object = match within(self.blocks.get(&object::object_name(key))).await {
            Ok(object) => object,
            Err(KubernetesError::Api(Error::Api(status))) if is_missing(&status) => {
                return Ok(None);
            }
            Err(failure) => return Err(unreachable(failure)),
        };
        name::confirm(STORE, key, decode(&object)?).map(Some)
    }

    async fn all_subnets(&self) -> Result<Vec<String>, StoreError> {
        let mut page = ListParams::default().limit(PAGE);
        let mut subnets = Vec::new();
        loop {
            let list = within(self.blocks.list_metadata(&page)).await.map_err(unreachable)?;
            subnets.extend(
                list.items
                    .into_iter()
                    .filter_map(|mut block| block.labels_mut().remove(SUBNET_LABEL)),
            );
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
        subnets.sort_unstable();
        subnets.dedup();
        Ok(subnets)
    }

    async fn swap(&self, write: Write) -> Written {
        if write.expected == Some(Version(0)) {
            // No object has this version, and some servers take it for any version.
            return Written::Conflict;
        }
        let record = write.record.filter(|record| !record.is_empty());
        let done = match (&record, write.expected) {
            (Some(record), None) => within(self.create(&write.key, record)).await,
            (Some(record), Some(version)) => {
                within(self.replace(&write.key, record, version)).await
            }
            (None, Some(version)) => within(self.delete(&write.key, version)).await,
            (None, None) => return self.expect_none(&write.key).await,
        };
        let failure = match done {
            Ok(written) => return written,
            Err(failure) => failure,
        };
        // The server checks the resourceVersion before it writes, so after such an error nothing is
        // written.
        if let KubernetesError::Api(Error::Api(status)) = &failure
            && (status.code == 409 || write.expected.is_some() && is_missing(status))
        {
            return Written::Conflict;
        }
        // The write is forbidden or invalid: the server refused it before it wrote anything.
        if let KubernetesError::Api(Error::Api(status)) = &failure
            && matches!(status.code, 400..=403 | 404 | 413 | 422)
        {
            return Written::Refused(format!(
                "{STORE}: {}: {}",
                object::object_name(&write.key),
                status.message
            ));
        }
        warn!(block = object::object_name(&write.key), error = %failure, "the API server did not \
              confirm the write of a block; reading it again");
        Written::Unknown
    }

    async fn create(&self, key: &BlockKey, record: &Record) -> kube::Result<Written> {
        let made = self
            .blocks
            .create(&PostParams::default(), &object::encode(key, record))
            .await?;
        Ok(written(&made))
    }

    async fn replace(
        &self,
        key: &BlockKey,
        record: &Record,
        version: Version,
    ) -> kube::Result<Written> {
        let mut object = object::encode(key, record);
        object.metadata.resource_version = Some(version.0.to_string());
        let params = PostParams::default();
        let replaced = self.blocks.replace(&object::object_name(key), &params, &object).await?;
        Ok(written(&replaced))
    }

    async fn delete(&self, key: &BlockKey, version: Version) -> kube::Result<Written> {
        let params = DeleteParams::default().preconditions(Preconditions {
            resource_version: Some(version.0.to_string()),
            uid: None,
        });
        let deleted = self.blocks.delete(&object::object_name(key), &params).await?;
        // An object with a finalizer, which only a person can have added, is not gone yet.
        let stays = deleted
            .left()
            .is_some_and(|block| block.metadata.deletion_timestamp.is_some());
        Ok(if stays { Written::Unknown } else { Written::Done(None) })
    }

    async fn plan(&self) -> Result<Option<Document>, StoreError> {
        let found = within(self.plans.get_opt(PLAN)).await;
        let Some(found) = found.map_err(|failure| StoreError::new(STORE, failure))? else {
            return Ok(None);
        };
        let version = found.resource_version().and_then(|version| version.parse().ok());
        let version =
            version.ok_or_else(|| StoreError::new(STORE, "a ConfigMap has no resourceVersion"))?;
        let text = found
            .data
            .and_then(|mut data| data.remove(PLAN_KEY))
            .unwrap_or_else(|| "{}".to_owned());
        Ok(Some((Version(version), text.into_bytes())))
    }

    async fn replace_plan(
        &self,
        expected: Option<Version>,
        text: Vec<u8>,
    ) -> Result<bool, StoreError> {
        let text = String::from_utf8(text).map_err(|error| StoreError::new(STORE, error))?;
        let mut object = ConfigMap {
            data: Some([(PLAN_KEY.to_owned(), text)].into()),
            ..ConfigMap::default()
        };
        object.metadata.name = Some(PLAN.to_owned());
        object.metadata.resource_version = expected.map(|version| version.0.to_string());
        let params = PostParams::default();
        let written = match expected {
            Some(_) => within(self.plans.replace(PLAN, &params, &object)).await,
            None => within(self.plans.create(&params, &object)).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(KubernetesError::Api(Error::Api(status))) if matches!(status.code, 404 | 409) => {
                Ok(false)
            }
            Err(failure) => Err(StoreError::new(STORE, failure)),
        }
    }

    async fn expect_none(&self, key: &BlockKey) -> Written {
        match self.read_one(key).await {
            Ok(None) => Written::Done(None),
            Ok(Some(_)) => Written::Conflict,
            Err(_) => Written::Unknown,
        }
    }
}

impl Store for KubernetesStore {
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
            let watch = Watch::open(&self.blocks, selector(subnet)).await;
            Ok(watch.map_err(unreachable)?.changes())
        }
        .boxed()
    }

    fn read_plan(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>> {
        self.plan().boxed()
    }

    fn swap_plan(
        &self,
        expected: Option<Version>,
        text: Vec<u8>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.replace_plan(expected, text).boxed()
    }

    fn plan_place(&self) -> String {
        format!("ConfigMap {NAMESPACE}/{PLAN}")
    }

    fn subnets(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.all_subnets().boxed()
    }
}

/// A request without an answer, or with a bad one.
#[derive(Debug, thiserror::Error)]
enum KubernetesError {
    #[error("the API server does not answer")]
    Late,
    #[error("the API server's store is older than what it showed before")]
    Behind,
    #[error(transparent)]
    Api(#[from] Error),
}

async fn within<T>(asking: impl Future<Output = kube::Result<T>>) -> Result<T, KubernetesError> {
    let answer = tokio::time::timeout(TIMEOUT, asking).await;
    answer.map_or(Err(KubernetesError::Late), |answer| {
        answer.map_err(KubernetesError::from)
    })
}

fn selector(subnet: &str) -> String {
    format!("{SUBNET_LABEL}={subnet}")
}

/// Whether this object is missing. A 404 without a name means that the server does not know
/// AddressBlocks at all.
fn is_missing(status: &Status) -> bool {
    let details = status.details.as_ref();
    status.code == 404 && details.is_some_and(|details| !details.name.is_empty())
}

fn unreachable(failure: KubernetesError) -> StoreError {
    match failure {
        KubernetesError::Api(Error::Api(status)) if status.code == 404 => StoreError::new(
            STORE,
            "the API server does not know AddressBlocks: apply the CRDs with `berth \
             crds | kubectl apply -f -`",
        ),
        failure => StoreError::new(STORE, failure),
    }
}

fn decode(object: &AddressBlock) -> Result<Stored, StoreError> {
    let fault = |why: object::Unreadable| {
        format!("AddressBlock {} can't be read: {why}{}", object.name_any(), why.fix())
    };
    object::decode(object).map_err(|why| StoreError::new(STORE, fault(why)))
}

/// An answer without a version is as good as no answer.
fn written(object: &AddressBlock) -> Written {
    object::version(object).map_or(Written::Unknown, |version| Written::Done(Some(version)))
}
