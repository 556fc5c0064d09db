//! How subnets come, change and go.

use std::sync::Arc;
use std::time::Duration;

use berth_addr::Family;
use berth_ledger::store::MemoryStore;
use berth_ledger::{Clock, Kind, LeaseId, Ledger, LedgerError, LedgerMetrics, Owner};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use uuid::Uuid;

use super::{REUSE_DELAY, ids, lease, over, owner, plan, reserved, units, with};

#[tokio::test(start_paused = true)]
async fn an_overlapping_subnet_is_refused_and_changes_nothing() {
    let ledger = with(&["10.0.0.0/24"]).await;
    let error = ledger
        .set_subnet("more", &plan(&["10.0.1.0/24", "10.0.0.128/25"]), REUSE_DELAY)
        .await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "subnet more: cidrs overlap those of subnet pods: 10.0.0.128-10.0.0.255 is in \
         both; change one of them"
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
        .set_subnet("pods", &plan(&["10.0.0.0/30", "10.0.1.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    outlook.wait_for(|outlook| outlook.freed > seen).await.unwrap();
    assert_eq!(units(&lease(&ledger, "a", 2..3).await), ["10.0.1.1/32"]);
    let error = ledger
        .set_subnet("pods", &plan(&["10.0.0.0/30"]), REUSE_DELAY)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cidrs: 10.0.1.1/32 is in use: keep the CIDR it is in and its unit length, or \
         release it first"
    );
    assert_eq!(ledger.held("pods", &owner("a")).await.unwrap().len(), 3);
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
async fn removing_an_unknown_subnet_checks_the_store_for_owners() {
    let store = MemoryStore::default();
    let first = over(store.clone());
    first
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    lease(&first, "a", 0..3).await;
    let second = over(store);
    assert_eq!(second.remove_subnet("pods").await, Ok(1));
    first.release("pods", &owner("a"), None).await.unwrap();
    assert_eq!(second.remove_subnet("pods").await, Ok(0));
}

/// As it would be after a Subnet was forced away and made again with other cidrs.
#[tokio::test(start_paused = true)]
async fn cidrs_that_exclude_units_in_use_in_the_store_are_refused() {
    let store = MemoryStore::default();
    let before = over(store.clone());
    before
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    lease(&before, "a", 0..200).await;
    let keep: Vec<LeaseId> = ids(0..150);
    before.release("pods", &owner("a"), Some(keep)).await.unwrap();
    let after = over(store);
    for cidr in ["10.0.0.128/25", "10.0.0.0/25", "10.9.0.0/24"] {
        let refused = after.set_subnet("pods", &plan(&[cidr]), REUSE_DELAY).await.unwrap_err();
        assert!(refused.to_string().contains("is in use"), "{cidr}: {refused}");
    }
    after
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
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
        .set_subnet("pods", &plan(&["10.0.0.0/25"]), REUSE_DELAY)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("10.0.0.200/32"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn what_is_scraped_counts_the_subnet_and_goes_with_it() {
    let mut registry = Registry::default();
    let metrics = LedgerMetrics::register(&mut registry);
    let ledger = Ledger::new(Arc::new(MemoryStore::default()), Clock::system(), metrics);
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/29"]), REUSE_DELAY)
        .await
        .unwrap();
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
        r#"berth_subnet_cooling_down{subnet="pods",family="ipv4"} 1.0"#,
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
async fn counts_are_those_of_the_moment_they_are_asked_for() {
    let ledger = with(&["10.0.0.0/29"]).await;
    lease(&ledger, "a", 0..4).await;
    ledger.release("pods", &owner("a"), None).await.unwrap();
    let counts = async || ledger.counts("pods").await.unwrap().families[&Family::V4];
    let cooling = counts().await;
    assert_eq!((cooling.reserved, cooling.cooling_down, cooling.free), (0, 4, 2));
    // Nothing happens meanwhile that would tell the ledger to count again.
    tokio::time::sleep(REUSE_DELAY + Duration::from_millis(1)).await;
    let cooled = counts().await;
    assert_eq!((cooled.cooling_down, cooled.free), (0, 6));
    // Who waits for other counts than these finds the same, and waits.
    let outlook = ledger.outlook("pods").await.unwrap();
    assert_eq!(outlook.borrow().counts[&Family::V4], cooled);
    assert_eq!(
        ledger.counts("nowhere").await.unwrap_err(),
        LedgerError::NoSubnet {
            subnet: "nowhere".to_owned()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_owns_units_gets_no_lease_until_it_claims() {
    let store = MemoryStore::default();
    let before = over(store.clone());
    for (name, cidr) in [("pods", "10.0.0.0/24"), ("others", "10.1.0.0/24")] {
        before.set_subnet(name, &plan(&[cidr]), REUSE_DELAY).await.unwrap();
    }
    lease(&before, "a", 0..1).await;

    let ledger = over(store);
    ledger
        .set_subnet("pods", &plan(&["10.0.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    ledger.require_claims_of_owners().await.unwrap();
    // Also in subnets that are registered later, and in which they own nothing.
    ledger
        .set_subnet("others", &plan(&["10.1.0.0/24"]), REUSE_DELAY)
        .await
        .unwrap();
    let stranger = Owner::new(Kind::Secondary, "stranger", "n", "uid").unwrap();
    for (at, subnet) in (10_u128..).zip(["pods", "others"]) {
        let refused = ledger.lease(subnet, &owner("a"), ids(at..at + 1), None).await;
        let expected = LedgerError::Unclaimed {
            subnet: subnet.to_owned(),
        };
        assert_eq!(refused.unwrap_err(), expected);
        let generation = ledger.gate(subnet, "c").await.unwrap();
        assert!(ledger.open_gate(subnet, "c", generation).await.unwrap());
        let grant = ledger.lease(subnet, &owner("a"), ids(at..at + 1), None).await;
        assert_eq!(grant.unwrap().short, 0);
        // A cluster that owns nothing anywhere has nothing to claim.
        let grant = ledger.lease(subnet, &stranger, ids(at..at + 1), None).await;
        assert_eq!(grant.unwrap().short, 0);
    }
}
