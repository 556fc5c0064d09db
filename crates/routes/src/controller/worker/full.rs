//! A reconcile of everything: list all routes, compare them with all nodes.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use berth_addr::Prefix;
use berth_kit::queue::Work;
use futures::FutureExt;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use super::{FULL_INTERVAL, Outcome, Worker};
use crate::backend::{BackendError, ErrorKind};
use crate::controller::feed::Key;
use crate::controller::look;
use crate::core::{Comparison, Hop, Node, Route, Table, compare};

const LIST_TIMEOUT: Duration = Duration::from_secs(120);
/// After so many looks at an empty cluster it is believed to be empty.
const EMPTY_LOOKS: u32 = 2;
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// One that is under way.
pub struct Full {
    work: Work<Key>,
    trigger: &'static str,
    listed: bool,
    waiting: BTreeSet<Prefix>,
    pub changed: usize,
    pub failed: usize,
}

impl Worker {
    pub(super) fn start_full(&mut self, work: Work<Key>, trigger: &'static str) {
        // One is under way: it does for both. Before the nodes are known nothing can be compared;
        // the feed asks again then.
        if self.full.is_some() || !self.shared.is_synced() {
            return work.succeeded();
        }
        self.last_full = Some(Instant::now());
        self.full = Some(Full {
            work,
            trigger,
            listed: false,
            waiting: BTreeSet::new(),
            changed: 0,
            failed: 0,
        });
        self.changed_meanwhile.clone_from(&self.in_flight);
        let backend = self.options.backend.clone();
        let record = self.record.clone();
        self.tasks.spawn(async move {
            if let Some(record) = &record
                && let Err(error) = record.load().await
            {
                let message = format!("reading the record of next hops: {error}");
                return Outcome::Listed(Err(BackendError::unavailable(message)));
            }
            let list = AssertUnwindSafe(backend.list()).catch_unwind();
            let failed = |message: &str| Err(BackendError::unavailable(message));
            Outcome::Listed(match timeout(LIST_TIMEOUT, list).await {
                Ok(Ok(listed)) => listed,
                Ok(Err(_)) => failed("listing routes: the backend has panicked"),
                Err(_) => failed("listing routes: no answer in time"),
            })
        });
    }

    pub(super) fn listed(&mut self, listed: Result<Vec<Route>, BackendError>) {
        let result = listed
            .as_ref()
            .err()
            .map_or("success", |error| error.kind.label());
        self.options.metrics.call("list", result);
        let routes = match listed {
            Ok(routes) => routes,
            Err(error) => return self.list_failed(&error),
        };
        self.list_backoff.succeed();
        if let Some(ready) = &self.options.ready {
            ready.ready();
        }
        match &mut self.table {
            Some(table) => table.replace(routes, &self.changed_meanwhile),
            None => self.table = Some(Table::new(routes)),
        }
        if let Some(full) = &mut self.full {
            full.listed = true;
        }
        self.reconcile_all();
        self.finish_full_if_through();
    }

    fn list_failed(&mut self, error: &BackendError) {
        let mut delay = self.list_backoff.fail();
        if let ErrorKind::Throttled {
            retry_after: Some(after),
        } = error.kind
        {
            delay = delay.max(after);
        }
        self.pace.fail(error.kind, Instant::now());
        if let Some(ready) = &self.options.ready
            && (error.kind == ErrorKind::Unauthorized || self.table.is_none())
        {
            ready.not_ready_because(&error.message);
        }
        warn!(%error, "routes could not be listed; retrying in {delay:.1?}");
        if let Some(full) = self.full.take() {
            self.options.metrics.synced("error", full.trigger);
            full.work.succeeded();
        }
        self.queue.add_after(Key::All, delay);
    }

    fn reconcile_all(&mut self) {
        let Some(comparison) = self.with_view(compare) else {
            return;
        };
        self.keep_what_is_done(&comparison);
        self.options
            .metrics
            .routes(comparison.ours, comparison.foreign);
        self.is_any_taken = false;
        let mut waiting = BTreeSet::new();
        for (destination, decision) in comparison.decisions {
            if self.follow(destination, decision, false) {
                waiting.insert(destination);
            }
        }
        if let Some(full) = &mut self.full {
            full.waiting = waiting;
        }
        // A foreign route in the way may go at any time; nobody tells us.
        if self.is_any_taken {
            let delay = self.taken_backoff.fail();
            self.queue.add_after(Key::All, delay);
        } else {
            self.taken_backoff.succeed();
        }
        // What was wrong with those that were warned about may be right now.
        let warned = self.publishing.warned().cloned();
        let names: BTreeSet<String> = comparison.nodes.into_iter().chain(warned).collect();
        for name in names {
            self.warn_of_problems(&name);
            self.publishing.push(&name);
        }
        self.damping.forget(Instant::now());
        self.forget_hops();
    }

    /// What was missing or has failed, and is as it should be now.
    fn keep_what_is_done(&mut self, comparison: &Comparison) {
        let failed = self.retries.destinations();
        let open = failed.chain(self.missing_since.keys().copied());
        let done: Vec<Prefix> = open.filter(|one| comparison.keeps(*one)).collect();
        for destination in done {
            self.keep(destination);
        }
    }

    /// What no route leads to any more need not be remembered.
    fn forget_hops(&mut self) {
        let Some(table) = &self.table else {
            return;
        };
        let mut index = self.shared.index.lock();
        index.forget_departed(|hop| table.leads_to(hop));
        // A route that is being made may lead there.
        let Some(record) = self.record.clone().filter(|_| self.calls == 0) else {
            return;
        };
        let idle = |hop: &&Hop| !index.is_live(hop) && !table.leads_to(hop);
        let gone: BTreeSet<Hop> = record.hops().iter().filter(idle).cloned().collect();
        if !gone.is_empty() {
            self.tasks
                .spawn(async move { Outcome::Forgotten(record.forget(gone).await) });
        }
    }

    pub(super) fn through_in_full(&mut self, destination: Prefix) {
        if let Some(full) = &mut self.full {
            full.waiting.remove(&destination);
        }
        self.finish_full_if_through();
    }

    fn finish_full_if_through(&mut self) {
        let Some(full) = self
            .full
            .take_if(|full| full.listed && full.waiting.is_empty())
        else {
            return;
        };
        let outcome = match (full.failed, full.changed) {
            (0, 0) => "noop",
            (0, _) => "changed",
            _ => "error",
        };
        debug!(trigger = full.trigger, outcome, "all routes reconciled");
        self.options.metrics.synced(outcome, full.trigger);
        full.work.succeeded();
    }

    /// Asks the API server for all nodes, if there is something to be confirmed by that.
    pub(super) fn look(&mut self) {
        if self.unconfirmed.is_empty() || self.looking {
            return;
        }
        self.looking = true;
        let client = self.options.client.clone();
        self.tasks
            .spawn(async move { Outcome::Looked(look::list_nodes(client).await) });
    }

    pub(super) fn looked(&mut self, nodes: kube::Result<Vec<Node>>) {
        self.looking = false;
        let nodes = match nodes {
            Ok(nodes) => nodes,
            Err(error) => {
                warn!(%error, "nodes could not be listed; no route is deleted until they are");
                return self.queue.add_after(Key::Look, LOOK_INTERVAL);
            }
        };
        if nodes.is_empty() {
            self.empty_looks += 1;
            if self.empty_looks < EMPTY_LOOKS {
                info!(
                    routes = self.unconfirmed.len(),
                    "the cluster has routes and no nodes; looking again before they are deleted"
                );
                return self
                    .queue
                    .add_after(Key::Look, LOOK_INTERVAL.max(FULL_INTERVAL));
            }
        } else {
            self.empty_looks = 0;
        }
        let unconfirmed = std::mem::take(&mut self.unconfirmed);
        let Some(table) = &self.table else {
            return;
        };
        let confirmed = look::confirm(nodes, table, &unconfirmed);
        self.confirmed.extend(confirmed.iter().copied());
        for destination in confirmed {
            self.consider(destination, false);
        }
    }
}
