//! Random operations by several writers that die at any step and are started again, and what must
//! hold after each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_addr::{Family, Plan, Prefix, UnitLengths};
use berth_ledger::store::Store;
use berth_ledger::{Clock, Kind, LeaseId, Ledger, LedgerError, LedgerMetrics, Owner};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::faults::Mortal;

pub const SUBNET: &str = "model";
const WRITERS: usize = 4;
/// Of each writer, besides the one that all share.
const OWNERS: usize = 6;
const OPERATIONS: usize = 300;
const REUSE_DELAY: Duration = Duration::from_secs(3);

/// Two families. Small, so that writers meet, and a little more than one block, so that a request
/// can need several.
fn plan() -> Plan {
    let cidrs = ["10.0.0.0/24", "10.0.4.0/26", "fd00::/119"];
    Plan {
        cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        unit_lengths: UnitLengths::default(),
        ..Plan::default()
    }
}

/// What writers change it to, some earlier and some later.
fn extended() -> Plan {
    let mut plan = plan();
    plan.cidrs.push("10.0.8.0/26".parse().unwrap());
    plan
}

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Deaths of a writer, each at a step of its own.
    pub crashes: usize,
    /// The most steps of one life. Each is a write, or half of one.
    pub steps: u64,
    /// Whether the clock is the run's own, so that waiting costs nothing.
    pub waits: bool,
}

/// What one writer was answered. All but one owner are asked for by one writer only, so this is all
/// there is to know about them.
#[derive(Default)]
struct Told {
    /// Leases that were answered as given and not asked back since.
    held: BTreeMap<LeaseId, Vec<Prefix>>,
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
pub struct Run {
    seed: u64,
    rng: StdRng,
    amount: Amount,
    told: Vec<Vec<Told>>,
    crashes: usize,
}

impl Run {
    pub fn new(seed: u64, amount: Amount) -> Self {
        let owners = || (0..OWNERS).map(|_| Told::default()).collect();
        Self {
            seed,
            rng: StdRng::seed_from_u64(seed),
            amount,
            told: (0..WRITERS).map(|_| owners()).collect(),
            crashes: 0,
        }
    }

    pub fn is_over(&self) -> bool {
        self.crashes >= self.amount.crashes
    }

    /// All writers live and die at once, each at its own step, on the same store.
    pub async fn round(&mut self, store: Arc<dyn Store>) {
        let mut lives = JoinSet::new();
        for (writer, told) in self.told.drain(..).enumerate() {
            let steps = self.rng.random_range(0..self.amount.steps);
            let life = Life {
                writer,
                told,
                rng: StdRng::seed_from_u64(self.rng.random()),
                seed: self.seed,
                waits: self.amount.waits,
            };
            let mortal = Mortal::new(Arc::clone(&store), steps, self.rng.random());
            lives.spawn(life.live(mortal));
        }
        let mut ends: Vec<End> = lives.join_all().await;
        ends.sort_by_key(|end| end.writer);
        self.crashes += ends.iter().filter(|end| end.died).count();
        self.told = ends.into_iter().map(|end| end.told).collect();
        check(&store, &self.told, self.seed).await;
    }
}

fn owner(writer: usize, n: usize) -> Owner {
    Owner::new(Kind::Secondary, "model", &format!("node-{writer}-{n}"), "uid").unwrap()
}

/// All writers ask for it, as two controllers do that both believe to lead.
fn shared_owner() -> Owner {
    Owner::new(Kind::Secondary, "model", "shared", "uid").unwrap()
}

fn ledger(store: Arc<dyn Store>) -> Ledger {
    Ledger::new(store, Clock::system(), LedgerMetrics::unregistered())
}

struct Life {
    writer: usize,
    told: Vec<Told>,
    rng: StdRng,
    seed: u64,
    waits: bool,
}

impl Life {
    /// Asks one thing after the other until an answer does not come any more.
    async fn live(mut self, store: Mortal) -> End {
        let death = store.death();
        let ledger = ledger(Arc::new(store));
        self.begin(&ledger).await;
        // Bounded: in a subnet that is full nothing needs to be written, and nobody dies.
        for _ in 0..OPERATIONS {
            if before(&death, self.operate(&ledger)).await.is_none() {
                return self.end(true);
            }
        }
        self.end(false)
    }

    fn end(self, died: bool) -> End {
        End {
            writer: self.writer,
            told: self.told,
            died,
        }
    }

    async fn begin(&mut self, ledger: &Ledger) {
        match ledger.set_subnet(SUBNET, &plan(), REUSE_DELAY).await {
            Ok(()) => {}
            // Somebody has extended it, and units there have owners.
            Err(LedgerError::Plan(_)) => {
                ledger.set_subnet(SUBNET, &extended(), REUSE_DELAY).await.unwrap()
            }
            Err(error) => panic!("{error}"),
        }
        for (n, told) in self.told.iter_mut().enumerate() {
            told.recover(ledger, &owner(self.writer, n), self.seed).await;
        }
    }

    async fn operate(&mut self, ledger: &Ledger) {
        let n = self.rng.random_range(0..OWNERS);
        match self.rng.random_range(0..100) {
            0..45 => self.lease(ledger, n).await,
            45..50 => self.claim(ledger, n).await,
            50..85 => self.release(ledger, n).await,
            85..95 => self.share(ledger).await,
            95..97 => drop(ledger.set_subnet(SUBNET, &extended(), REUSE_DELAY).await),
            97..99 if self.waits => {
                tokio::time::sleep(Duration::from_secs(self.rng.random_range(1..90))).await
            }
            _ => drop(ledger.refresh(SUBNET).await),
        }
    }

    /// A store that fails may refuse; whatever it did then is found when this writer is started
    /// again.
    async fn lease(&mut self, ledger: &Ledger, n: usize) {
        let count = self.rng.random_range(1..=20);
        let ids: Vec<LeaseId> = (0..count).map(|_| Uuid::from_u128(self.rng.random())).collect();
        let granted = ledger.lease(SUBNET, &owner(self.writer, n), ids, None).await;
        for lease in granted.into_iter().flat_map(|grant| grant.leases) {
            assert_eq!(
                lease.units.len(),
                2,
                "seed {}: a lease is one of each family",
                self.seed
            );
            self.told[n].held.insert(lease.id, lease.units);
        }
    }

    async fn claim(&mut self, ledger: &Ledger, n: usize) {
        let last: u8 = self.rng.random();
        let unit: Prefix = format!("10.0.0.{last}/32").parse().unwrap();
        let id = Uuid::from_u128(self.rng.random());
        let held: Vec<Prefix> = self.told[n].held.values().flatten().copied().collect();
        let claimed = ledger.claim(SUBNET, &owner(self.writer, n), id, vec![unit]).await;
        // What the owner has already it has under another lease.
        if claimed == Ok(Ok(())) && !held.contains(&unit) {
            let kept = ledger.owner_of(SUBNET, unit).await;
            if kept.is_ok_and(|kept| kept.is_some_and(|tenure| tenure.lease == id)) {
                self.told[n].held.insert(id, vec![unit]);
            }
        }
    }

    async fn release(&mut self, ledger: &Ledger, n: usize) {
        let mine = &mut self.told[n];
        let some = mine.held.keys().copied().filter(|_| self.rng.random_bool(0.7));
        let ids: Vec<LeaseId> = some.collect();
        for id in &ids {
            mine.held.remove(id);
            mine.maybe_gone.insert(*id);
        }
        let released = ledger.release(SUBNET, &owner(self.writer, n), Some(ids.clone())).await;
        let Ok(released) = released else {
            return;
        };
        let released: BTreeSet<LeaseId> = released.into_iter().map(|lease| lease.id).collect();
        for id in ids {
            let seed = self.seed;
            assert!(
                released.contains(&id),
                "seed {seed}: {id} was held, and did not come back"
            );
            mine.maybe_gone.remove(&id);
        }
    }

    /// The same few leases as everybody else.
    async fn share(&mut self, ledger: &Ledger) {
        let ids = (0..6).map(|_| Uuid::from_u128(self.rng.random_range(0..12)));
        let ids: BTreeSet<LeaseId> = ids.collect();
        let ids: Vec<LeaseId> = ids.into_iter().collect();
        if self.rng.random_bool(0.6) {
            drop(ledger.lease(SUBNET, &shared_owner(), ids, None).await);
        } else {
            drop(ledger.release(SUBNET, &shared_owner(), Some(ids)).await);
        }
    }
}

impl Told {
    /// What a process does that was started again: it looks what there is.
    async fn recover(&mut self, ledger: &Ledger, owner: &Owner, seed: u64) {
        let held = ledger.held(SUBNET, owner).await.unwrap();
        let found: BTreeMap<LeaseId, Vec<Prefix>> =
            held.into_iter().map(|lease| (lease.id, lease.units)).collect();
        self.check(&found, owner, seed);
        self.held = found;
        self.maybe_gone.clear();
    }

    fn check(&self, found: &BTreeMap<LeaseId, Vec<Prefix>>, owner: &Owner, seed: u64) {
        for (id, units) in &self.held {
            assert_eq!(
                found.get(id),
                Some(units),
                "seed {seed}: {owner} was given {units:?}, and lost it"
            );
        }
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

/// Nobody writes now. A ledger that starts from the store must find what was answered, all of it,
/// and no unit twice.
async fn check(store: &Arc<dyn Store>, told: &[Vec<Told>], seed: u64) {
    let ledger = ledger(Arc::clone(store));
    ledger.set_subnet(SUBNET, &extended(), REUSE_DELAY).await.unwrap();
    let nothing = Told::default();
    let mut owners = vec![(shared_owner(), &nothing)];
    for (writer, told) in told.iter().enumerate() {
        owners.extend(told.iter().enumerate().map(|(n, told)| (owner(writer, n), told)));
    }
    let mut owned: BTreeMap<Prefix, Owner> = BTreeMap::new();
    for (owner, told) in owners {
        let held = ledger.held(SUBNET, &owner).await.unwrap();
        for lease in &held {
            // One that nobody was answered may lack a family; none has two of one, unless two
            // writers gave it at the same moment, from different blocks: too many for one owner,
            // but not one for two.
            let families: BTreeSet<Family> = lease.units.iter().map(|unit| unit.family()).collect();
            let once = families.len() == lease.units.len();
            assert!(once || owner == shared_owner(), "seed {seed}: {lease:?}");
            for unit in &lease.units {
                let before = owned.insert(*unit, owner.clone());
                assert_eq!(before, None, "seed {seed}: {unit} has two owners");
            }
        }
        let found = held.into_iter().map(|lease| (lease.id, lease.units)).collect();
        told.check(&found, &owner, seed);
    }
    let outlook = ledger.outlook(SUBNET).await.unwrap();
    let counts = outlook.borrow().counts.clone();
    for (family, capacity) in [(Family::V4, 254 + 62 + 62), (Family::V6, 511)] {
        let sum = owned.keys().filter(|unit| unit.family() == family).count();
        let reserved = counts[&family].reserved;
        assert_eq!(reserved, sum as u128, "seed {seed}: utilization is not the sum");
        assert_eq!(counts[&family].capacity, capacity);
    }
}
