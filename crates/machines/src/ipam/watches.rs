//! Watches of Machines and Subnets into the index.

use std::sync::Arc;
use std::time::Duration;

use berth_api::Subnet;
use berth_api::machines::flag::NetworkFlag;
use berth_kit::api_error::is_not_found;
use berth_kit::watch::{Change, Key as ObjectKey, changes};
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tracing::warn;

use super::Context;
use super::index::Key;
use crate::machine::{Machine, Shape};
use crate::pool::outlook;

/// How often to check whether the cluster serves Machines of a shape by now.
const SERVED_INTERVAL: Duration = Duration::from_secs(10);

impl Context {
    /// Starts all loops, in the background.
    pub(super) fn start(&self, networks: Vec<NetworkFlag>) {
        let mut synced = vec![self.watch_subnets()];
        synced.extend(Shape::ALL.map(|shape| self.watch_machines(shape)));
        let context = self.clone();
        self.background
            .spawn(async move { context.ensure_subnets(&networks).await });
        let context = self.clone();
        self.background.spawn(async move {
            // Until all machines are known it is not known which addresses they have.
            for mut one in synced {
                // The sender ends with the process.
                let _ = one.wait_for(|synced| *synced).await;
            }
            let keys = context.index.lock().keys();
            keys.into_iter().for_each(|key| context.queue.add(key));
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
                Change::Delete(ObjectKey { name, .. }) => {
                    if context.index.lock().pools.delete(&name) {
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

    /// The pool may now contain addresses that machines have: these are claimed before it leases to
    /// us. Any machine may have moved into or out of it.
    fn pool_changed(&self, name: &str) {
        self.claimed.lock().remove(name);
        self.recorded.lock().clear();
        let keys = self.index.lock().keys();
        keys.into_iter().for_each(|key| self.queue.add(key));
        let (context, name) = (self.clone(), name.to_owned());
        self.background
            .spawn(async move { context.wake_when_freed(&name).await });
    }

    /// Wakes waiting machines until the pool's subnet leaves the ledger or is replaced.
    async fn wake_when_freed(&self, pool: &str) {
        let is_there = || self.index.lock().pools.contains(pool);
        let Some(mut outlook) = outlook(&self.ledger, pool, is_there).await else {
            return;
        };
        let mut freed = outlook.borrow_and_update().freed;
        while outlook.changed().await.is_ok() {
            let now = outlook.borrow_and_update().freed;
            if now != freed {
                freed = now;
                self.wake();
            }
        }
    }

    fn watch_machines(&self, shape: Shape) -> watch::Receiver<bool> {
        let (synced, receiver) = watch::channel(false);
        let context = self.clone();
        self.background.spawn(async move {
            context.until_served(shape, &synced).await;
            let api: Api<DynamicObject> = Api::all_with(context.client.clone(), &shape.resource());
            changes(api, ListParams::default(), |change| match change {
                Change::Apply(object) => {
                    let machine = Arc::new(Machine::of(shape, &object));
                    let key = context.index.lock().apply_machine(machine);
                    if *synced.borrow() {
                        context.queue.add(key);
                    }
                }
                Change::Delete(ObjectKey { namespace, name }) => {
                    let key = Key {
                        shape,
                        namespace,
                        name,
                    };
                    context.forget(&key);
                }
                Change::Restarted => {}
                Change::Synced => {
                    synced.send_replace(true);
                    let keys = context.index.lock().keys();
                    keys.into_iter().for_each(|key| context.queue.add(key));
                }
            })
            .await;
        });
        receiver
    }

    fn forget(&self, key: &Key) {
        let machine = self.index.lock().delete_machine(key);
        self.waiting.remove(key);
        if let Some(uid) = machine.and_then(|machine| machine.metadata.uid.clone()) {
            self.recorded.lock().remove(&uid);
        }
    }

    /// Waits until the cluster serves this shape: it may serve one shape or both. If it does not,
    /// the watch counts as synced.
    async fn until_served(&self, shape: Shape, synced: &watch::Sender<bool>) {
        let group_version = shape.resource().api_version;
        loop {
            match self.client.list_api_group_resources(&group_version).await {
                Ok(list) if list.resources.iter().any(|resource| resource.name == "machines") => {
                    // Machines that appear now are reported like all others.
                    return;
                }
                Ok(_) => drop(synced.send_replace(true)),
                Err(error) if is_not_found(&error) => drop(synced.send_replace(true)),
                Err(error) => {
                    warn!(
                        %error,
                        group_version,
                        "cannot find out whether the cluster serves Machines; retrying"
                    )
                }
            }
            tokio::time::sleep(SERVED_INTERVAL).await;
        }
    }
}
