//! If a backend cannot mark routes, the hops of our nodes must outlive this process. Otherwise a
//! route whose node was deleted while no controller ran could not be told from the route of another
//! cluster.
//!
//! A ConfigMap holds the hops. A hop is written there before the first route to it is made, so
//! every route of ours is known, wherever this process is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::names::NAMESPACE;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;

use crate::core::Hop;

const NAME: &str = "berth-route-hops";
const KEY: &str = "hops";
/// Only an old leader may still write it, while leaders change.
const MAX_CONFLICTS: u32 = 5;

/// Clones share their state.
#[derive(Clone)]
pub struct Record {
    api: Api<ConfigMap>,
    /// The hops that are known to be written; `None` until the first read.
    known: Arc<Mutex<Option<Arc<BTreeSet<Hop>>>>>,
    /// Hops still to be written; one writer writes all of them.
    pending: Arc<Mutex<BTreeSet<Hop>>>,
    /// One writer at a time.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl Record {
    pub fn new(client: Client) -> Self {
        Self {
            api: Api::namespaced(client, NAMESPACE),
            known: Arc::default(),
            pending: Arc::default(),
            writing: Arc::default(),
        }
    }

    pub fn hops(&self) -> Arc<BTreeSet<Hop>> {
        self.known.lock().clone().unwrap_or_default()
    }

    /// Reads the ConfigMap, once.
    pub async fn load(&self) -> kube::Result<()> {
        if self.known.lock().is_some() {
            return Ok(());
        }
        let there = self.api.get_opt(NAME).await?;
        self.set(there.as_ref().map(hops_of).unwrap_or_default());
        Ok(())
    }

    fn set(&self, hops: BTreeSet<Hop>) {
        *self.known.lock() = Some(Arc::new(hops));
    }

    /// Returns once all of these hops are written. Concurrent callers share a write.
    pub async fn ensure(&self, hops: BTreeSet<Hop>) -> kube::Result<()> {
        if hops.is_subset(&self.hops()) {
            return Ok(());
        }
        self.pending.lock().extend(hops.iter().cloned());
        let _writing = self.writing.lock().await;
        if hops.is_subset(&self.hops()) {
            return Ok(());
        }
        let pending = self.pending.lock().clone();
        self.write(|there| there.extend(pending.iter().cloned()))
            .await?;
        self.pending.lock().retain(|hop| !pending.contains(hop));
        Ok(())
    }

    /// Deletes hops that no node has and no route leads to.
    pub async fn delete(&self, gone: BTreeSet<Hop>) -> kube::Result<()> {
        let _writing = self.writing.lock().await;
        self.write(|there| there.retain(|hop| !gone.contains(hop)))
            .await
    }

    async fn write(&self, change: impl Fn(&mut BTreeSet<Hop>)) -> kube::Result<()> {
        let mut conflicts = 0;
        loop {
            let there = self.api.get_opt(NAME).await?;
            let mut hops = there.as_ref().map(hops_of).unwrap_or_default();
            change(&mut hops);
            let params = PostParams::default();
            let written = match there {
                Some(mut there) => {
                    there.data = Some(data(&hops));
                    self.api.replace(NAME, &params, &there).await
                }
                None => self.api.create(&params, &config_map(&hops)).await,
            };
            match written {
                Ok(_) => {
                    self.set(hops);
                    return Ok(());
                }
                Err(kube::Error::Api(status))
                    if status.code == 409 && conflicts < MAX_CONFLICTS =>
                {
                    conflicts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn config_map(hops: &BTreeSet<Hop>) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(data(hops)),
        ..ConfigMap::default()
    }
}

fn data(hops: &BTreeSet<Hop>) -> BTreeMap<String, String> {
    let lines: Vec<String> = hops.iter().map(ToString::to_string).collect();
    BTreeMap::from([(KEY.to_owned(), lines.join("\n"))])
}

fn hops_of(map: &ConfigMap) -> BTreeSet<Hop> {
    let text = map.data.as_ref().and_then(|data| data.get(KEY));
    let lines = text.into_iter().flat_map(|text| text.split_whitespace());
    lines
        .map(|line| match line.parse() {
            Ok(address) => Hop::Address(address),
            Err(_) => Hop::Instance(line.to_owned()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let hops = BTreeSet::from([
            Hop::Address("10.0.0.1".parse().unwrap()),
            Hop::Address("fd00::1".parse().unwrap()),
            Hop::Instance("i-0123".to_owned()),
        ]);
        assert_eq!(hops_of(&config_map(&hops)), hops);
    }
}
