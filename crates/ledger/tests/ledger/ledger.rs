//! What a ledger promises to those who ask it.

mod faults;
mod subnets;

use std::sync::Arc;
use std::time::Duration;

use berth_addr::{Family, Plan, Prefix, UnitLengths};
use berth_ledger::store::{MemoryStore, Store};
use berth_ledger::{Clock, Grant, Kind, LeaseId, Ledger, LedgerMetrics, Owner};
use uuid::Uuid;

const REUSE_DELAY: Duration = Duration::from_secs(30);

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
    ledger.set_subnet("pods", &plan(cidrs), REUSE_DELAY).await.unwrap();
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
async fn a_unit_cooling_down_is_leased_only_when_no_other_is_free() {
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
async fn who_waits_hears_of_what_another_ledger_has_freed() {
    let store = MemoryStore::default();
    let (one, other) = (over(store.clone()), over(store));
    for ledger in [&one, &other] {
        ledger
            .set_subnet("pods", &plan(&["10.0.0.0/30"]), REUSE_DELAY)
            .await
            .unwrap();
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
        .set_subnet("pods", &plan(&["10.0.0.0/24", "fd00::/64"]), REUSE_DELAY)
        .await
        .unwrap();
    let given = lease(&first, "a", 0..5).await;
    drop(first);
    let second = over(store);
    second
        .set_subnet("pods", &plan(&["10.0.0.0/24", "fd00::/64"]), REUSE_DELAY)
        .await
        .unwrap();
    assert_eq!(second.held("pods", &owner("a")).await.unwrap(), given.leases);
    assert_eq!(reserved(&second).await, [5, 5]);
}

#[tokio::test(start_paused = true)]
async fn blocks_that_nobody_needs_any_more_leave_the_store() {
    let store = MemoryStore::default();
    let ledger = over(store.clone());
    ledger
        .set_subnet("pods", &plan(&["fd00::/64"]), REUSE_DELAY)
        .await
        .unwrap();
    // Three blocks, and in the second one unit that stays.
    lease(&ledger, "a", 0..300).await;
    let kept = lease(&ledger, "b", 1000..1001).await;
    lease(&ledger, "a", 300..700).await;
    ledger.release("pods", &owner("a"), None).await.unwrap();
    tokio::time::sleep(REUSE_DELAY / 2).await;
    assert_eq!(store.load("pods").await.unwrap().len(), 3, "they cool down");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let left = store.load("pods").await.unwrap();
    let owned: Vec<usize> = left.iter().map(|block| block.record.owned().count()).collect();
    assert_eq!(owned, [1]);
    assert_eq!(lease(&ledger, "b", 1000..1001).await, kept);
    assert_eq!(lease(&ledger, "a", 2000..2300).await.leases.len(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_lease_short_in_one_family_takes_nothing_of_the_other() {
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
