//! Stores that a watch keeps up to date.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use berth_testkit::until;
use berth_testkit::within;
use futures::{StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::reflector::{self, reflector};
use kube::runtime::watcher::watcher;
use kube::runtime::{WatchStreamExt, reflector::ObjectRef};

use crate::space::{Space, in_space};
use crate::watch::strategies;

const NAMES: u32 = 200;
const CONCURRENT: usize = 32;

/// Creates, changes, and every other time deletes it: 500 writes for all names.
async fn live(space: &Space, name: &str, goes: bool) {
    space.lease(name).await;
    space.label(name, "written", Some("twice")).await;
    if goes {
        let leases = space.api::<Lease>();
        leases.delete(name, &DeleteParams::default()).await.unwrap();
    }
}

fn versions(
    leases: impl IntoIterator<Item = impl Borrow<Lease>>,
) -> BTreeMap<String, Option<String>> {
    let leases = leases.into_iter();
    let version = |lease: &Lease| (lease.name_any(), lease.resource_version());
    leases.map(|lease| version(lease.borrow())).collect()
}

#[test]
fn a_store_ends_up_as_the_list_after_500_concurrent_writes() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        for (round, config) in strategies().into_iter().enumerate() {
            let (store, writer) = reflector::store();
            let stream = watcher(leases.clone(), config).default_backoff();
            let reflecting = tokio::spawn(
                reflector(writer, stream).for_each(async |event| drop(event.unwrap())),
            );
            // From here on everything comes by the watch.
            within("the store is ready", store.wait_until_ready()).await.unwrap();

            let lives = (0..NAMES).map(async |number| {
                live(&space, &format!("{round}-{number}"), number % 2 == 1).await
            });
            stream::iter(lives)
                .buffer_unordered(CONCURRENT)
                .collect::<Vec<_>>()
                .await;

            let list = leases.list(&ListParams::default()).await.unwrap();
            let expected = versions(list.items);
            until("the store is as the list", async || {
                (versions(store.state()) == expected).then_some(())
            })
            .await;
            let one = ObjectRef::new(&format!("{round}-0")).within(&space.name);
            assert_eq!(store.get(&one).unwrap().labels()["written"], "twice");
            reflecting.abort();
        }
    });
}
