//! `cargo xtask bench ledger`: how fast units are leased and released, in memory and on disk, and
//! what they cost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a benchmark that can't measure ends with the reason"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use berth_addr::{Plan, UnitLengths};
use berth_ledger::store::{MemoryStore, RedbStore, Store, Write};
use berth_ledger::{BlockKey, Clock, Kind, LeaseId, Ledger, LedgerMetrics, Owner, Record, Tenure};
use berth_testbed::{Figures, Process};
use uuid::Uuid;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SUBNET: &str = "bench";
/// What a node asks for at once.
const BATCH: usize = 16;
const CALLERS: usize = 64;

/// All parts, or those that are named: `size`, `memory`, `full`, `large`, `disk`.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&String> =
        arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|named| *named == part);
    let mut figures = Figures::default();
    // First: what an earlier part has freed is still in memory, and would be used again.
    if wanted("size") {
        one_thread(a_million(&mut figures));
    }
    if wanted("memory") {
        one_thread(in_memory(&mut figures));
    }
    if wanted("full") {
        one_thread(nearly_full(&mut figures));
    }
    if wanted("large") {
        one_thread(large(&mut figures));
    }
    if wanted("disk") {
        many_threads(on_disk(&mut figures));
    }
    figures.print(arguments.iter().any(|argument| argument == "--json"));
}

fn one_thread(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work);
}

fn many_threads(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

fn plan(cidr: &str) -> Plan {
    Plan {
        cidrs: vec![cidr.parse().unwrap()],
        unit_lengths: UnitLengths::default(),
        ..Plan::default()
    }
}

async fn ledger(store: impl Store, cidr: &str) -> Ledger {
    let ledger = Ledger::new(Arc::new(store), Clock::system(), LedgerMetrics::unregistered());
    ledger
        .set_subnet(SUBNET, &plan(cidr), Duration::from_secs(30))
        .await
        .unwrap();
    ledger
}

fn owner(n: usize) -> Owner {
    Owner::new(Kind::Secondary, "bench", &format!("node-{n}"), "0b1a").unwrap()
}

/// Not from the system's randomness: that would be measured, too.
fn ids(count: usize) -> Vec<LeaseId> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let next = || LAST.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..count).map(|_| Uuid::from_u64_pair(next(), next())).collect()
}

/// Leases a batch and gives it back, over and over; gives units a second.
async fn cycles(ledger: &Ledger, owner: &Owner, cycles: usize) -> f64 {
    let batches: Vec<Vec<LeaseId>> = (0..cycles).map(|_| ids(BATCH)).collect();
    let start = Instant::now();
    for batch in batches {
        let grant = ledger.lease(SUBNET, owner, batch.clone(), None).await.unwrap();
        assert_eq!(grant.short, 0);
        ledger.release(SUBNET, owner, Some(batch)).await.unwrap();
    }
    (cycles * BATCH) as f64 / start.elapsed().as_secs_f64()
}

/// Other guests of a machine come and go: how fast it is by itself, the best of some rounds shows.
const ROUNDS: usize = 7;

async fn in_memory(figures: &mut Figures) {
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let ledger = ledger(MemoryStore::default(), "10.0.0.0/8").await;
        alone.push(cycles(&ledger, &owner(0), 20_000).await);
        let start = Instant::now();
        let mut callers = tokio::task::JoinSet::new();
        for n in 0..CALLERS {
            let ledger = ledger.clone();
            callers.spawn(async move { cycles(&ledger, &owner(n), 500).await });
        }
        callers.join_all().await;
        together.push((CALLERS * 500 * BATCH) as f64 / start.elapsed().as_secs_f64());
    }
    for (callers, mut rates) in [("1 caller", alone), ("64 callers", together)] {
        rates.sort_by(f64::total_cmp);
        let name = format!("memory, one thread: units leased and released, {callers}");
        figures.rate(&format!("{name}, median of {ROUNDS} rounds"), rates[ROUNDS / 2]);
        figures.rate(&format!("{name}, best"), rates[ROUNDS - 1]);
    }
}

fn record(owned: usize) -> Arc<Record> {
    let tenure = |_| Tenure {
        owner: owner(0),
        lease: ids(1)[0],
        since: 0,
    };
    let owned = (0..owned).map(|offset| (offset as u8, tenure(offset)));
    Arc::new(Record::new(owned, []).unwrap())
}

/// One unit in a thousand is free, in every fourth block.
async fn nearly_full(figures: &mut Figures) {
    let store = MemoryStore::default();
    let (full, short_of_one) = (record(256), record(255));
    let blocks = (0..65_536_u32).map(|n| Write {
        key: BlockKey {
            subnet: SUBNET.to_owned(),
            first: format!("10.{}.{}.0/32", n >> 8, n & 255).parse().unwrap(),
        },
        expected: None,
        record: Some(Arc::clone(if n % 4 == 0 { &short_of_one } else { &full })),
    });
    store.write(blocks.collect()).await;
    let ledger = ledger(store, "10.0.0.0/8").await;
    let mut times = Vec::new();
    for n in 1..=1_000 {
        let (owner, id) = (owner(n), ids(1));
        let start = Instant::now();
        let grant = ledger.lease(SUBNET, &owner, id, None).await.unwrap();
        times.push(start.elapsed());
        assert_eq!(grant.short, 0);
    }
    times.sort();
    let micros = |at: usize| times[at].as_secs_f64() * 1e6;
    figures.micros("a free unit in a /8 that is 99.9 % full, p50", micros(500));
    figures.micros("a free unit in a /8 that is 99.9 % full, p99", micros(990));
}

async fn large(figures: &mut Figures) {
    let start = Instant::now();
    let ledger = ledger(MemoryStore::default(), "fd00::/64").await;
    figures.millis("a /64 made", start.elapsed().as_secs_f64() * 1e3);
    drop(ledger);
}

/// The ledger and its store, both in this process.
async fn a_million(figures: &mut Figures) {
    let before = resident();
    let ledger = ledger(MemoryStore::default(), "10.0.0.0/8").await;
    for n in 0..4_000 {
        let grant = ledger.lease(SUBNET, &owner(n), ids(250), None).await.unwrap();
        assert_eq!(grant.leases.len(), 250);
    }
    let after = resident();
    figures.mebibytes("1,000,000 owned units of 4,000 nodes", after - before);
    drop(ledger);
}

fn resident() -> u64 {
    Process::current().unwrap().resident().unwrap()
}

/// Every answer is on disk.
async fn on_disk(figures: &mut Figures) {
    let directory = tempfile::tempdir().unwrap();
    let store = RedbStore::open(&directory.path().join("ledger.redb")).unwrap();
    let ledger = ledger(store, "10.0.0.0/8").await;
    let rounds = 100;
    let start = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for n in 0..CALLERS {
        let ledger = ledger.clone();
        callers.spawn(async move {
            for _ in 0..rounds {
                ledger.lease(SUBNET, &owner(n), ids(BATCH), None).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    let rate = (CALLERS * rounds * BATCH) as f64 / start.elapsed().as_secs_f64();
    figures.rate("redb: durable units leased, 64 callers in batches of 16", rate);
    let (batch, owner) = (ids(1), owner(0));
    let start = Instant::now();
    ledger.lease(SUBNET, &owner, batch, None).await.unwrap();
    figures.millis("redb: one durable lease alone", start.elapsed().as_secs_f64() * 1e3);
}
