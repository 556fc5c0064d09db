//! One task for each subnet: it alone changes the subnet's book. It takes all requests that wait, decides them one after the other, has the
//! blocks that changed written together, and answers when they are durable: requests that wait together share one write.
//!
//! Why no unit is given twice: an answer is sent only after the store has swapped every block that the decision touched for the version that
//! it was decided on. When the store refuses one, or does not say, that block is read again and the requests are decided anew; as they name
//! their leases, what was written of them already is found and kept. When it can't be read either, nothing more is decided until everything
//! has been loaded again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::{Counts, Family, Plan, Prefix};
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::warn;

use crate::book::{Book, Grant, Lease, PlanError, Refusal};
use crate::clock::Clock;
use crate::ledger::LedgerError;
use crate::metrics::LedgerMetrics;
use crate::owner::Owner;
use crate::record::{BlockKey, LeaseId, Tenure};
use crate::store::{Change, Store, StoreError, Write, Written};

type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;

/// What a committer is asked to do.
#[derive(Debug)]
pub enum Request {
    Lease {
        owner: Owner,
        leases: Vec<LeaseId>,
        families: Option<Vec<Family>>,
        answer: Answer<Grant>,
    },
    Claim {
        owner: Owner,
        lease: LeaseId,
        units: Vec<Prefix>,
        answer: Answer<Result<(), Refusal>>,
    },
    Release {
        owner: Owner,
        leases: Option<Vec<LeaseId>>,
        answer: Answer<Vec<Lease>>,
    },
    Held {
        owner: Owner,
        answer: Answer<Vec<Lease>>,
    },
    Owners {
        answer: Answer<Vec<Owner>>,
    },
    OwnerOf {
        unit: Prefix,
        answer: Answer<Option<Tenure>>,
    },
    /// Everything from the store again.
    Refresh {
        answer: Answer<()>,
    },
    Plan {
        plan: Plan,
        reuse_delay: Duration,
        answer: Answer<Result<(), PlanError>>,
    },
}

/// What everybody may look at without asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// As of the last commit; rests go on meanwhile.
    pub counts: BTreeMap<Family, Counts>,
    /// Goes up whenever there is more to lease than before: for those who went away empty-handed.
    pub freed: u64,
}

/// A request that writes, and what came of it. Kept until its writes are durable.
enum Writing {
    Lease {
        owner: Owner,
        leases: Vec<LeaseId>,
        families: Vec<Family>,
        grant: Grant,
        answer: Answer<Grant>,
    },
    Claim {
        owner: Owner,
        lease: LeaseId,
        units: Vec<Prefix>,
        claimed: Result<(), Refusal>,
        answer: Answer<Result<(), Refusal>>,
    },
    Release {
        owner: Owner,
        leases: Option<Vec<LeaseId>>,
        released: Vec<Lease>,
        answer: Answer<Vec<Lease>>,
    },
}

impl Writing {
    /// Can be done again after the store refused some of it: what is there already stays, and is part of the outcome.
    fn decide(&mut self, book: &mut Book, now: u64) {
        match self {
            Self::Lease {
                owner,
                leases,
                families,
                grant,
                ..
            } => *grant = book.lease(owner, leases, families, now),
            Self::Claim {
                owner,
                lease,
                units,
                claimed,
                ..
            } => *claimed = book.claim(owner, *lease, units),
            Self::Release {
                owner,
                leases,
                released,
                ..
            } => {
                let back = book.release(owner, leases.as_deref(), now);
                // What came back at an earlier attempt does not come back again, unless that attempt was refused.
                released.retain(|lease| back.iter().all(|other| other.id != lease.id));
                released.extend(back);
            }
        }
    }

    /// Who asked may have gone away: whatever it was is durable, and found when it is asked for again.
    fn answer(self) {
        match self {
            Self::Lease { grant, answer, .. } => drop(answer.send(Ok(grant))),
            Self::Claim { claimed, answer, .. } => drop(answer.send(Ok(claimed))),
            Self::Release { released, answer, .. } => drop(answer.send(Ok(released))),
        }
    }

    fn fail(self, error: &LedgerError) {
        let error = error.clone();
        match self {
            Self::Lease { answer, .. } => drop(answer.send(Err(error))),
            Self::Claim { answer, .. } => drop(answer.send(Err(error))),
            Self::Release { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

impl Request {
    fn fail(self, error: &LedgerError) {
        let error = error.clone();
        match self {
            Self::Lease { answer, .. } => drop(answer.send(Err(error))),
            Self::Claim { answer, .. } => drop(answer.send(Err(error))),
            Self::Release { answer, .. } => drop(answer.send(Err(error))),
            Self::Held { answer, .. } => drop(answer.send(Err(error))),
            Self::Owners { answer } => drop(answer.send(Err(error))),
            Self::OwnerOf { answer, .. } => drop(answer.send(Err(error))),
            Self::Refresh { answer } => drop(answer.send(Err(error))),
            Self::Plan { answer, .. } => drop(answer.send(Err(error))),
        }
    }
}

/// Why a write is not tried again.
enum Setback {
    /// The book is as the store is.
    Refused(String),
    /// It may not be.
    Unreadable(StoreError),
}

pub struct Committer {
    pub subnet: String,
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub metrics: LedgerMetrics,
    book: Book,
    reuse_delay: u64,
    changes: Option<BoxStream<'static, Change>>,
    outlook: watch::Sender<Outlook>,
    /// How many could be leased when it was last published.
    available: u128,
    /// When counts are to be published next; `None` when nothing has changed since.
    due: Option<Instant>,
    published: Option<Instant>,
    /// When blocks that nobody needs any more are to leave the store; `None` when nothing was written since the last time.
    sweep: Option<Instant>,
    /// Whether the book may differ from the store in ways that are not known: then nothing is decided.
    stale: bool,
}

/// So many requests are decided before the first of them is written: bounds the time to the first answer.
const MOST_AT_ONCE: usize = 1024;

/// Attempts in a row at which the store refused or did not answer, before those who wait are told.
const ATTEMPTS: u32 = 64;

/// Nobody waits for what a sweep gives.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(60);

const BETWEEN_COUNTS: Duration = Duration::from_millis(20);

/// Between attempts to reach a store that does not answer.
const PAUSE: Duration = Duration::from_millis(200);

impl Committer {
    /// Loads the subnet's blocks.
    pub async fn open(
        subnet: &str,
        plan: &Plan,
        reuse_delay: Duration,
        store: Arc<dyn Store>,
        clock: Clock,
        metrics: LedgerMetrics,
    ) -> Result<(Self, watch::Receiver<Outlook>), LedgerError> {
        let reuse_delay = millis(reuse_delay);
        let book = Book::new(subnet, plan, reuse_delay).map_err(PlanError::from)?;
        let (outlook, receiver) = watch::channel(Outlook::default());
        let mut committer = Self {
            subnet: subnet.to_owned(),
            store,
            clock,
            metrics,
            book,
            reuse_delay,
            changes: None,
            outlook,
            available: 0,
            due: None,
            published: None,
            sweep: None,
            stale: true,
        };
        committer.reload().await?;
        committer.publish();
        committer.sweep_later();
        Ok((committer, receiver))
    }

    /// Until nobody can ask any more.
    pub async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut waiting = Vec::new();
        loop {
            let due = [self.due, self.sweep].into_iter().flatten().min();
            let due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let change = async {
                match &mut self.changes {
                    Some(changes) => changes.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                change = change => self.follow(change),
                count = requests.recv_many(&mut waiting, MOST_AT_ONCE) => {
                    if count == 0 {
                        return;
                    }
                    self.serve(&mut waiting).await;
                }
                () = due => {}
            }
            // At once, and not when somebody asks: those who wait for something to come free do not ask.
            if self.stale && self.reload().await.is_err() {
                self.due = Some(Instant::now() + PAUSE);
                continue;
            }
            if self.sweep.is_some_and(|sweep| sweep <= Instant::now()) {
                self.sweep().await;
            }
            self.publish();
        }
    }

    /// Not sooner than all that is released now has rested.
    fn sweep_later(&mut self) {
        if self.sweep.is_none() {
            let delay = Duration::from_millis(self.reuse_delay).max(BETWEEN_SWEEPS);
            self.sweep = Instant::now().checked_add(delay);
        }
    }

    /// Takes blocks that nobody needs out of the store, in the way that all writes go: one that somebody else has put to use meanwhile stays.
    async fn sweep(&mut self) {
        self.sweep = None;
        let now = self.clock.now();
        self.book.retire(now);
        let writes = self.book.changed(now, self.reuse_delay);
        if let Err(setback) = self.write(writes).await {
            // It is tried again after the next write of whatever kind.
            let error = self.suffer(setback);
            warn!(subnet = self.subnet, %error, "blocks that nobody needs stay in the store");
        }
        if self.book.counts(now).values().any(|counts| counts.resting > 0) {
            self.sweep_later();
        }
    }

    /// Everything from the store. Watched first and loaded then, so that no change falls between.
    async fn reload(&mut self) -> Result<(), StoreError> {
        self.changes = if self.store.is_shared() {
            Some(self.store.watch(&self.subnet).await?)
        } else {
            None
        };
        let blocks = self.store.load(&self.subnet).await?;
        self.book.clear();
        for stored in &blocks {
            if let Err(error) = self.book.load(stored) {
                // Left over from another plan. It is not ours to remove, and nothing of it can be given.
                warn!(subnet = self.subnet, first = %stored.key.first, %error, "a block of the store is left alone");
            }
        }
        self.stale = false;
        Ok(())
    }

    fn follow(&mut self, change: Option<Change>) {
        match change {
            Some(Change::Written(stored)) => drop(self.book.follow(&stored)),
            Some(Change::Removed(key, version)) => self.book.follow_removal(&key, version),
            Some(Change::Lost) | None => {
                self.changes = None;
                self.stale = true;
            }
        }
    }

    async fn serve(&mut self, waiting: &mut Vec<Request>) {
        // Before anything else: who asked for it wants to know what the store has now, and the rest may as well.
        self.stale |= waiting.iter().any(|request| matches!(request, Request::Refresh { .. }));
        if self.stale
            && let Err(error) = self.reload_with_patience().await
        {
            for request in waiting.drain(..) {
                request.fail(&error.clone().into());
            }
            return;
        }
        let mut writing = Vec::new();
        for request in waiting.drain(..) {
            if let Some(request) = self.read_or_keep(request) {
                writing.push(request);
            }
        }
        self.commit(writing).await;
    }

    async fn reload_with_patience(&mut self) -> Result<(), StoreError> {
        let mut last = self.reload().await;
        for _ in 0..3 {
            if last.is_ok() {
                return last;
            }
            tokio::time::sleep(PAUSE).await;
            last = self.reload().await;
        }
        last
    }

    /// Answers what only reads.
    fn read_or_keep(&mut self, request: Request) -> Option<Writing> {
        match request {
            Request::Lease {
                owner,
                leases,
                families,
                answer,
            } => {
                return Some(Writing::Lease {
                    owner,
                    leases,
                    families: families.unwrap_or_else(|| self.book.families().collect()),
                    grant: Grant::default(),
                    answer,
                });
            }
            Request::Claim {
                owner,
                lease,
                units,
                answer,
            } => {
                return Some(Writing::Claim {
                    owner,
                    lease,
                    units,
                    claimed: Ok(()),
                    answer,
                });
            }
            Request::Release { owner, leases, answer } => {
                return Some(Writing::Release {
                    owner,
                    leases,
                    released: Vec::new(),
                    answer,
                });
            }
            Request::Held { owner, answer } => drop(answer.send(Ok(self.book.held(&owner)))),
            Request::Owners { answer } => drop(answer.send(Ok(self.book.owners().cloned().collect()))),
            Request::OwnerOf { unit, answer } => drop(answer.send(Ok(self.book.owner_of(unit).cloned()))),
            Request::Refresh { answer } => drop(answer.send(Ok(()))),
            Request::Plan {
                plan,
                reuse_delay,
                answer,
            } => drop(answer.send(Ok(self.replan(&plan, reuse_delay)))),
        }
        None
    }

    fn replan(&mut self, plan: &Plan, reuse_delay: Duration) -> Result<(), PlanError> {
        let reuse_delay = millis(reuse_delay);
        self.book = self.book.planned_as(plan, reuse_delay)?;
        self.reuse_delay = reuse_delay;
        // Blocks that were outside of the old cidrs may be inside of the new ones.
        self.stale = true;
        Ok(())
    }

    /// Decides, writes, and decides again what the store did not take.
    async fn commit(&mut self, mut writing: Vec<Writing>) {
        if writing.is_empty() {
            return;
        }
        for _ in 0..ATTEMPTS {
            let now = self.clock.now();
            for request in &mut writing {
                request.decide(&mut self.book, now);
            }
            let writes = self.book.changed(now, self.reuse_delay);
            match self.write(writes).await {
                Ok(true) => {
                    writing.into_iter().for_each(Writing::answer);
                    return;
                }
                Ok(false) => self.metrics.conflict(&self.subnet),
                Err(setback) => {
                    let error = self.suffer(setback);
                    writing.into_iter().for_each(|request| request.fail(&error));
                    return;
                }
            }
        }
        let subnet = self.subnet.clone();
        let error = LedgerError::Contended { subnet };
        writing.into_iter().for_each(|request| request.fail(&error));
    }

    fn suffer(&mut self, setback: Setback) -> LedgerError {
        match setback {
            Setback::Refused(why) => LedgerError::Refused {
                subnet: self.subnet.clone(),
                why,
            },
            Setback::Unreadable(error) => {
                self.stale = true;
                warn!(subnet = self.subnet, %error, "the store does not say what it has");
                error.into()
            }
        }
    }

    /// Whether all of it is durable. Blocks that were not swapped are read again, so that the book is as the store is; an error means that it is not.
    async fn write(&mut self, writes: Vec<Write>) -> Result<bool, Setback> {
        if writes.is_empty() {
            return Ok(true);
        }
        self.sweep_later();
        let keys: Vec<BlockKey> = writes.iter().map(|write| write.key.clone()).collect();
        let written = self.store.write(writes).await;
        let mut all_done = written.len() == keys.len();
        let mut differ = Vec::new();
        let mut refusal = None;
        for (key, written) in keys.into_iter().zip(written) {
            if !self.book.settle(&key, &written) {
                differ.push(key);
            }
            if let Written::Refused(why) = written {
                refusal = Some(why);
            }
        }
        for key in differ {
            all_done = false;
            match self.store.read(&key).await.map_err(Setback::Unreadable)? {
                Some(stored) => drop(self.book.load(&stored)),
                None => self.book.forget(&key),
            }
        }
        match refusal {
            Some(why) => Err(Setback::Refused(why)),
            None => Ok(all_done),
        }
    }

    /// Tells everybody how things stand: at once that there is more to lease, and the counts, which take a walk through the blocks, not more
    /// often than anybody can use them.
    fn publish(&mut self) {
        let available: u128 = self
            .book
            .available()
            .map(|(_, count)| count)
            .fold(0, u128::saturating_add);
        let more = available > self.available;
        self.available = available;
        let now = Instant::now();
        let next = self.published.map_or(now, |published| published + BETWEEN_COUNTS);
        if now < next {
            self.due = Some(next);
            if more {
                self.outlook.send_modify(|outlook| outlook.freed += 1);
            }
            return;
        }
        self.due = None;
        self.published = Some(now);
        let counts = self.book.counts(self.clock.now());
        self.metrics.counts(&self.subnet, &counts);
        self.outlook.send_if_modified(|outlook| {
            let changed = more || outlook.counts != counts;
            outlook.freed += u64::from(more);
            outlook.counts = counts;
            changed
        });
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
