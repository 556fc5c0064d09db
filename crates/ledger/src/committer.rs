//! One task for each subnet, and only it changes the subnet's book. It takes all waiting requests,
//! decides them one after the other, writes the changed blocks together, and answers when they are
//! durable: requests that wait together share one write.
//!
//! Why no unit is given twice: the committer answers only after the store has swapped every changed
//! block against the version that the decision was based on. If the store refuses a swap, or does
//! not say, that block is read again and the requests are decided again. They name their leases, so
//! what is already written is found and kept. If the block can't be read either, or does not fit
//! the plan, nothing more is decided until everything has been loaded again.

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

/// The state of a subnet that readers can watch without a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The last counts; units have gone on cooling down since.
    pub counts: BTreeMap<Family, Counts>,
    /// Goes up whenever there is more to lease than before: for callers that got no unit.
    pub freed: u64,
    /// By cluster: goes up whenever leases of its owners were lost, which it must claim again
    /// before more is leased to it.
    pub generations: BTreeMap<String, u64>,
}

/// How full a subnet is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetCounts {
    pub families: BTreeMap<Family, Counts>,
    /// As in [`Outlook`].
    pub freed: u64,
}

/// The callers that wait for counts. Unbounded, because each is answered at once.
type Counting = mpsc::UnboundedReceiver<oneshot::Sender<SubnetCounts>>;

/// The channel for requests for counts.
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
    /// How many units could be leased at the last publication.
    available: u128,
    /// When counts are published next; `None` when nothing has changed since.
    due: Option<Instant>,
    published: Option<Instant>,
    /// When unneeded blocks are next removed from the store; `None` when nothing was written since
    /// the last sweep.
    sweep: Option<Instant>,
    /// Whether the book may differ from the store in unknown ways: then nothing is decided.
    stale: bool,
    /// When a stale book is next loaded again. `failures`: how often in a row that failed.
    retry_at: Option<Instant>,
    failures: u32,
    /// The subnet had no owners and was closed: it leases nothing any more.
    closed: bool,
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.metrics.forget(&self.subnet);
    }
}

/// The most requests that are decided before a write. It bounds the time to the first answer.
const MAX_BATCH: usize = 1024;

/// No caller waits for a sweep.
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
            retry_at: None,
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

    /// The clusters that own something.
    pub fn clusters(&self) -> impl Iterator<Item = String> {
        self.book.owners().map(|owner| owner.gate())
    }

    /// To be called before the first request.
    pub fn require_claims(&mut self, clusters: &BTreeSet<String>) {
        for cluster in clusters {
            self.gate.watch(cluster);
        }
        let generations = self.gate.generations();
        self.outlook.send_modify(|outlook| outlook.generations = generations);
    }

    /// Runs until every sender of requests is gone.
    pub async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut waiting = Vec::new();
        loop {
            let due = if self.stale {
                self.retry_at
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
                    self.apply_change(change).await;
                    self.note_losses(&[]);
                }
                // Counts come before requests: they wait for no store, and must not wait for
                // requests that do.
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
            // Not only for a request: callers that wait for a free unit send none.
            if self.stale && !self.try_to_recover().await {
                continue;
            }
            if self.sweep.is_some_and(|sweep| sweep <= Instant::now()) {
                self.sweep().await;
            }
            self.publish();
        }
    }

    /// Sends the counts of now, because units cool down without an event. It publishes the same
    /// counts, so that a watcher of the outlook never finds older ones.
    fn count(&self, answer: oneshot::Sender<SubnetCounts>) {
        let families = self.book.counts(self.clock.now());
        self.outlook.send_if_modified(|outlook| {
            let changed = outlook.counts != families;
            outlook.counts.clone_from(&families);
            changed
        });
        let freed = self.outlook.borrow().freed;
        // The caller may be gone.
        drop(answer.send(SubnetCounts { families, freed }));
    }

    /// Waits for the store, and answers requests for counts meanwhile.
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

    /// Schedules a sweep for when all units that are released now have cooled down.
    fn sweep_later(&mut self) {
        if self.sweep.is_none() {
            let delay = Duration::from_millis(self.reuse_delay).max(BETWEEN_SWEEPS);
            self.sweep = Instant::now().checked_add(delay);
        }
    }

    /// Removes unneeded blocks from the store, by compare-and-swap like all writes: a block that
    /// another ledger has used meanwhile stays.
    async fn sweep(&mut self) {
        self.sweep = None;
        let now = self.clock.now();
        self.book.retire(now);
        let writes = self.book.changed(now, self.reuse_delay);
        match self.write(writes).await {
            Ok(Outcome::Durable | Outcome::Conflict) => {}
            // The sweep is tried again after the next write of any kind.
            ended => {
                let error = self.fail(ended);
                warn!(subnet = self.subnet, %error, "cannot remove unused blocks from the store; \
                                                     retrying at the next sweep");
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
        // A refresh or close must read the store as it is now, so the reload comes before all
        // requests. A store without other writers has nothing new.
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
        // Close requests come last, so that they count the owners of the requests before them.
        let (closing, asked): (Vec<_>, Vec<_>) = waiting
            .drain(..)
            .partition(|request| matches!(request, Request::Close { .. }));
        let mut writing = Vec::new();
        for request in asked {
            if let Some(request) = self.answer_read(request) {
                writing.push(request);
            }
        }
        // A new plan needs everything loaded again.
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

    /// Answers a request that only reads, and returns one that writes.
    fn answer_read(&mut self, request: Request) -> Option<Writing> {
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
        self.book = self.book.with_plan(plan, reuse_delay, self.clock.now())?;
        self.reuse_delay = reuse_delay;
        // Blocks that were outside the old CIDRs may be inside the new ones.
        self.stale = true;
        Ok(())
    }

    /// Publishes the outlook: at once when there is more to lease, and at limited intervals the
    /// counts, which take a walk through the blocks.
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

    /// Tells clusters at once what they lost. Leases that these requests were deciding were not in
    /// the store yet, so they don't count as lost.
    fn note_losses(&mut self, deciding: &[Writing]) {
        let mut vanished = self.book.take_vanished();
        vanished
            .retain(|(owner, id)| !deciding.iter().any(|request| request.decides_on(owner, *id)));
        if vanished.is_empty() || !self.gate.record_losses(&vanished) {
            return;
        }
        warn!(
            subnet = self.subnet,
            count = vanished.len(),
            "leases vanished from the store; their clusters get no new ones until they \
             claim again"
        );
        let generations = self.gate.generations();
        self.outlook.send_modify(|outlook| outlook.generations = generations);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
