//! One task for each subnet: it alone changes the subnet's book. It takes all requests that wait,
//! decides them one after the other, has the blocks that changed written together, and answers when
//! they are durable: requests that wait together share one write.
//!
//! Why no unit is given twice: an answer is sent only after the store has swapped every block that
//! the decision touched for the version that it was decided on. When the store refuses one, or does
//! not say, that block is read again and the requests are decided anew; as they name their leases,
//! what was written of them already is found and kept. When it can't be read either, or holds a
//! block that does not fit the plan, nothing more is decided until everything has been loaded
//! again.

mod commit;
mod gate;
mod load;
mod request;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_addr::{Counts, Family, Plan};
use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::warn;

use crate::book::{Book, Grant, PlanError};
use crate::clock::Clock;
use crate::error::LedgerError;
use crate::metrics::LedgerMetrics;
use crate::store::{Change, Store, StoreError};
use commit::Outcome;
use gate::Gate;
pub use request::Request;
use writing::Writing;

/// What everybody may look at without asking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// As they were counted last; cooling down goes on meanwhile.
    pub counts: BTreeMap<Family, Counts>,
    /// Goes up whenever there is more to lease than before: for those who went away empty-handed.
    pub freed: u64,
    /// By cluster: goes up whenever something of it was lost, and must be claimed again before more
    /// is leased.
    pub generations: BTreeMap<String, u64>,
}

/// How full a subnet is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetCounts {
    pub families: BTreeMap<Family, Counts>,
    /// As in [`Outlook`].
    pub freed: u64,
}

/// Those who wait for counts. Unbounded: each is answered at once.
type Counting = mpsc::UnboundedReceiver<oneshot::Sender<SubnetCounts>>;

/// Where counts are asked for.
type CountsSender = mpsc::UnboundedSender<oneshot::Sender<SubnetCounts>>;

pub struct Committer {
    pub subnet: String,
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub metrics: LedgerMetrics,
    book: Book,
    gate: Gate,
    reuse_delay: u64,
    changes: Option<BoxStream<'static, Change>>,
    outlook: watch::Sender<Outlook>,
    counting: Counting,
    /// How many could be leased when it was last published.
    available: u128,
    /// When counts are to be published next; `None` when nothing has changed since.
    due: Option<Instant>,
    published: Option<Instant>,
    /// When blocks that nobody needs any more are to leave the store; `None` when nothing was
    /// written since the last time.
    sweep: Option<Instant>,
    /// Whether the book may differ from the store in ways that are not known: then nothing is
    /// decided.
    stale: bool,
    /// When it is loaded again, and how often in a row that failed.
    again: Option<Instant>,
    failures: u32,
    /// Nobody owned anything, and nothing is given any more.
    closed: bool,
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.metrics.forget(&self.subnet);
    }
}

/// So many requests are decided before the first of them is written: bounds the time to the first
/// answer.
const MAX_BATCH: usize = 1024;

/// Nobody waits for what a sweep gives.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(60);

const BETWEEN_COUNTS: Duration = Duration::from_millis(20);

/// Between attempts to reach a store that does not answer.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

impl Committer {
    /// Loads the subnet's blocks.
    pub async fn open(
        subnet: &str,
        plan: &Plan,
        reuse_delay: Duration,
        store: Arc<dyn Store>,
        clock: Clock,
        metrics: LedgerMetrics,
    ) -> Result<(Self, CountsSender, watch::Receiver<Outlook>), LedgerError> {
        let reuse_delay = millis(reuse_delay);
        let book = Book::new(subnet, plan, reuse_delay).map_err(PlanError::from)?;
        let (outlook, receiver) = watch::channel(Outlook::default());
        let (counts, counting) = mpsc::unbounded_channel();
        let mut committer = Self {
            subnet: subnet.to_owned(),
            store,
            clock,
            metrics,
            book,
            gate: Gate::default(),
            reuse_delay,
            changes: None,
            outlook,
            counting,
            available: 0,
            due: None,
            published: None,
            sweep: None,
            stale: true,
            again: None,
            failures: 0,
            closed: false,
        };
        let misfits = committer.load().await?;
        if let Some(misfit) = misfits.into_iter().next() {
            // An owned unit would fall out of this plan.
            return Err(PlanError::InUse(misfit.in_use()).into());
        }
        committer.publish();
        committer.sweep_later();
        Ok((committer, counts, receiver))
    }

    /// Of those who own something.
    pub fn clusters(&self) -> impl Iterator<Item = String> {
        self.book.owners().map(|owner| owner.gate())
    }

    /// Before the first request.
    pub fn require_claims(&mut self, clusters: &BTreeSet<String>) {
        for cluster in clusters {
            self.gate.watch(cluster);
        }
        let generations = self.gate.generations();
        self.outlook.send_modify(|outlook| outlook.generations = generations);
    }

    /// Until nobody can ask any more.
    pub async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut waiting = Vec::new();
        loop {
            let due = if self.stale {
                self.again
            } else {
                [self.due, self.sweep].into_iter().flatten().min()
            };
            let due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let Self { changes, counting, .. } = &mut self;
            let change = async move {
                match changes {
                    Some(changes) => changes.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                change = change => {
                    self.follow(change).await;
                    self.note_losses(&[]);
                }
                // Before requests: it waits for no store, and must not wait for those that do.
                Some(answer) = counting.recv() => self.count(answer),
                count = requests.recv_many(&mut waiting, MAX_BATCH) => {
                    if count == 0 {
                        return;
                    }
                    self.serve(&mut waiting).await;
                    if self.closed {
                        requests.close();
                        while let Some(request) = requests.recv().await {
                            request.fail(&self.gone());
                        }
                        return;
                    }
                }
                () = due => {}
            }
            // Not only when somebody asks: those who wait for something to come free do not ask.
            if self.stale && !self.recovers().await {
                continue;
            }
            if self.sweep.is_some_and(|sweep| sweep <= Instant::now()) {
                self.sweep().await;
            }
            self.publish();
        }
    }

    /// As of now: units cool down without anybody telling. What one is told everybody is, so that
    /// who waits for other counts than these does not find older ones.
    fn count(&self, answer: oneshot::Sender<SubnetCounts>) {
        let families = self.book.counts(self.clock.now());
        self.outlook.send_if_modified(|outlook| {
            let changed = outlook.counts != families;
            outlook.counts.clone_from(&families);
            changed
        });
        let freed = self.outlook.borrow().freed;
        // Who asked may have gone away.
        drop(answer.send(SubnetCounts { families, freed }));
    }

    /// Waits for the store, and answers those who ask for counts meanwhile.
    async fn wait_for<T>(&mut self, store: impl Future<Output = T>) -> T {
        tokio::pin!(store);
        loop {
            tokio::select! {
                biased;
                done = &mut store => return done,
                Some(answer) = self.counting.recv() => self.count(answer),
            }
        }
    }

    /// Not sooner than all that is released now has cooled down.
    fn sweep_later(&mut self) {
        if self.sweep.is_none() {
            let delay = Duration::from_millis(self.reuse_delay).max(BETWEEN_SWEEPS);
            self.sweep = Instant::now().checked_add(delay);
        }
    }

    /// Takes blocks that nobody needs out of the store, in the way that all writes go: one that
    /// somebody else has put to use meanwhile stays.
    async fn sweep(&mut self) {
        self.sweep = None;
        let now = self.clock.now();
        self.book.retire(now);
        let writes = self.book.changed(now, self.reuse_delay);
        match self.write(writes).await {
            Ok(Outcome::Durable | Outcome::Conflict) => {}
            // It is tried again after the next write of whatever kind.
            ended => {
                let error = self.fail(ended);
                warn!(subnet = self.subnet, %error, "blocks that nobody needs stay in the store");
            }
        }
        if self.book.counts(now).values().any(|counts| counts.cooling_down > 0) {
            self.sweep_later();
        }
    }

    fn gone(&self) -> LedgerError {
        LedgerError::NoSubnet {
            subnet: self.subnet.clone(),
        }
    }

    async fn serve(&mut self, waiting: &mut Vec<Request>) {
        // Before anything else: who asked for it wants to know what the store has now, and the rest
        // may as well. A store that nobody else writes has nothing new.
        self.stale |= self.store.is_shared()
            && waiting
                .iter()
                .any(|request| matches!(request, Request::Refresh { .. } | Request::Close { .. }));
        if self.stale
            && let Err(error) = self.reload_with_retries().await
        {
            for request in waiting.drain(..) {
                request.fail(&error.clone().into());
            }
            return;
        }
        // Those that end it come last: what was asked before them is in what they count.
        let (closing, asked): (Vec<_>, Vec<_>) = waiting
            .drain(..)
            .partition(|request| matches!(request, Request::Close { .. }));
        let mut writing = Vec::new();
        for request in asked {
            if let Some(request) = self.read_or_keep(request) {
                writing.push(request);
            }
        }
        // A new plan wants everything loaded again.
        if self.stale
            && let Err(error) = self.reload_with_retries().await
        {
            writing
                .into_iter()
                .for_each(|request| request.fail(&error.clone().into()));
        } else {
            self.commit(writing).await;
        }
        for request in closing {
            self.close(request);
        }
    }

    /// What was loaded for it may be old by now only by what this process has written itself:
    /// another one that still gives out of the subnet is told by the caller.
    fn close(&mut self, request: Request) {
        let Request::Close { answer } = request else {
            return;
        };
        if self.stale {
            let error = StoreError::new("ledger", "it is not known who owns what: try again");
            drop(answer.send(Err(error.into())));
            return;
        }
        let owners = self.book.owners().count();
        self.closed |= owners == 0;
        drop(answer.send(Ok(owners)));
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
            Request::Restore { claims, answer } => {
                return Some(Writing::Restore {
                    claims,
                    claimed: Vec::new(),
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
            Request::Owners { answer } => {
                drop(answer.send(Ok(self.book.owners().cloned().collect())))
            }
            Request::OwnersOf { units, answer } => {
                let owners = units.into_iter().map(|unit| self.book.owner_of(unit).cloned());
                drop(answer.send(Ok(owners.collect())));
            }
            Request::Gate { cluster, answer } => drop(answer.send(Ok(self.gate.watch(&cluster)))),
            Request::Open {
                cluster,
                generation,
                answer,
            } => drop(answer.send(Ok(self.gate.open(&cluster, generation)))),
            Request::Refresh { answer } => drop(answer.send(Ok(()))),
            Request::Plan {
                plan,
                reuse_delay,
                answer,
            } => drop(answer.send(Ok(self.replan(&plan, reuse_delay)))),
            Request::Close { answer } => drop(answer.send(Err(self.gone()))),
        }
        None
    }

    fn replan(&mut self, plan: &Plan, reuse_delay: Duration) -> Result<(), PlanError> {
        let reuse_delay = millis(reuse_delay);
        self.book = self.book.planned_as(plan, reuse_delay, self.clock.now())?;
        self.reuse_delay = reuse_delay;
        // Blocks that were outside of the old cidrs may be inside of the new ones.
        self.stale = true;
        Ok(())
    }

    /// Tells everybody how things stand: at once that there is more to lease, and the counts, which
    /// take a walk through the blocks, not more often than anybody can use them.
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

    /// Whoever lost something is told at once. What these requests were deciding about was not in
    /// the store yet.
    fn note_losses(&mut self, deciding: &[Writing]) {
        let mut vanished = self.book.take_vanished();
        vanished
            .retain(|(owner, id)| !deciding.iter().any(|request| request.decides_on(owner, *id)));
        if vanished.is_empty() || !self.gate.lose(&vanished) {
            return;
        }
        warn!(
            subnet = self.subnet,
            count = vanished.len(),
            "others have taken owners out of the store; nothing is leased until they \
             are claimed again"
        );
        let generations = self.gate.generations();
        self.outlook.send_modify(|outlook| outlook.generations = generations);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
