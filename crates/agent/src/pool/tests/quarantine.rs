//! A journal that was lost.

use super::*;

fn shown(addresses: &[&str]) -> BTreeSet<IpAddr> {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

fn quarantined(count: u32) -> Pool {
    let mut pool = Pool::default();
    pool.apply(&Entry::Quarantined);
    pool.deliver(&delivered(json!([vnet("c1", 10..10 + count)])));
    pool
}

#[test]
fn nothing_that_the_node_had_is_given_out_until_it_is_certain() {
    let mut pool = quarantined(2);
    assert_eq!(pool.add(&request(1, 1), 2), Err(Reason::PoolEmpty));
    assert_eq!(pool.counts(9, 0).quarantined, 2);
    // What comes after that was nobody's here.
    pool.deliver(&delivered(json!([vnet("c1", 10..13)])));
    assert_eq!(pool.add(&request(1, 1), 2).unwrap(), ["10.64.0.12"]);
    pool.recover(shown(&[]), false);
    assert_eq!(pool.add(&request(2, 1), 2), Err(Reason::PoolEmpty));
    pool.recover(shown(&[]), true);
    assert!(!pool.is_quarantined());
    assert!(pool.add(&request(2, 1), 2).is_ok());
}

#[test]
fn what_is_quarantined_is_not_given_back_and_counts_as_demand() {
    let pool = quarantined(16);
    assert_eq!(pool.plan_releasing(16, 1), []);
    let holding = pool.holding(3, 0);
    assert_eq!((holding.demand, holding.held, holding.assigned), (16, 16, 16));
}

#[test]
fn what_a_living_pod_shows_stays_quarantined_until_it_is_gone() {
    let mut pool = quarantined(2);
    pool.recover(shown(&["10.64.0.10"]), true);
    assert_eq!(pool.add(&request(1, 1), 2).unwrap(), ["10.64.0.11"]);
    assert_eq!(pool.add(&request(2, 1), 2), Err(Reason::PoolEmpty));
    pool.recover(shown(&[]), true);
    assert_eq!(pool.add(&request(2, 1), 2).unwrap(), ["10.64.0.10"]);
}

#[test]
fn what_a_living_sandbox_has_is_its_until_it_is_detached() {
    let mut pool = quarantined(2);
    let addresses = ["10.64.0.10".parse().unwrap(), "192.0.2.1".parse().unwrap()];
    let entry = pool
        .plan_adoption(&attachment(7), &PodRef::default(), &addresses, &BTreeSet::new(), 5)
        .unwrap();
    pool.apply(&entry);
    let seven = attachment(7);
    let living = BTreeSet::from([&seven]);
    for n in [7, 8] {
        let again = pool.plan_adoption(&attachment(n), &PodRef::default(), &addresses, &living, 6);
        assert_eq!(again, None, "{n}");
    }
    pool.recover(shown(&[]), true);
    assert_eq!(pool.add(&request(7, 9), 9).unwrap(), ["10.64.0.10"]);
    assert_eq!(pool.add(&request(1, 9), 9).unwrap(), ["10.64.0.11"]);
    assert_eq!(pool.del(7, 10, 10), 1);
    assert_eq!(pool.add(&request(2, 11), 11).unwrap(), ["10.64.0.10"]);
}

#[test]
fn a_block_gives_nothing_until_it_is_certain() {
    let mut pool = Pool::default();
    pool.apply(&Entry::Quarantined);
    let block = json!({"id": "c1", "assignmentMode": "static", "type": "overlay", "primaryIP": "10.0.0.0/30"});
    pool.deliver(&delivered(json!([block])));
    assert_eq!(pool.add(&request(1, 1), 2), Err(Reason::PoolEmpty));
    pool.recover(shown(&["10.0.0.0"]), true);
    assert_eq!(pool.add(&request(1, 1), 2).unwrap(), ["10.0.0.1"]);
}

#[test]
fn a_quarantine_lasts_over_restarts_until_it_is_settled() {
    let mut pool = quarantined(2);
    let kept = pool.entries(5);
    let mut again = Pool::default();
    kept.iter().for_each(|entry| {
        again.apply(entry);
    });
    again.deliver(&delivered(json!([vnet("c1", 10..12)])));
    assert_eq!(again.add(&request(1, 1), 2), Err(Reason::PoolEmpty));
    again.apply(&Entry::Settled);
    assert!(again.add(&request(1, 1), 2).is_ok());
    pool.recover(shown(&[]), true);
    assert!(!pool.entries(5).contains(&Entry::Quarantined));
}

#[test]
fn a_living_sandbox_overrides_an_old_journal_in_quarantine() {
    let mut pool = pool(2);
    pool.add(&request(1, 1), 2).unwrap();
    pool.del(2, 3, 4);
    let addresses = ["10.64.0.10".parse().unwrap()];
    let (two, three) = (attachment(2), attachment(3));
    let living = BTreeSet::from([&two, &three]);
    let adopted = |pool: &Pool, who: &Attachment| {
        pool.plan_adoption(who, &PodRef::default(), &addresses, &living, 5)
    };
    // A whole journal knows better than a runtime that has not heard yet.
    assert_eq!(adopted(&pool, &three), None);
    pool.apply(&Entry::Quarantined);
    assert_eq!(adopted(&pool, &two), None, "it was detached");
    let entry = adopted(&pool, &three).unwrap();
    pool.apply(&entry);
    assert_eq!(pool.holdings().keys().collect::<Vec<_>>(), [&three]);
    assert_eq!(pool.del(1, 6, 7), 0, "the one that is gone frees nothing");
}

#[test]
fn a_del_of_what_was_adopted_frees_it_whenever_it_was_started() {
    let mut pool = quarantined(1);
    let addresses = ["10.64.0.10".parse().unwrap()];
    let entry = pool
        .plan_adoption(&attachment(7), &PodRef::default(), &addresses, &BTreeSet::new(), 50)
        .unwrap();
    pool.apply(&entry);
    assert_eq!(pool.del(7, 40, 60), 1);
}

#[test]
fn what_a_block_passed_over_is_given_out_when_the_pod_is_gone() {
    let mut pool = Pool::default();
    pool.apply(&Entry::Quarantined);
    let block = json!({"id": "c1", "assignmentMode": "static", "type": "overlay", "primaryIP": "10.0.0.0/31"});
    pool.deliver(&delivered(json!([block])));
    pool.recover(shown(&["10.0.0.0"]), true);
    assert_eq!(pool.add(&request(1, 1), 2).unwrap(), ["10.0.0.1"]);
    assert_eq!(pool.add(&request(2, 1), 2), Err(Reason::PoolEmpty));
    pool.recover(shown(&[]), true);
    assert_eq!(pool.add(&request(2, 1), 2).unwrap(), ["10.0.0.0"]);
}
