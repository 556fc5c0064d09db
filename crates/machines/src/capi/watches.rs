//! Watches into the index.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use berth_api::Subnet;
use berth_kit::watch::{Change, Key, changes};
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::Value;
use tokio::sync::watch;
use tracing::debug;

use super::Context;
use super::objects::{Address, Claim};
use crate::pool::outlook;

impl Context {
    pub(super) fn start(&self) {
        let synced = [
            self.watch_subnets(),
            self.watch_claims(),
            self.watch_addresses(),
            self.watch_clusters(),
        ];
        let context = self.clone();
        self.background.spawn(async move {
            for mut one in synced {
                let _ = one.wait_for(|synced| *synced).await;
            }
            context.is_synced.store(true, Ordering::Release);
            let pools: Vec<String> = context.index.lock().pools.keys().cloned().collect();
            for pool in pools {
                context.claim_early(&pool).await;
            }
            let names: Vec<_> = {
                let index = context.index.lock();
                index.claims.keys().chain(index.addresses.keys()).cloned().collect()
            };
            names.into_iter().for_each(|name| context.queue.add(name));
            tokio::join!(context.work(), context.reclaim());
        });
    }

    fn watch_subnets(&self) -> watch::Receiver<bool> {
        let (synced, receiver) = watch::channel(false);
        let context = self.clone();
        self.background.spawn(async move {
            let api: Api<Subnet> = Api::all(context.client.clone());
            changes(api, ListParams::default(), |change| match change {
                Change::Apply(subnet) => {
                    if context.index.lock().apply_subnet(&subnet) {
                        context.pool_changed(&subnet.name_any());
                    }
                }
                Change::Delete(Key { name, .. }) => {
                    if context.index.lock().pools.remove(&name).is_some() {
                        context.pool_changed(&name);
                    }
                }
                Change::Restarted => {}
                Change::Synced => drop(synced.send_replace(true)),
            })
            .await;
        });
        receiver
    }

    fn pool_changed(&self, name: &str) {
        self.mark_unclaimed(name);
        let claims = self.index.lock().claims_of(name);
        claims.into_iter().for_each(|claim| self.queue.add(claim));
        let (context, name) = (self.clone(), name.to_owned());
        self.background.spawn(async move {
            let is_there = || context.index.lock().pools.contains_key(&name);
            let Some(mut outlook) = outlook(&context.ledger, &name, is_there).await else {
                return;
            };
            context.claim_early(&name).await;
            let mut freed = outlook.borrow_and_update().freed;
            while outlook.changed().await.is_ok() {
                let now = outlook.borrow_and_update().freed;
                if now != freed {
                    freed = now;
                    context.wake();
                }
            }
        });
    }

    /// Claims what IPAddress objects have before anybody asks for an address: while claims are
    /// paused, nobody does. If it can't be done yet, it is done before anything is leased.
    async fn claim_early(&self, pool: &str) {
        let has_addresses = {
            let index = self.index.lock();
            let mut addresses = index.addresses.values();
            addresses.any(|address| address.pool.as_deref() == Some(pool))
        };
        // Claiming only a part of them would open the gate although the others are not claimed.
        if !has_addresses || !self.is_synced.load(Ordering::Acquire) {
            return;
        }
        if let Err(error) = self.ensure_claimed(pool).await {
            debug!(
                pool,
                %error,
                "cannot claim the addresses of IPAddress objects; retrying before anything is \
                 leased"
            );
        }
    }

    fn watch_claims(&self) -> watch::Receiver<bool> {
        let (synced, receiver) = watch::channel(false);
        let context = self.clone();
        self.background.spawn(async move {
            let api: Api<DynamicObject> =
                Api::all_with(context.client.clone(), &context.served.claims);
            changes(api, ListParams::default(), |change| match change {
                Change::Apply(object) => {
                    context.index.lock().apply_claim(Arc::new(Claim::of(&object)));
                    context.queue.add(Key::of(&*object));
                }
                Change::Delete(name) => {
                    context.index.lock().delete_claim(&name, &context.cluster);
                    context.waiting.remove(&name);
                    context.queue.add(name);
                }
                Change::Restarted => {}
                Change::Synced => drop(synced.send_replace(true)),
            })
            .await;
        });
        receiver
    }

    fn watch_addresses(&self) -> watch::Receiver<bool> {
        let (synced, receiver) = watch::channel(false);
        let context = self.clone();
        self.background.spawn(async move {
            let api: Api<DynamicObject> =
                Api::all_with(context.client.clone(), &context.served.addresses);
            changes(api, ListParams::default(), |change| match change {
                Change::Apply(object) => {
                    let (name, address) = (Key::of(&*object), Arc::new(Address::of(&object)));
                    context.adopt(&address);
                    context.index.lock().addresses.insert(name.clone(), address);
                    context.queue.add(name);
                }
                Change::Delete(name) => {
                    context.index.lock().addresses.remove(&name);
                    context.queue.add(name);
                }
                Change::Restarted => {}
                Change::Synced => drop(synced.send_replace(true)),
            })
            .await;
        });
        receiver
    }

    /// Claims the address of an IPAddress that came from elsewhere at once, so that nobody else
    /// gets it meanwhile: its claim may be paused, or not exist yet.
    fn adopt(&self, address: &Arc<Address>) {
        let known = self.index.lock().addresses.contains_key(&address.name());
        let Some(pool) = address.pool.clone().filter(|_| !known && !address.is_deleting()) else {
            return;
        };
        let (context, address) = (self.clone(), Arc::clone(address));
        self.background.spawn(async move {
            // If that fails, it is done when the pool is claimed next.
            if context.claim(&pool, std::slice::from_ref(&address)).await.is_err() {
                context.mark_unclaimed(&pool);
            }
        });
    }

    /// If the cluster serves no Clusters, none can pause anything.
    fn watch_clusters(&self) -> watch::Receiver<bool> {
        let (synced, receiver) = watch::channel(self.served.clusters.is_none());
        let Some(resource) = self.served.clusters.clone() else {
            return receiver;
        };
        let context = self.clone();
        self.background.spawn(async move {
            let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
            changes(api, ListParams::default(), |change| match change {
                Change::Apply(object) => {
                    let paused = object
                        .data
                        .pointer("/spec/paused")
                        .and_then(Value::as_bool)
                        .unwrap_or(false);
                    let name = Key::of(&*object);
                    let before = context.index.lock().clusters.insert(name.clone(), paused);
                    if before != Some(paused) {
                        context.cluster_changed(&name);
                    }
                }
                Change::Delete(name) => {
                    context.index.lock().clusters.remove(&name);
                }
                Change::Restarted => {}
                Change::Synced => drop(synced.send_replace(true)),
            })
            .await;
        });
        receiver
    }

    fn cluster_changed(&self, cluster: &Key) {
        let names: Vec<_> = {
            let index = self.index.lock();
            let of_cluster = index.claims.iter().filter(|(name, claim)| {
                name.namespace == cluster.namespace && claim.cluster_name() == Some(&cluster.name)
            });
            of_cluster.map(|(name, _)| name.clone()).collect()
        };
        names.into_iter().for_each(|name| self.queue.add(name));
    }
}
