//! What every store promises, as tests over any of them. [`every_promise!`] makes a test of each,
//! on the store at hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Plan;
use berth_ledger::store::{Change, Store, Stored, Version, Write, Written};
use berth_ledger::{BlockKey, Clock, Ledger, LedgerError, LedgerMetrics, Record};
use futures::StreamExt;
use proptest::test_runner::{Config, TestRunner};
use tokio::runtime::Handle;

use super::records;

/// One store, by two who use it.
pub struct Pair {
    pub one: Arc<dyn Store>,
    pub other: Arc<dyn Store>,
    /// Nobody else writes it.
    pub subnet: String,
}

/// A test for each promise. `open` gives a [`Pair`] for the promise's name.
macro_rules! every_promise {
    ($open:path) => {
        every_promise! { $open:
            a_wrong_version_is_a_conflict_and_changes_nothing,
            a_block_is_made_only_where_there_is_none,
            a_block_that_is_gone_can_not_be_replaced_or_removed,
            a_block_with_nothing_in_it_is_removed,
            a_block_that_is_made_again_has_a_higher_version,
            each_write_of_a_call_stands_for_itself,
            any_record_comes_back_as_it_was_written,
            only_the_blocks_of_the_subnet_are_loaded,
            many_blocks_are_all_loaded,
            a_block_with_the_longest_of_everything_is_kept,
            of_two_who_write_one_version_exactly_one_wins,
            a_watch_sees_all_that_happens_from_its_beginning_in_order,
            who_watches_and_then_loads_misses_nothing,
            of_two_who_register_one_cidr_exactly_one_is_given_it,
        }
    };
    ($open:path: $($promise:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                $crate::stores::promises::$promise(&$open(stringify!($promise)).await).await;
            }
        )*
    };
}

/// Of a promise, as DNS allows.
pub fn subnet_of(promise: &str) -> String {
    promise.replace('_', "-").chars().take(60).collect()
}

impl Pair {
    fn key(&self, number: u16) -> BlockKey {
        let [high, low] = number.to_be_bytes();
        BlockKey {
            subnet: self.subnet.clone(),
            first: format!("10.{high}.{low}.0/32").parse().unwrap(),
        }
    }

    pub fn write(&self, number: u16, expected: Option<Version>, record: Record) -> Write {
        Write {
            key: self.key(number),
            expected,
            record: Some(Arc::new(record)),
        }
    }

    fn remove(&self, number: u16, expected: Option<Version>) -> Write {
        Write {
            key: self.key(number),
            expected,
            record: None,
        }
    }

    async fn load(&self) -> Vec<Stored> {
        let mut blocks = self.one.load(&self.subnet).await.unwrap();
        blocks.sort_by(|a, b| a.key.cmp(&b.key));
        blocks
    }
}

async fn swap(store: &Arc<dyn Store>, write: Write) -> Written {
    match &store.write(vec![write]).await[..] {
        [written] => written.clone(),
        ref all => panic!("one answer for one write, not {all:?}"),
    }
}

pub async fn done(store: &Arc<dyn Store>, write: Write) -> Version {
    match swap(store, write).await {
        Written::Done(Some(version)) => version,
        other => panic!("{other:?}"),
    }
}

pub async fn a_wrong_version_is_a_conflict_and_changes_nothing(pair: &Pair) {
    let first = done(&pair.one, pair.write(1, None, records::of("a"))).await;
    let second = done(&pair.other, pair.write(1, Some(first), records::of("b"))).await;
    assert!(second > first);
    for wrong in [first, Version(second.0 + 1), Version(0), Version(u64::MAX)] {
        let late = pair.write(1, Some(wrong), records::of("c"));
        assert_eq!(swap(&pair.one, late).await, Written::Conflict, "{wrong:?}");
        assert_eq!(
            swap(&pair.one, pair.remove(1, Some(wrong))).await,
            Written::Conflict,
            "{wrong:?}"
        );
    }
    let stored = Stored {
        key: pair.key(1),
        version: second,
        record: Arc::new(records::of("b")),
    };
    assert_eq!(pair.one.read(&pair.key(1)).await.unwrap(), Some(stored));
}

pub async fn a_block_is_made_only_where_there_is_none(pair: &Pair) {
    done(&pair.one, pair.write(1, None, records::of("a"))).await;
    let again = pair.write(1, None, records::of("b"));
    assert_eq!(swap(&pair.other, again).await, Written::Conflict);
    assert_eq!(swap(&pair.other, pair.remove(1, None)).await, Written::Conflict);
    assert_eq!(*pair.load().await[0].record, records::of("a"));
    // Nothing was expected, and nothing is wanted.
    assert_eq!(swap(&pair.other, pair.remove(2, None)).await, Written::Done(None));
}

pub async fn a_block_that_is_gone_can_not_be_replaced_or_removed(pair: &Pair) {
    let version = done(&pair.one, pair.write(1, None, records::of("a"))).await;
    assert_eq!(
        swap(&pair.other, pair.remove(1, Some(version))).await,
        Written::Done(None)
    );
    // 0 is the version of no block, not the sign of a missing one.
    for gone in [version, Version(0)] {
        let late = pair.write(1, Some(gone), records::of("b"));
        assert_eq!(swap(&pair.one, late).await, Written::Conflict, "{gone:?}");
        assert_eq!(
            swap(&pair.one, pair.remove(1, Some(gone))).await,
            Written::Conflict,
            "{gone:?}"
        );
    }
    assert_eq!(pair.load().await, []);
}

pub async fn a_block_with_nothing_in_it_is_removed(pair: &Pair) {
    let version = done(&pair.one, pair.write(1, None, records::of("a"))).await;
    assert!(pair.one.subnets().await.unwrap().contains(&pair.subnet));
    let emptied = pair.write(1, Some(version), Record::default());
    assert_eq!(swap(&pair.one, emptied).await, Written::Done(None));
    assert_eq!(pair.other.read(&pair.key(1)).await.unwrap(), None);
    assert_eq!(pair.load().await, []);
    assert!(!pair.one.subnets().await.unwrap().contains(&pair.subnet));
}

pub async fn a_block_that_is_made_again_has_a_higher_version(pair: &Pair) {
    let mut last = Version(0);
    for _ in 0..3 {
        let version = done(&pair.one, pair.write(1, None, records::of("a"))).await;
        assert!(version > last);
        last = done(&pair.one, pair.write(1, Some(version), records::of("b"))).await;
        assert!(last > version);
        assert_eq!(swap(&pair.one, pair.remove(1, Some(last))).await, Written::Done(None));
    }
}

pub async fn each_write_of_a_call_stands_for_itself(pair: &Pair) {
    let version = done(&pair.one, pair.write(3, None, records::of("a"))).await;
    let writes = vec![
        pair.write(1, None, records::of("b")),
        pair.write(2, Some(version), records::of("b")),
        pair.remove(3, Some(version)),
        pair.write(4, None, records::of("b")),
        pair.write(5, Some(version), records::of("b")),
    ];
    let written = pair.one.write(writes).await;
    let [
        Written::Done(Some(first)),
        Written::Conflict,
        Written::Done(None),
        Written::Done(Some(fourth)),
        Written::Conflict,
    ] = written[..]
    else {
        panic!("{written:?}");
    };
    let found: Vec<_> = pair
        .load()
        .await
        .into_iter()
        .map(|stored| (stored.key, stored.version))
        .collect();
    assert_eq!(found, [(pair.key(1), first), (pair.key(4), fourth)]);
    assert_eq!(pair.one.write(Vec::new()).await, []);
}

pub async fn any_record_comes_back_as_it_was_written(pair: &Pair) {
    let config = Config {
        cases: 48,
        failure_persistence: None,
        ..Config::default()
    };
    let check = async |record: Record| {
        let before = pair.other.read(&pair.key(1)).await.unwrap();
        let expected = before.map(|stored| stored.version);
        let stored = Stored {
            key: pair.key(1),
            version: done(&pair.one, pair.write(1, expected, record.clone())).await,
            record: Arc::new(record),
        };
        assert_eq!(pair.other.read(&pair.key(1)).await.unwrap(), Some(stored.clone()));
        assert_eq!(pair.load().await, [stored]);
    };
    let runtime = Handle::current();
    let run = || {
        TestRunner::new(config).run(&records::any(), |record| {
            runtime.block_on(check(record));
            Ok(())
        })
    };
    tokio::task::block_in_place(run).unwrap();
}

pub async fn only_the_blocks_of_the_subnet_are_loaded(pair: &Pair) {
    // Names that begin alike, in the order of keys around it.
    let others = ["-a", ".a", "0", "a"].map(|more| format!("{}{more}", pair.subnet));
    for subnet in others.iter().chain([&pair.subnet]) {
        let mut write = pair.write(1, None, records::of(subnet));
        write.key.subnet.clone_from(subnet);
        done(&pair.one, write).await;
    }
    let found = pair.load().await;
    assert_eq!(found.len(), 1);
    assert_eq!(*found[0].record, records::of(&pair.subnet));
    let mut subnets = pair.other.subnets().await.unwrap();
    subnets.retain(|subnet| subnet.starts_with(&pair.subnet));
    subnets.sort();
    let mut expected: Vec<String> = others.into_iter().chain([pair.subnet.clone()]).collect();
    expected.sort();
    assert_eq!(subnets, expected);
}

pub async fn many_blocks_are_all_loaded(pair: &Pair) {
    // More than two pages of any store.
    let writes: Vec<Write> = (0..600)
        .map(|number| pair.write(number, None, records::of("a")))
        .collect();
    let keys: Vec<BlockKey> = writes.iter().map(|write| write.key.clone()).collect();
    let written = pair.one.write(writes).await;
    assert!(written.iter().all(|written| matches!(written, Written::Done(Some(_)))));
    let found: Vec<_> = pair
        .load()
        .await
        .into_iter()
        .map(|stored| (stored.key, stored.version))
        .collect();
    let expected = keys.into_iter().zip(written.iter().map(|written| match written {
        Written::Done(Some(version)) => *version,
        other => panic!("{other:?}"),
    }));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

pub async fn a_block_with_the_longest_of_everything_is_kept(pair: &Pair) {
    let subnet = format!("{}{}", "s".repeat(62), pair.subnet.len() % 10);
    let key = BlockKey {
        subnet: subnet.clone(),
        first: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/128".parse().unwrap(),
    };
    let record = Arc::new(records::longest());
    let write = Write {
        key: key.clone(),
        expected: None,
        record: Some(Arc::clone(&record)),
    };
    let version = done(&pair.one, write).await;
    let found = pair.other.load(&subnet).await.unwrap();
    assert_eq!(found, [Stored { key, version, record }]);
}

pub async fn of_two_who_write_one_version_exactly_one_wins(pair: &Pair) {
    let mut version = None;
    for round in 0..40 {
        // Never what is there already: a store need not write that, and then nobody wins.
        let record = |owner: &str| records::of(&format!("{owner}-{round}"));
        let [one, other] = [(&pair.one, "one"), (&pair.other, "other")].map(|(store, owner)| {
            let store = Arc::clone(store);
            let write = pair.write(1, version, record(owner));
            tokio::spawn(async move { swap(&store, write).await })
        });
        let (won, owner) = match (one.await.unwrap(), other.await.unwrap()) {
            (Written::Done(won), Written::Conflict) => (won, "one"),
            (Written::Conflict, Written::Done(won)) => (won, "other"),
            both => panic!("{both:?}"),
        };
        let stored = pair.one.read(&pair.key(1)).await.unwrap().unwrap();
        assert_eq!((Some(stored.version), stored.record), (won, Arc::new(record(owner))));
        version = won;
    }
}

pub async fn a_watch_sees_all_that_happens_from_its_beginning_in_order(pair: &Pair) {
    // Before it: not seen.
    done(&pair.one, pair.write(7, None, records::of("before"))).await;
    let mut changes = pair.one.watch(&pair.subnet).await.unwrap();
    let elsewhere = Pair {
        one: Arc::clone(&pair.one),
        other: Arc::clone(&pair.other),
        subnet: format!("{}-b", pair.subnet),
    };
    let mut expected = Vec::new();
    for (number, store) in [(1, &pair.other), (2, &pair.one)] {
        done(store, elsewhere.write(number, None, records::of("elsewhere"))).await;
        let first = done(store, pair.write(number, None, records::of("a"))).await;
        let second = done(store, pair.write(number, Some(first), records::of("b"))).await;
        assert_eq!(
            swap(store, pair.remove(number, Some(second))).await,
            Written::Done(None)
        );
        expected.extend([
            (number, Some((first, "a"))),
            (number, Some((second, "b"))),
            (number, None),
        ]);
    }
    for (number, left) in expected {
        match (changes.next().await.unwrap(), left) {
            (Change::Written(stored), Some((version, owner))) => {
                assert_eq!((stored.key, stored.version), (pair.key(number), version));
                assert_eq!(*stored.record, records::of(owner));
            }
            (Change::Removed(key, _), None) => assert_eq!(key, pair.key(number)),
            other => panic!("{other:?}"),
        }
    }
}

pub async fn who_watches_and_then_loads_misses_nothing(pair: &Pair) {
    const BLOCKS: u16 = 4;
    const LAST: u16 = 99;
    let stir = |number: u16| {
        let store = Arc::clone(if number.is_multiple_of(2) {
            &pair.one
        } else {
            &pair.other
        });
        let steps: Vec<[Write; 2]> = (0..12)
            .map(|_| [pair.write(number, None, records::of("a")), pair.remove(number, None)])
            .collect();
        tokio::spawn(async move {
            for [mut make, mut remove] in steps {
                make.expected = None;
                let version = done(&store, make).await;
                remove.expected = Some(version);
                assert_eq!(swap(&store, remove).await, Written::Done(None));
            }
        })
    };
    let writers: Vec<_> = (0..BLOCKS).map(stir).collect();
    let mut changes = pair.one.watch(&pair.subnet).await.unwrap();
    let loaded = pair.load().await;
    let mut view: BTreeMap<BlockKey, Version> =
        loaded.into_iter().map(|stored| (stored.key, stored.version)).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    done(&pair.other, pair.write(0, None, records::of("left"))).await;
    done(&pair.other, pair.write(LAST, None, records::of("last"))).await;
    while !view.contains_key(&pair.key(LAST)) {
        match changes.next().await.unwrap() {
            Change::Written(stored) if view.get(&stored.key) >= Some(&stored.version) => {}
            Change::Written(stored) => drop(view.insert(stored.key, stored.version)),
            Change::Removed(key, _) => drop(view.remove(&key)),
            Change::Lost => panic!("nothing was to be lost"),
        }
    }
    let found: BTreeMap<BlockKey, Version> = pair
        .load()
        .await
        .into_iter()
        .map(|stored| (stored.key, stored.version))
        .collect();
    assert_eq!(view, found);
}

/// Two clusters on one store, neither of which has ever heard of the other's Subnet.
pub async fn of_two_who_register_one_cidr_exactly_one_is_given_it(pair: &Pair) {
    let ledger = |store: &Arc<dyn Store>, cluster: &str| {
        let ledger = Ledger::new(Arc::clone(store), Clock::system(), LedgerMetrics::unregistered());
        ledger.require_claims(cluster);
        ledger
    };
    let (one, other) = (ledger(&pair.one, "one"), ledger(&pair.other, "other"));
    let plan = |cidr: &str| Plan {
        cidrs: vec![cidr.parse().unwrap()],
        ..Plan::default()
    };
    let delay = Duration::from_secs(30);
    for round in 0..8 {
        let [ours, theirs] =
            ["ours", "theirs"].map(|whose| format!("{}-{whose}-{round}", pair.subnet));
        // The second one begins in the middle of the first.
        let (first, second) = (format!("10.{round}.0.0/16"), format!("10.{round}.128.0/17"));
        let (first, second) = (plan(&first), plan(&second));
        let (one, other) = tokio::join!(
            one.set_subnet(&ours, &first, delay),
            other.set_subnet(&theirs, &second, delay),
        );
        let refused: Vec<LedgerError> = [one.err(), other.err()].into_iter().flatten().collect();
        assert!(
            matches!(refused[..], [LedgerError::Overlap { .. }]),
            "round {round}: {refused:?}"
        );
    }
}
