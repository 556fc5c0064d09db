//! Random operations by several writers that die at any step and are started again, and what must hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_addr::{Plan, Prefix, UnitLengths};
use berth_ledger::store::Store;
use berth_ledger::{Clock, Kind, LeaseId, Ledger, LedgerMetrics, Owner};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::faults::Mortal;

pub const SUBNET: &str = "model";
const WRITERS: usize = 4;
const OWNERS: usize = 6;
const OPERATIONS: usize = 300;

/// Small, so that writers meet, and a little more than one block, so that a request can need two.
pub fn plan() -> Plan {
    Plan {
        cidrs: vec!["10.0.0.0/24".parse().unwrap(), "10.0.4.0/26".parse().unwrap()],
        unit_lengths: UnitLengths::default(),
        ..Plan::default()
    }
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Deaths of a writer, each at a step of its own.
    pub crashes: usize,
    /// The most steps of one life. Each is a write, or half of one.
    pub steps: u64,
}

/// What one writer was answered. An owner is asked for by one writer only, so this is all there is to know about it.
#[derive(Default)]
struct Told {
    /// Leases that were answered as given and not asked back since.
    held: BTreeMap<LeaseId, Prefix>,
    /// Asked back, without an answer: there or not.
    maybe_gone: BTreeSet<LeaseId>,
}

/// What a life came to.
struct End {
    writer: usize,
    told: Vec<Told>,
    died: bool,
}

/// A failing seed reproduces a run on memory and redb.
pub async fn run(store: Arc<dyn Store>, seed: u64, amount: Amount) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut told: Vec<Vec<Told>> = Vec::new();
    for _ in 0..WRITERS {
        told.push((0..OWNERS).map(|_| Told::default()).collect());
    }
    let mut crashes = 0;
    while crashes < amount.crashes {
        // All writers live and die at once, each at its own step, on the same store.
        let mut lives = JoinSet::new();
        for (writer, told) in told.drain(..).enumerate() {
            let steps = rng.random_range(0..amount.steps);
            let life_seed = rng.random();
            let mortal = Mortal::new(Arc::clone(&store), steps, rng.random());
            lives.spawn(life(writer, told, mortal, life_seed));
        }
        let mut ends: Vec<End> = lives.join_all().await;
        ends.sort_by_key(|end| end.writer);
        let died = ends.iter().filter(|end| end.died).count();
        told = ends.into_iter().map(|end| end.told).collect();
        crashes += died;
        check(&store, &told, seed).await;
    }
}

fn owner(writer: usize, n: usize) -> Owner {
    Owner::new(Kind::Secondary, "model", &format!("node-{writer}-{n}"), "uid").unwrap()
}

fn ledger(store: Arc<dyn Store>) -> Ledger {
    Ledger::new(store, Clock::system(), LedgerMetrics::unregistered())
}

/// Asks one thing after the other until an answer does not come any more.
async fn life(writer: usize, mut told: Vec<Told>, store: Mortal, seed: u64) -> End {
    let mut rng = StdRng::seed_from_u64(seed);
    let death = store.death();
    let ledger = ledger(Arc::new(store));
    ledger.set_subnet(SUBNET, &plan(), Duration::ZERO).await.unwrap();
    for (n, told) in told.iter_mut().enumerate() {
        told.recover(&ledger, &owner(writer, n), seed).await;
    }
    // Bounded: in a subnet that is full nothing needs to be written, and nobody dies.
    for _ in 0..OPERATIONS {
        let n = rng.random_range(0..OWNERS);
        let owner = owner(writer, n);
        let mine = &mut told[n];
        if rng.random_bool(0.55) {
            let count = rng.random_range(1..=20);
            let ids: Vec<LeaseId> = (0..count).map(|_| Uuid::from_u128(rng.random())).collect();
            let Some(granted) = before(&death, ledger.lease(SUBNET, &owner, ids, None)).await else {
                return End {
                    writer,
                    told,
                    died: true,
                };
            };
            // A busy server may refuse; whatever it did then is found when this writer is started again.
            for lease in granted.into_iter().flat_map(|grant| grant.leases) {
                mine.held.insert(lease.id, lease.units[0]);
            }
        } else {
            let some = mine.held.keys().copied().filter(|_| rng.random_bool(0.7));
            let ids: Vec<LeaseId> = some.collect();
            for id in &ids {
                mine.held.remove(id);
                mine.maybe_gone.insert(*id);
            }
            let Some(released) = before(&death, ledger.release(SUBNET, &owner, Some(ids.clone()))).await else {
                return End {
                    writer,
                    told,
                    died: true,
                };
            };
            let Ok(released) = released else {
                continue;
            };
            let released: BTreeSet<LeaseId> = released.into_iter().map(|lease| lease.id).collect();
            for id in ids {
                assert!(
                    released.contains(&id),
                    "seed {seed}: {id} was held, and did not come back"
                );
                mine.maybe_gone.remove(&id);
            }
        }
    }
    End {
        writer,
        told,
        died: false,
    }
}

impl Told {
    /// What a process does that was started again: it looks what there is.
    async fn recover(&mut self, ledger: &Ledger, owner: &Owner, seed: u64) {
        let held = ledger.held(SUBNET, owner).await.unwrap();
        let found: BTreeMap<LeaseId, Prefix> = held.into_iter().map(|lease| (lease.id, lease.units[0])).collect();
        for (id, unit) in &self.held {
            assert_eq!(
                found.get(id),
                Some(unit),
                "seed {seed}: {owner} was given {unit}, and lost it"
            );
        }
        self.held = found;
        self.maybe_gone.clear();
    }
}

/// A killed process does not see an answer: what it waited for is dropped.
async fn before<T>(death: &watch::Receiver<bool>, answer: impl Future<Output = T>) -> Option<T> {
    let mut death = death.clone();
    tokio::select! {
        biased;
        answer = answer => Some(answer),
        _ = death.wait_for(|dead| *dead) => None,
    }
}

/// Nobody writes now. A ledger that starts from the store must find what was answered, all of it, and no unit twice.
async fn check(store: &Arc<dyn Store>, told: &[Vec<Told>], seed: u64) {
    let ledger = ledger(Arc::clone(store));
    ledger.set_subnet(SUBNET, &plan(), Duration::ZERO).await.unwrap();
    let mut owned: BTreeMap<Prefix, Owner> = BTreeMap::new();
    let mut sum = 0_u128;
    for (writer, told) in told.iter().enumerate() {
        for (n, told) in told.iter().enumerate() {
            let owner = owner(writer, n);
            let held = ledger.held(SUBNET, &owner).await.unwrap();
            let mut found = BTreeMap::new();
            for lease in held {
                assert_eq!(lease.units.len(), 1, "seed {seed}: lease {} has two units", lease.id);
                sum += 1;
                let before = owned.insert(lease.units[0], owner.clone());
                assert_eq!(before, None, "seed {seed}: {} has two owners", lease.units[0]);
                found.insert(lease.id, lease.units[0]);
            }
            for (id, unit) in &told.held {
                assert_eq!(
                    found.get(id),
                    Some(unit),
                    "seed {seed}: {owner} was given {unit}, and lost it"
                );
            }
        }
    }
    let outlook = ledger.outlook(SUBNET).await.unwrap();
    let counts: Vec<_> = outlook.borrow().counts.values().copied().collect();
    assert_eq!(counts[0].reserved, sum, "seed {seed}: utilization is not the sum");
    assert_eq!(counts[0].capacity, 254 + 62);
}
