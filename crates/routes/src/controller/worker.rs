//! The one worker: takes keys from the queue, decides, and sends changes to the backend. It never
//! waits for the backend: answers arrive as they come, so a slow route delays no other, and an
//! event during a burst is served at once.

mod conditions;
mod dispatch;
mod full;
mod problems;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use berth_kit::backoff::{Backoff, Exponential};
use berth_kit::events::Recorder;
use berth_kit::queue::{Queue, Work};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::error;

use super::Options;
use super::damping::Damping;
use super::feed::Key;
use super::pace::Pace;
use super::publish::Publishing;
use super::record::Record;
use super::retry::Retries;
use super::shared::Shared;
use crate::backend::BackendError;
use crate::core::{Change, Condition, Decision, Mark, Node, Route, Table, View, decide};
use full::Full;

/// A full reconcile follows a burst of events after this time.
const FOLLOW_UP_DELAY: Duration = Duration::from_secs(1);
const FULL_INTERVAL: Duration = Duration::from_secs(10);
const LIST_BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: Duration::from_secs(5 * 60),
};
const TAKEN_BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(30),
    max: Duration::from_secs(10 * 60),
};

/// The result of a task.
enum Outcome {
    Listed(Result<Vec<Route>, BackendError>),
    Applied {
        changes: Vec<Change>,
        results: Vec<Result<(), BackendError>>,
        after: Duration,
    },
    NodesListed(kube::Result<Vec<Node>>),
    Written {
        node: String,
        uid: String,
        condition: Condition,
        result: kube::Result<()>,
    },
    /// The condition of our own node.
    WrittenOwn(kube::Result<()>),
    HopsDeleted(kube::Result<()>),
}

pub struct Worker {
    options: Options,
    shared: Arc<Shared>,
    queue: Queue<Key>,
    events: Recorder,
    /// `None` if the backend can mark routes.
    record: Option<Record>,
    /// `None` until routes were listed.
    table: Option<Table>,
    full: Option<Full>,
    last_full: Option<Instant>,
    /// Destinations that were changed while a list was read.
    changed_meanwhile: BTreeSet<Prefix>,
    list_backoff: Backoff<StdRng>,
    taken_backoff: Backoff<StdRng>,
    is_any_taken: bool,
    /// Destinations to change: those that events asked for come first.
    urgent: VecDeque<Prefix>,
    background: VecDeque<Prefix>,
    in_flight: BTreeSet<Prefix>,
    /// To be reconciled again once the change under way has ended.
    dirty: BTreeSet<Prefix>,
    calls: usize,
    pace: Pace,
    retries: Retries,
    damping: Damping,
    /// Since when a wanted route has been missing.
    missing_since: BTreeMap<Prefix, Instant>,
    /// What each node wanted when it was last reconciled.
    wanted_by_node: BTreeMap<String, Vec<Prefix>>,
    /// Queue items, each with the number of destinations that it still waits for.
    held: BTreeMap<u64, (Work<Key>, usize)>,
    waiting: BTreeMap<Prefix, Vec<u64>>,
    next_hold: u64,
    unconfirmed: BTreeSet<Prefix>,
    confirmed: BTreeSet<Prefix>,
    /// How many lists in a row showed no nodes.
    empty_lists: u32,
    confirming: bool,
    publishing: Publishing,
    own_published: bool,
    tasks: JoinSet<Outcome>,
}

impl Worker {
    pub fn new(
        options: Options,
        shared: Arc<Shared>,
        queue: Queue<Key>,
        events: Recorder,
        mut random: StdRng,
    ) -> Self {
        let mut seed = || StdRng::from_rng(&mut random);
        let unmarked = options.backend.mark() == Mark::Unmarked;
        let record = unmarked.then(|| Record::new(options.client.clone()));
        Self {
            record,
            table: None,
            full: None,
            last_full: None,
            changed_meanwhile: BTreeSet::new(),
            list_backoff: Backoff::new(LIST_BACKOFF, seed()),
            taken_backoff: Backoff::new(TAKEN_BACKOFF, seed()),
            is_any_taken: false,
            urgent: VecDeque::new(),
            background: VecDeque::new(),
            in_flight: BTreeSet::new(),
            dirty: BTreeSet::new(),
            calls: 0,
            pace: Pace::new(options.backend.limits().calls, [seed(), seed()]),
            retries: Retries::new(seed()),
            damping: Damping::default(),
            missing_since: BTreeMap::new(),
            wanted_by_node: BTreeMap::new(),
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_hold: 0,
            unconfirmed: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            empty_lists: 0,
            confirming: false,
            publishing: Publishing::default(),
            own_published: false,
            tasks: JoinSet::new(),
            options,
            shared,
            queue,
            events,
        }
    }

    pub async fn run(mut self) {
        loop {
            let pause = self.pace.pause(Instant::now());
            let waits = pause.is_some() && !(self.urgent.is_empty() && self.background.is_empty());
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(outcome) => self.handle_outcome(outcome),
                    Err(error) => error!(%error, "a task of the route controller has died"),
                },
                work = self.queue.take() => match work {
                    Some(work) => self.handle(work),
                    None => return,
                },
                () = sleep_until(pause.unwrap_or_else(Instant::now)), if waits => {}
            }
            self.dispatch();
            self.write_conditions();
        }
    }

    fn handle(&mut self, work: Work<Key>) {
        match work.clone() {
            Key::All => self.start_full(work, "node_change"),
            Key::Periodic => self.start_full(work, "periodic"),
            Key::Confirm => {
                self.list_nodes_to_confirm();
                work.succeeded();
            }
            Key::Destination(destination) => {
                let waits = self.reconcile(destination, false);
                self.hold(work, &if waits { vec![destination] } else { Vec::new() });
            }
            Key::Node(name) => self.handle_node(&name, work),
            Key::Condition(name) => {
                self.publishing.push(&name);
                work.succeeded();
            }
        }
    }

    fn handle_node(&mut self, name: &str, work: Work<Key>) {
        self.follow_up();
        let destinations = self.destinations_of(name);
        let waiting: Vec<Prefix> = destinations
            .into_iter()
            .filter(|destination| self.reconcile(*destination, true))
            .collect();
        self.warn_of_problems(name);
        self.publishing.push(name);
        self.hold(work, &waiting);
    }

    /// The destinations that the node wants, those that it wanted before, and those whose owner may
    /// change with them.
    fn destinations_of(&mut self, name: &str) -> BTreeSet<Prefix> {
        let index = self.shared.index.lock();
        let node = index.get(name);
        let wanted: Vec<Prefix> = node
            .map(|node| node.prefixes().collect())
            .unwrap_or_default();
        let before = match wanted.is_empty() {
            true => self.wanted_by_node.remove(name),
            false => self.wanted_by_node.insert(name.to_owned(), wanted.clone()),
        };
        let mut all: BTreeSet<Prefix> = before.unwrap_or_default().into_iter().collect();
        all.extend(wanted);
        let neighbours: Vec<Prefix> = all
            .iter()
            .flat_map(|destination| index.neighbours(*destination))
            .collect();
        all.extend(neighbours);
        all
    }

    /// Plans a full reconcile after a burst of events: it finds what others have changed.
    fn follow_up(&mut self) {
        let now = Instant::now();
        let earliest = self.last_full.map_or(now, |last| last + FULL_INTERVAL);
        let due = earliest.max(now + FOLLOW_UP_DELAY);
        self.queue.add_after(Key::All, due - now);
    }

    /// Decides about one destination and executes the decision. Returns whether a change is
    /// requested and has not ended yet.
    fn reconcile(&mut self, destination: Prefix, urgent: bool) -> bool {
        let Some(decision) = self.with_view(|view| decide(view, destination)) else {
            return false;
        };
        self.execute(destination, decision, urgent)
    }

    /// The destination is as it should be.
    fn mark_done(&mut self, destination: Prefix) {
        self.retries.succeed(destination);
        self.missing_since.remove(&destination);
    }

    /// Returns whether a change is requested and has not ended yet.
    fn execute(&mut self, destination: Prefix, decision: Decision, urgent: bool) -> bool {
        let now = Instant::now();
        match decision {
            Decision::Keep => {
                self.mark_done(destination);
                false
            }
            Decision::Change(change) => {
                if change.create.is_some() {
                    self.missing_since.entry(destination).or_insert(now);
                }
                let delay = self
                    .retries
                    .due(&change, now)
                    .max(self.damping.delay(destination, now));
                if self.in_flight.contains(&destination) {
                    self.dirty.insert(destination);
                } else if let Some(delay) = delay {
                    self.queue.add_after(Key::Destination(destination), delay);
                    return false;
                } else if urgent {
                    self.urgent.push_back(destination);
                } else {
                    self.background.push_back(destination);
                }
                true
            }
            Decision::Confirm => {
                self.unconfirmed.insert(destination);
                self.queue.add(Key::Confirm);
                false
            }
            Decision::Taken(_) => {
                self.is_any_taken = true;
                false
            }
            Decision::NoHop(_) => false,
        }
    }

    /// `None` until routes were listed and the cluster CIDRs are known.
    fn with_view<T>(&self, on: impl FnOnce(&View<'_>) -> T) -> Option<T> {
        let table = self.table.as_ref()?;
        let scope = self.shared.scope.lock().clone()?;
        let index = self.shared.index.lock();
        let recorded = self.record.as_ref().map(Record::hops).unwrap_or_default();
        let backend = &self.options.backend;
        Some(on(&View {
            index: &index,
            table,
            scope: &scope,
            recorded: &recorded,
            confirmed: &self.confirmed,
            hop: &|node, destination| backend.hop(node, destination),
        }))
    }

    /// Marks the work as done once all of these destinations have been tried.
    fn hold(&mut self, work: Work<Key>, destinations: &[Prefix]) {
        if destinations.is_empty() {
            return work.succeeded();
        }
        let id = self.next_hold;
        self.next_hold += 1;
        self.held.insert(id, (work, destinations.len()));
        for destination in destinations {
            self.waiting.entry(*destination).or_default().push(id);
        }
    }

    fn release(&mut self, destination: Prefix) {
        for id in self.waiting.remove(&destination).unwrap_or_default() {
            let Some((_, left)) = self.held.get_mut(&id) else {
                continue;
            };
            *left -= 1;
            if *left == 0
                && let Some((work, _)) = self.held.remove(&id)
            {
                work.succeeded();
            }
        }
    }

    fn handle_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Listed(listed) => self.listed(listed),
            Outcome::Applied {
                changes,
                results,
                after,
            } => self.applied(changes, results, after),
            Outcome::NodesListed(nodes) => self.nodes_listed(nodes),
            Outcome::Written {
                node,
                uid,
                condition,
                result,
            } => {
                self.condition_written(&node, &uid, condition, result);
            }
            Outcome::WrittenOwn(result) => self.own_written(&result),
            Outcome::HopsDeleted(result) => {
                if let Err(error) = result {
                    tracing::debug!(%error, "cannot delete unused next hops from the record");
                }
            }
        }
    }
}
