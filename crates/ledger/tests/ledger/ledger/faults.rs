//! What a ledger does where its store fails, is late, or holds what does not fit.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use berth_addr::Family;
use berth_ledger::store::{
    Change, Document, MemoryStore, Store, StoreError, Stored, Version, Write, Written,
};
use berth_ledger::{BlockKey, Clock, Ledger, LedgerError, LedgerMetrics, Record, Tenure};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::{REUSE_DELAY, ids, lease, over, owner, plan, reserved, units};

/// Counts writes, and can answer as if it did not know.
#[derive(Clone, Debug, Default)]
struct Strange {
    store: MemoryStore,
    writes: Arc<AtomicUsize>,
    loads: Arc<AtomicUsize>,
    unsure: Arc<AtomicBool>,
    /// Writes nothing, and does not say so.
    mute: Arc<AtomicBool>,
    broken: Arc<AtomicBool>,
    /// Changes are told as there are permits; at once without.
    news: Option<Arc<Semaphore>>,
}

impl Store for Strange {
    fn is_shared(&self) -> bool {
        true
    }

    fn load<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<Vec<Stored>, StoreError>> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        if self.broken.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::new("strange", "does not answer")) });
        }
        if subnet == "slow" {
            return Box::pin(std::future::pending());
        }
        self.store.load(subnet)
    }

    fn read<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        if self.broken.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::new("strange", "does not answer")) });
        }
        self.store.read(key)
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'_, Vec<Written>> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        if self.mute.load(Ordering::SeqCst) {
            return Box::pin(async move { vec![Written::Unknown; writes.len()] });
        }
        Box::pin(async move {
            let written = self.store.write(writes).await;
            if self.unsure.swap(false, Ordering::SeqCst) {
                return written.into_iter().map(|_| Written::Unknown).collect();
            }
            written
        })
    }

    fn watch<'a>(
        &'a self,
        subnet: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>> {
        let Some(news) = &self.news else {
            return self.store.watch(subnet);
        };
        let (news, watch) = (Arc::clone(news), self.store.watch(subnet));
        Box::pin(async move {
            let told = watch.await?.then(move |change| {
                let news = Arc::clone(&news);
                async move {
                    news.acquire().await.unwrap().forget();
                    change
                }
            });
            Ok(told.boxed())
        })
    }

    fn read_plan(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>> {
        self.store.read_plan()
    }

    fn swap_plan(
        &self,
        expected: Option<Version>,
        text: Vec<u8>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.store.swap_plan(expected, text)
    }

    fn subnets(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.store.subnets()
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_together_share_a_write() {
    let store = Strange::default();
    let ledger = over(store.clone());
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/16"]), REUSE_DELAY)
        .await
        .unwrap();
    let asking = (0..64).map(|n| {
        let ledger = ledger.clone();
        async move { lease(&ledger, &format!("node-{n}"), n * 100..n * 100 + 16).await }
    });
    let grants = futures::future::join_all(asking).await;
    let given: BTreeSet<String> = grants.iter().flat_map(units).collect();
    assert_eq!(given.len(), 64 * 16);
    let writes = store.writes.load(Ordering::SeqCst);
    assert!(writes < 8, "{writes} writes for 64 requests");
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_looked_up_and_not_made_again() {
    let store = Strange::default();
    let ledger = over(store.clone());
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    store.unsure.store(true, Ordering::SeqCst);
    let grant = lease(&ledger, "a", 0..5).await;
    assert_eq!(grant.leases.len(), 5);
    assert_eq!(reserved(&ledger).await, [5]);
}

#[tokio::test(start_paused = true)]
async fn while_the_store_does_not_say_what_it_has_nothing_is_given() {
    let store = Strange::default();
    let ledger = over(store.clone());
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    store.unsure.store(true, Ordering::SeqCst);
    store.broken.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        let refused = ledger.lease("pods", &owner("a"), ids(0..5), None).await;
        assert_eq!(refused.unwrap_err().to_string(), "strange: does not answer");
    }
    store.broken.store(false, Ordering::SeqCst);
    let grant = lease(&ledger, "a", 0..5).await;
    assert_eq!(grant.leases.len(), 5);
    assert_eq!(reserved(&ledger).await, [5], "what the lost write gave is found");
}

/// A store that tells late of what it did: of a removal, after the block was made again.
#[tokio::test(start_paused = true)]
async fn a_late_removal_event_does_not_hide_a_recreated_block() {
    let store = MemoryStore::default();
    let ledger = over(store.clone());
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), Duration::ZERO)
        .await
        .unwrap();
    for round in 0..20 {
        // Without a rest, a block that has no owner goes from the store.
        lease(&ledger, "a", round..round + 1).await;
        let back = ledger.release("pods", &owner("a"), None).await.unwrap();
        assert_eq!(back.len(), 1);
        let given = lease(&ledger, "b", 100 + round..101 + round).await;
        let held = ledger.held("pods", &owner("b")).await.unwrap();
        assert_eq!(held, given.leases, "round {round}");
        assert_eq!(ledger.release("pods", &owner("b"), None).await.unwrap(), given.leases);
    }
}

/// A member of etcd that was away tells late what the others have done since.
#[tokio::test(start_paused = true)]
async fn late_events_of_a_removed_block_do_not_restore_its_owners() {
    let news = Arc::new(Semaphore::new(0));
    let store = Strange {
        news: Some(Arc::clone(&news)),
        ..Strange::default()
    };
    let ledger = over(store);
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), Duration::ZERO)
        .await
        .unwrap();
    lease(&ledger, "a", 0..1).await;
    assert_eq!(ledger.release("pods", &owner("a"), None).await.unwrap().len(), 1);
    // That it was made; not yet that it went.
    news.add_permits(1);
    for _ in 0..3 {
        assert_eq!(ledger.held("pods", &owner("a")).await.unwrap(), []);
    }
    assert_eq!(news.available_permits(), 0, "it was told");
    assert_eq!(reserved(&ledger).await, [0]);
}

fn misplaced(first: &str, offset: u8) -> Write {
    let tenure = Tenure {
        owner: owner("stranger"),
        lease: Uuid::from_u128(99),
        since: 0,
    };
    Write {
        key: BlockKey {
            subnet: "pods".to_owned(),
            first: first.parse().unwrap(),
        },
        expected: None,
        record: Some(Arc::new(Record::new([(offset, tenure)], []).unwrap())),
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_block_lies_across_ours_nothing_is_given() {
    let store = MemoryStore::default();
    let ledger = over(store.clone());
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    // Another process is ahead with a CIDR that is not known here yet.
    store.write(vec![misplaced("10.7.0.0/32", 3)]).await;
    assert_eq!(lease(&ledger, "a", 0..1).await.leases.len(), 1);
    store.write(vec![misplaced("10.0.0.64/32", 10)]).await;
    let refused = ledger.lease("pods", &owner("a"), ids(1..9), None).await.unwrap_err();
    assert!(refused.to_string().contains("10.0.0.74/32"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn retries_are_bounded_when_the_store_never_confirms_a_write() {
    let store = Strange::default();
    let mut registry = Registry::default();
    let metrics = LedgerMetrics::register(&mut registry);
    let ledger = Ledger::new(Arc::new(store.clone()), Clock::system(), metrics);
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    store.mute.store(true, Ordering::SeqCst);
    let refused = ledger.lease("pods", &owner("a"), ids(0..5), None).await;
    let subnet = "pods".to_owned();
    assert_eq!(refused, Err(LedgerError::Unsure { subnet }));
    assert!(store.writes.load(Ordering::SeqCst) < 10);
    let mut shown = String::new();
    encode(&mut shown, &registry).unwrap();
    assert!(!shown.contains("berth_ledger_conflicts_total{"), "{shown}");
    store.mute.store(false, Ordering::SeqCst);
    assert_eq!(lease(&ledger, "a", 0..5).await.leases.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_subnet_that_can_not_be_loaded_holds_up_no_other() {
    let store = Strange::default();
    let ledger = over(store.clone());
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    let slow = plan(&["10.1.0.0/24"]);
    let mut loading = pin!(ledger.set_subnet("slow", &slow, REUSE_DELAY));
    assert!(futures::poll!(loading.as_mut()).is_pending());
    assert_eq!(lease(&ledger, "a", 0..5).await.leases.len(), 5);
    assert!(ledger.outlook("pods").await.is_some());
    assert!(futures::poll!(loading.as_mut()).is_pending());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_reloaded_with_backoff() {
    let store = Strange::default();
    let ledger = over(store.clone());
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    lease(&ledger, "a", 0..5).await;
    store.unsure.store(true, Ordering::SeqCst);
    store.broken.store(true, Ordering::SeqCst);
    ledger.release("pods", &owner("a"), None).await.unwrap_err();
    let before = store.loads.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let loads = store.loads.load(Ordering::SeqCst) - before;
    assert!((60..300).contains(&loads), "{loads} in an hour");
    store.broken.store(false, Ordering::SeqCst);
    // Nobody asks, and those who wait are told all the same.
    let mut outlook = ledger.outlook("pods").await.unwrap();
    outlook
        .wait_for(|outlook| outlook.counts[&Family::V4].reserved == 0)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_ahead_keeps_nothing_cooling_down_until_then() {
    let store = MemoryStore::default();
    let far = Clock::system().now() + 1_000_000_000;
    let mut write = misplaced("10.0.0.0/32", 9);
    write.record = Some(Arc::new(Record::new([], [(1, far), (2, far)]).unwrap()));
    store.write(vec![write]).await;
    let ledger = over(store.clone());
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    let cooling_down = async || {
        let outlook = ledger.outlook("pods").await.unwrap();
        outlook.borrow().counts[&Family::V4].cooling_down
    };
    assert_eq!(cooling_down().await, 2);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cooling_down().await, 0);
    assert!(store.load("pods").await.unwrap().is_empty());
}
