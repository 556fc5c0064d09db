//! ADD and DEL, in every order.

use super::*;

#[test]
fn an_add_is_served_once_however_often_it_is_asked() {
    let mut pool = pool(2);
    let first = pool.add(&request(1, 5), 6).unwrap();
    assert_eq!(pool.add(&request(1, 5), 7).unwrap(), first);
    assert_eq!(pool.add(&request(1, 8), 9).unwrap(), first);
    assert_ne!(pool.add(&request(2, 8), 9).unwrap(), first);
    assert_eq!(pool.add(&request(3, 8), 9), Err(Reason::PoolEmpty));
}

#[test]
fn a_release_frees_once_and_one_of_nobody_frees_nothing() {
    let mut pool = pool(1);
    pool.add(&request(1, 5), 6).unwrap();
    assert_eq!(pool.del(1, 7, 8), 1);
    assert_eq!(pool.del(1, 7, 9), 0);
    assert_eq!(pool.del(2, 7, 9), 0);
    assert!(pool.add(&request(3, 10), 10).is_ok());
}

#[test]
fn an_add_that_was_started_before_the_del_comes_too_late() {
    let mut pool = pool(4);
    pool.add(&request(1, 5), 6).unwrap();
    pool.del(1, 10, 11);
    assert_eq!(pool.add(&request(1, 5), 12), Err(Reason::Detached));
    // Also one whose DEL came first.
    pool.del(2, 10, 11);
    assert_eq!(pool.add(&request(2, 9), 12), Err(Reason::Detached));
    // A container that is started again under its id is another matter.
    assert!(pool.add(&request(1, 13), 14).is_ok());
}

#[test]
fn an_add_without_a_start_time_is_refused_soon_after_its_del() {
    let mut pool = pool(4);
    pool.add(&request(1, 0), SECOND).unwrap();
    pool.del(1, 0, 2 * SECOND);
    assert_eq!(pool.add(&request(1, 0), 3 * SECOND), Err(Reason::Detached));
    assert!(pool.add(&request(1, 0), 90 * SECOND).is_ok());
}

#[test]
fn a_del_that_was_started_before_the_add_does_not_undo_it() {
    let mut pool = pool(1);
    let held = pool.add(&request(1, 10), 11).unwrap();
    assert_eq!(pool.del(1, 9, 12), 0);
    assert_eq!(pool.add(&request(1, 10), 13).unwrap(), held);
    // An ADD that asked again is the one that counts.
    pool.add(&request(1, 20), 21).unwrap();
    assert_eq!(pool.del(1, 15, 22), 0);
    assert_eq!(pool.del(1, 23, 24), 1);
}

#[test]
fn the_longest_free_address_is_given_first() {
    let mut pool = pool(3);
    let first = pool.add(&request(1, 1), SECOND).unwrap();
    let second = pool.add(&request(2, 1), SECOND).unwrap();
    pool.del(2, 2, 2 * SECOND);
    pool.del(1, 3, 3 * SECOND);
    let never_had = pool.add(&request(3, 4), 4 * SECOND).unwrap();
    assert!(never_had != first && never_had != second);
    assert_eq!(pool.counts(5 * SECOND, REUSE_DELAY).cooling_down, 2);
    assert_eq!(pool.add(&request(4, 4), 4 * SECOND).unwrap(), second);
    assert_eq!(pool.add(&request(5, 4), 4 * SECOND).unwrap(), first);
    assert_eq!(pool.counts(40 * SECOND, REUSE_DELAY).free, 0);
}

#[test]
fn a_desired_address_is_given_or_nothing_is() {
    let mut pool = pool(2);
    let asking = |n: u64, desired: &str| Request {
        desired: vec![desired.parse().unwrap()],
        ..request(n, 1)
    };
    assert_eq!(pool.add(&asking(1, "10.64.0.11"), 2).unwrap(), ["10.64.0.11"]);
    assert_eq!(pool.add(&asking(1, "10.64.0.11"), 2).unwrap(), ["10.64.0.11"]);
    assert_eq!(pool.add(&asking(1, "10.64.0.10"), 2), Err(Reason::Taken));
    assert_eq!(pool.add(&asking(2, "10.64.0.11"), 2), Err(Reason::Taken));
    assert_eq!(pool.add(&asking(2, "10.99.0.1"), 2), Err(Reason::Taken));
    assert_eq!(pool.holdings().len(), 1);
}

#[test]
fn a_gc_frees_only_older_invalid_attachments_of_its_network() {
    let mut pool = pool(4);
    for n in 1..=3 {
        pool.add(&request(n, n), n).unwrap();
    }
    let other = Request {
        network: "other".to_owned(),
        ..request(4, 4)
    };
    pool.add(&other, 4).unwrap();
    let gc = Gc {
        network: "pods".to_owned(),
        valid: vec![attachment(1)],
        started: 2,
    };
    let entries = pool.plan_gc(&gc, 5);
    entries.iter().for_each(|entry| {
        pool.apply(entry);
    });
    let left: Vec<_> = pool.holdings().keys().cloned().collect();
    assert_eq!(left, [attachment(1), attachment(3), attachment(4)]);
}

#[test]
fn releases_are_forgotten_in_the_end_however_many_they_are() {
    let mut pool = pool(1);
    for n in 0..10_000 {
        pool.del(n, 1, n + 1);
    }
    assert!(pool.entries(10_000).len() < 5000);
    assert!(pool.entries(4000 * SECOND).is_empty());
}

#[test]
fn a_long_journal_is_replayed_to_what_its_last_lines_say() {
    let mut pool = pool(2);
    let mut journal = Vec::new();
    for n in 0..6000 {
        let Ok(Plan::New(_, entry)) = pool.plan_request(&request(n, 2 * n + 1), 2 * n + 1) else {
            panic!("{n} gets none");
        };
        pool.apply(&entry);
        journal.push(entry);
        let release = Release {
            attachment: attachment(n),
            started: 2 * n + 2,
        };
        let entry = pool.plan_release(&release, 2 * n + 2).unwrap();
        pool.apply(&entry);
        journal.push(entry);
    }
    let mut again = Pool::default();
    again.replay(&journal);
    assert_eq!(again.entries(12_001), pool.entries(12_001));
    assert_eq!(again.add(&request(5_999, 1), 12_001), Err(Reason::Detached));
}
