//! What a ledger promises to those who ask it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use berth_addr::{Family, Plan, Prefix, UnitLengths};
use berth_ledger::store::{Change, Document, MemoryStore, Store, StoreError, Stored, Version, Write, Written};
use berth_ledger::{BlockKey, Clock, Grant, Kind, LeaseId, Ledger, LedgerError, LedgerMetrics, Owner, Record, Tenure};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use uuid::Uuid;

const REST: Duration = Duration::from_secs(30);

fn plan(cidrs: &[&str]) -> Plan {
    Plan {
        cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        unit_lengths: UnitLengths::default(),
        ..Plan::default()
    }
}

fn over(store: impl Store) -> Ledger {
    Ledger::new(Arc::new(store), Clock::system(), LedgerMetrics::unregistered())
}

async fn with(cidrs: &[&str]) -> Ledger {
    let ledger = over(MemoryStore::default());
    ledger.set_subnet("pods", &plan(cidrs), REST).await.unwrap();
    ledger
}

fn owner(name: &str) -> Owner {
    Owner::new(Kind::Secondary, "c", name, "uid").unwrap()
}

/// Always the same for the same numbers.
fn ids(numbers: std::ops::Range<u128>) -> Vec<LeaseId> {
    numbers.map(Uuid::from_u128).collect()
}

fn units(grant: &Grant) -> Vec<String> {
    let units = grant.leases.iter().flat_map(|lease| &lease.units);
    units.map(Prefix::to_string).collect()
}

async fn lease(ledger: &Ledger, name: &str, numbers: std::ops::Range<u128>) -> Grant {
    ledger.lease("pods", &owner(name), ids(numbers), None).await.unwrap()
}

async fn reserved(ledger: &Ledger) -> Vec<u128> {
    // Counts are shown a moment after the answer.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let outlook = ledger.outlook("pods").await.unwrap();
    outlook.borrow().counts.values().map(|counts| counts.reserved).collect()
}

#[tokio::test(start_paused = true)]
async fn what_there_is_not_is_counted_and_the_rest_is_given() {
    let ledger = with(&["10.0.0.0/29"]).await;
    let grant = lease(&ledger, "a", 0..10).await;
    assert_eq!((grant.leases.len(), grant.short), (6, 4));
    assert_eq!(lease(&ledger, "b", 20..21).await.short, 1);
}

#[tokio::test(start_paused = true)]
async fn asking_again_for_the_same_leases_gives_the_same_units() {
    let ledger = with(&["10.0.0.0/24"]).await;
    let first = lease(&ledger, "a", 0..5).await;
    assert_eq!(lease(&ledger, "a", 0..5).await, first);
    let more = lease(&ledger, "a", 0..8).await;
    assert_eq!(more.leases[..5], first.leases);
    assert_eq!(reserved(&ledger).await, [8]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_two_families_is_whole_or_not_given() {
    let ledger = with(&["10.0.0.0/30", "fd00::/64"]).await;
    let grant = lease(&ledger, "a", 0..3).await;
    assert_eq!((grant.leases.len(), grant.short), (2, 1));
    for lease in &grant.leases {
        let families: Vec<Family> = lease.units.iter().map(|unit| unit.family()).collect();
        assert_eq!(families, [Family::V4, Family::V6]);
    }
    assert_eq!(reserved(&ledger).await, [2, 2], "no half of the third is left");
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_gives_back_and_only_what_it_has() {
    let ledger = with(&["10.0.0.0/24"]).await;
    lease(&ledger, "a", 0..3).await;
    let strange = ledger.release("pods", &owner("b"), Some(ids(0..3))).await.unwrap();
    assert!(strange.is_empty());
    let back = ledger.release("pods", &owner("a"), Some(ids(2..9))).await.unwrap();
    assert_eq!(back.iter().map(|lease| lease.id).collect::<Vec<_>>(), ids(2..3));
    let again = ledger.release("pods", &owner("a"), Some(ids(2..3))).await.unwrap();
    assert!(again.is_empty());
    assert_eq!(ledger.release("pods", &owner("a"), None).await.unwrap().len(), 2);
    assert!(ledger.owners("pods").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_released_unit_rests_and_the_rest_is_cut_short_before_anybody_is_refused() {
    let ledger = with(&["10.0.0.0/29"]).await;
    assert_eq!(units(&lease(&ledger, "a", 0..1).await), ["10.0.0.1/32"]);
    ledger.release("pods", &owner("a"), None).await.unwrap();
    let next = units(&lease(&ledger, "b", 1..6).await);
    assert!(!next.contains(&"10.0.0.1/32".to_owned()), "{next:?}");
    assert_eq!(units(&lease(&ledger, "c", 6..7).await), ["10.0.0.1/32"]);
}

#[tokio::test(start_paused = true)]
async fn a_unit_can_be_claimed_by_one() {
    let ledger = with(&["10.0.0.0/24"]).await;
    let claim = async |name: &str, unit: &str| {
        let (owner, units) = (owner(name), vec![unit.parse().unwrap()]);
        let claimed = ledger.claim("pods", &owner, Uuid::from_u128(1), units).await;
        claimed.unwrap().map_err(|refusal| refusal.to_string())
    };
    assert_eq!(claim("a", "10.0.0.7/32").await, Ok(()));
    assert_eq!(claim("a", "10.0.0.7/32").await, Ok(()), "again by the same");
    assert_eq!(
        claim("b", "10.0.0.7/32").await,
        Err("10.0.0.7/32: it has an owner".to_owned())
    );
    assert_eq!(
        claim("b", "10.0.1.7/32").await,
        Err("10.0.1.7/32: it is not in the pool".to_owned())
    );
    let tenure = ledger.owner_of("pods", "10.0.0.7/32".parse().unwrap()).await.unwrap();
    assert_eq!(tenure.unwrap().owner, owner("a"));
}

#[tokio::test(start_paused = true)]
async fn a_subnet_that_overlaps_another_is_refused_and_both_stay_as_they_are() {
    let ledger = with(&["10.0.0.0/24"]).await;
    let error = ledger
        .set_subnet("more", &plan(&["10.0.1.0/24", "10.0.0.128/25"]), REST)
        .await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "subnet more: cidrs overlap those of subnet pods: 10.0.0.128-10.0.0.255 is in both; change one of them"
    );
    assert_eq!(ledger.subnets().await, ["pods"]);
    assert_eq!(lease(&ledger, "a", 0..1).await.short, 0);
}

#[tokio::test(start_paused = true)]
async fn a_subnet_grows_but_does_not_lose_what_is_in_use() {
    let ledger = with(&["10.0.0.0/30"]).await;
    let mut outlook = ledger.outlook("pods").await.unwrap();
    lease(&ledger, "a", 0..2).await;
    assert_eq!(lease(&ledger, "a", 2..3).await.short, 1);
    let seen = outlook.borrow_and_update().freed;
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/30", "10.0.1.0/24"]), REST)
        .await
        .unwrap();
    outlook.wait_for(|outlook| outlook.freed > seen).await.unwrap();
    assert_eq!(units(&lease(&ledger, "a", 2..3).await), ["10.0.1.1/32"]);
    let error = ledger
        .set_subnet("pods", &plan(&["10.0.0.0/30"]), REST)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cidrs: 10.0.1.1/32 is in use: keep the CIDR it is in and its unit length, or release it first"
    );
    assert_eq!(ledger.held("pods", &owner("a")).await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn who_waits_hears_of_what_another_ledger_has_freed() {
    let store = MemoryStore::default();
    let (one, other) = (over(store.clone()), over(store));
    for ledger in [&one, &other] {
        ledger.set_subnet("pods", &plan(&["10.0.0.0/30"]), REST).await.unwrap();
    }
    lease(&one, "a", 0..2).await;
    assert_eq!(lease(&other, "b", 5..6).await.short, 1);
    let mut outlook = other.outlook("pods").await.unwrap();
    let seen = outlook.borrow_and_update().freed;
    one.release("pods", &owner("a"), Some(ids(0..1))).await.unwrap();
    outlook.wait_for(|outlook| outlook.freed > seen).await.unwrap();
    assert_eq!(lease(&other, "b", 5..6).await.short, 0);
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_starts_again_knows_all_of_it() {
    let store = MemoryStore::default();
    let first = over(store.clone());
    first
        .set_subnet("pods", &plan(&["10.0.0.0/24", "fd00::/64"]), REST)
        .await
        .unwrap();
    let given = lease(&first, "a", 0..5).await;
    drop(first);
    let second = over(store);
    second
        .set_subnet("pods", &plan(&["10.0.0.0/24", "fd00::/64"]), REST)
        .await
        .unwrap();
    assert_eq!(second.held("pods", &owner("a")).await.unwrap(), given.leases);
    assert_eq!(reserved(&second).await, [5, 5]);
}

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

    fn watch<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>> {
        self.store.watch(subnet)
    }

    fn read_plan(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>> {
        self.store.read_plan()
    }

    fn swap_plan(&self, expected: Option<Version>, text: Vec<u8>) -> BoxFuture<'_, Result<bool, StoreError>> {
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
    ledger.set_subnet("pods", &plan(&["10.0.0.0/16"]), REST).await.unwrap();
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
    ledger.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
    store.unsure.store(true, Ordering::SeqCst);
    let grant = lease(&ledger, "a", 0..5).await;
    assert_eq!(grant.leases.len(), 5);
    assert_eq!(reserved(&ledger).await, [5]);
}

#[tokio::test(start_paused = true)]
async fn while_the_store_does_not_say_what_it_has_nothing_is_given() {
    let store = Strange::default();
    let ledger = over(store.clone());
    ledger.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
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
async fn late_news_of_a_removal_do_not_hide_a_block_that_was_made_again() {
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

#[tokio::test(start_paused = true)]
async fn blocks_that_nobody_needs_any_more_leave_the_store() {
    let store = MemoryStore::default();
    let ledger = over(store.clone());
    ledger.set_subnet("pods", &plan(&["fd00::/64"]), REST).await.unwrap();
    // Three blocks, and in the second one unit that stays.
    lease(&ledger, "a", 0..300).await;
    let kept = lease(&ledger, "b", 1000..1001).await;
    lease(&ledger, "a", 300..700).await;
    ledger.release("pods", &owner("a"), None).await.unwrap();
    tokio::time::sleep(REST / 2).await;
    assert_eq!(store.load("pods").await.unwrap().len(), 3, "they rest");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let left = store.load("pods").await.unwrap();
    let owned: Vec<usize> = left.iter().map(|block| block.record.owned().count()).collect();
    assert_eq!(owned, [1]);
    assert_eq!(lease(&ledger, "b", 1000..1001).await, kept);
    assert_eq!(lease(&ledger, "a", 2000..2300).await.leases.len(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_subnet_is_removed_only_when_nobody_owns_anything() {
    let ledger = with(&["10.0.0.0/24"]).await;
    lease(&ledger, "a", 0..2).await;
    lease(&ledger, "b", 10..11).await;
    assert_eq!(ledger.remove_subnet("pods").await, Ok(2));
    assert_eq!(lease(&ledger, "a", 2..3).await.leases.len(), 1, "it goes on");
    for name in ["a", "b"] {
        ledger.release("pods", &owner(name), None).await.unwrap();
    }
    // Whatever is asked for at the same time is counted, or refused.
    let removing = ledger.remove_subnet("pods");
    let (late, name) = (owner("c"), "pods");
    let leasing = ledger.lease(name, &late, ids(20..21), None);
    let (removed, leased) = tokio::join!(removing, leasing);
    let gone = LedgerError::NoSubnet {
        subnet: name.to_owned(),
    };
    match removed {
        Ok(0) => assert_eq!(leased, Err(gone.clone())),
        removed => assert_eq!((removed, leased.map(|grant| grant.short)), (Ok(1), Ok(0))),
    }
    ledger.release(name, &late, None).await.ok();
    assert_eq!(ledger.remove_subnet(name).await, Ok(0));
    assert_eq!(ledger.lease(name, &late, ids(30..31), None).await, Err(gone));
}

#[tokio::test(start_paused = true)]
async fn a_subnet_that_is_not_known_is_looked_for_in_the_store_before_it_is_gone() {
    let store = MemoryStore::default();
    let first = over(store.clone());
    first.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
    lease(&first, "a", 0..3).await;
    let second = over(store);
    assert_eq!(second.remove_subnet("pods").await, Ok(1));
    first.release("pods", &owner("a"), None).await.unwrap();
    assert_eq!(second.remove_subnet("pods").await, Ok(0));
}

/// As it would be after a Subnet was forced away and made again with other cidrs.
#[tokio::test(start_paused = true)]
async fn cidrs_that_leave_out_what_the_store_says_is_owned_are_refused() {
    let store = MemoryStore::default();
    let before = over(store.clone());
    before.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
    lease(&before, "a", 0..200).await;
    let keep: Vec<LeaseId> = ids(0..150);
    before.release("pods", &owner("a"), Some(keep)).await.unwrap();
    let after = over(store);
    for cidr in ["10.0.0.128/25", "10.0.0.0/25", "10.9.0.0/24"] {
        let refused = after.set_subnet("pods", &plan(&[cidr]), REST).await.unwrap_err();
        assert!(refused.to_string().contains("is in use"), "{cidr}: {refused}");
    }
    after.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
    assert_eq!(reserved(&after).await, [50]);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_refused_with_the_unit_that_would_fall_out() {
    let ledger = with(&["10.0.0.0/24"]).await;
    ledger
        .claim(
            "pods",
            &owner("a"),
            Uuid::from_u128(1),
            vec!["10.0.0.5/32".parse().unwrap()],
        )
        .await
        .unwrap()
        .unwrap();
    ledger
        .claim(
            "pods",
            &owner("a"),
            Uuid::from_u128(2),
            vec!["10.0.0.200/32".parse().unwrap()],
        )
        .await
        .unwrap()
        .unwrap();
    let refused = ledger
        .set_subnet("pods", &plan(&["10.0.0.0/25"]), REST)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("10.0.0.200/32"), "{refused}");
}

fn misplaced(first: &str, offset: u8) -> Write {
    let tenure = Tenure {
        owner: owner("stranger"),
        lease: Uuid::from_u128(99),
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
    ledger.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
    // Another process is ahead with a CIDR that is not known here yet.
    store.write(vec![misplaced("10.7.0.0/32", 3)]).await;
    assert_eq!(lease(&ledger, "a", 0..1).await.leases.len(), 1);
    store.write(vec![misplaced("10.0.0.64/32", 10)]).await;
    let refused = ledger.lease("pods", &owner("a"), ids(1..9), None).await.unwrap_err();
    assert!(refused.to_string().contains("10.0.0.74/32"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_can_not_be_whole_takes_nothing_of_the_other_family() {
    let ledger = with(&["10.0.0.0/30", "fd00::/64"]).await;
    let first = lease(&ledger, "a", 0..2).await;
    assert_eq!(
        units(&first),
        ["10.0.0.1/32", "fd00::1/128", "10.0.0.2/32", "fd00::2/128"]
    );
    for round in 0..50 {
        assert_eq!(
            lease(&ledger, "b", 1_000 * round + 100..1_000 * round + 350)
                .await
                .short,
            250
        );
    }
    ledger.release("pods", &owner("a"), Some(ids(0..1))).await.unwrap();
    let next = lease(&ledger, "b", 90..91).await;
    assert_eq!(units(&next), ["10.0.0.1/32", "fd00::3/128"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_says_whether_it_wrote_is_not_asked_for_ever() {
    let store = Strange::default();
    let mut registry = Registry::default();
    let metrics = LedgerMetrics::register(&mut registry);
    let ledger = Ledger::new(Arc::new(store.clone()), Clock::system(), metrics);
    ledger.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
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
    ledger.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
    let slow = plan(&["10.1.0.0/24"]);
    let mut loading = pin!(ledger.set_subnet("slow", &slow, REST));
    assert!(futures::poll!(loading.as_mut()).is_pending());
    assert_eq!(lease(&ledger, "a", 0..5).await.leases.len(), 5);
    assert!(ledger.outlook("pods").await.is_some());
    assert!(futures::poll!(loading.as_mut()).is_pending());
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_ahead_keeps_nothing_resting_until_then() {
    let store = MemoryStore::default();
    let far = Clock::system().now() + 1_000_000_000;
    let mut write = misplaced("10.0.0.0/32", 9);
    write.record = Some(Arc::new(Record::new([], [(1, far), (2, far)]).unwrap()));
    store.write(vec![write]).await;
    let ledger = over(store.clone());
    ledger.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
    let resting = async || {
        let outlook = ledger.outlook("pods").await.unwrap();
        outlook.borrow().counts[&Family::V4].resting
    };
    assert_eq!(resting().await, 2);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(resting().await, 0);
    assert!(store.load("pods").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_scraped_counts_the_subnet_and_goes_with_it() {
    let mut registry = Registry::default();
    let metrics = LedgerMetrics::register(&mut registry);
    let ledger = Ledger::new(Arc::new(MemoryStore::default()), Clock::system(), metrics);
    ledger.set_subnet("pods", &plan(&["10.0.0.0/29"]), REST).await.unwrap();
    lease(&ledger, "a", 0..3).await;
    ledger.release("pods", &owner("a"), Some(ids(0..1))).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let scrape = || {
        let mut shown = String::new();
        encode(&mut shown, &registry).unwrap();
        shown
    };
    let shown = scrape();
    for line in [
        r#"berth_subnet_capacity{subnet="pods",family="ipv4"} 6.0"#,
        r#"berth_subnet_reserved{subnet="pods",family="ipv4"} 2.0"#,
        r#"berth_subnet_resting{subnet="pods",family="ipv4"} 1.0"#,
        r#"berth_subnet_free{subnet="pods",family="ipv4"} 3.0"#,
        r#"berth_ledger_request_seconds_count{subnet="pods",operation="lease"} 1"#,
        r#"berth_ledger_request_seconds_count{subnet="pods",operation="release"} 1"#,
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in\n{shown}");
    }
    ledger.forget_subnet("pods").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!scrape().contains("pods"), "{}", scrape());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_asked_less_and_less_often_until_it_is_back() {
    let store = Strange::default();
    let ledger = over(store.clone());
    ledger.set_subnet("pods", &plan(&["10.0.0.0/24"]), REST).await.unwrap();
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
