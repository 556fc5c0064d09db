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
/// After this many empty lists of nodes in a row, the cluster counts as empty.
const EMPTY_LISTS: u32 = 2;
const CONFIRM_INTERVAL: Duration = Duration::from_secs(10);

/// A full reconcile that is under way.
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
        // A reconcile under way serves both requests. Nothing can be compared before the nodes are
        // known; the feed asks again then.
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
        self.finish_full_if_done();
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
        warn!(%error, "cannot list routes; retrying in {delay:.1?}");
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
        self.mark_all_done(&comparison);
        self.options
            .metrics
            .routes(comparison.ours, comparison.foreign);
        self.is_any_taken = false;
        let mut waiting = BTreeSet::new();
        for (destination, decision) in comparison.decisions {
            if self.execute(destination, decision, false) {
                waiting.insert(destination);
            }
        }
        if let Some(full) = &mut self.full {
            full.waiting = waiting;
        }
        // No event tells when a foreign route in the way is removed.
        if self.is_any_taken {
            let delay = self.taken_backoff.fail();
            self.queue.add_after(Key::All, delay);
        } else {
            self.taken_backoff.succeed();
        }
        // Problems of nodes that were warned about may be solved by now.
        let warned = self.publishing.warned().cloned();
        let names: BTreeSet<String> = comparison.nodes.into_iter().chain(warned).collect();
        for name in names {
            self.warn_of_problems(&name);
            self.publishing.push(&name);
        }
        self.damping.prune(Instant::now());
        self.delete_unused_hops();
    }

    /// Marks destinations that were missing or had failed, and are right now.
    fn mark_all_done(&mut self, comparison: &Comparison) {
        let failed = self.retries.destinations();
        let open = failed.chain(self.missing_since.keys().copied());
        let done: Vec<Prefix> = open.filter(|one| comparison.keeps(*one)).collect();
        for destination in done {
            self.mark_done(destination);
        }
    }

    /// Deletes hops that no node has and no route leads to.
    fn delete_unused_hops(&mut self) {
        let Some(table) = &self.table else {
            return;
        };
        let mut index = self.shared.index.lock();
        index.retain_departed(|hop| table.leads_to(hop));
        // A change under way may make a route to such a hop.
        let Some(record) = self.record.clone().filter(|_| self.calls == 0) else {
            return;
        };
        let idle = |hop: &&Hop| !index.is_live(hop) && !table.leads_to(hop);
        let gone: BTreeSet<Hop> = record.hops().iter().filter(idle).cloned().collect();
        if !gone.is_empty() {
            self.tasks
                .spawn(async move { Outcome::HopsDeleted(record.delete(gone).await) });
        }
    }

    pub(super) fn remove_from_full(&mut self, destination: Prefix) {
        if let Some(full) = &mut self.full {
            full.waiting.remove(&destination);
        }
        self.finish_full_if_done();
    }

    fn finish_full_if_done(&mut self) {
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

    /// Lists all nodes from the API server if any destination needs confirmation.
    pub(super) fn list_nodes_to_confirm(&mut self) {
        if self.unconfirmed.is_empty() || self.confirming {
            return;
        }
        self.confirming = true;
        let client = self.options.client.clone();
        self.tasks
            .spawn(async move { Outcome::NodesListed(look::list_nodes(client).await) });
    }

    pub(super) fn nodes_listed(&mut self, nodes: kube::Result<Vec<Node>>) {
        self.confirming = false;
        let nodes = match nodes {
            Ok(nodes) => nodes,
            Err(error) => {
                warn!(
                    %error,
                    "cannot list nodes; routes of nodes that are gone stay until a list succeeds"
                );
                return self.queue.add_after(Key::Confirm, CONFIRM_INTERVAL);
            }
        };
        if nodes.is_empty() {
            self.empty_lists += 1;
            if self.empty_lists < EMPTY_LISTS {
                info!(
                    routes = self.unconfirmed.len(),
                    "the cluster has routes and no nodes; listing nodes again before routes are \
                     deleted"
                );
                return self
                    .queue
                    .add_after(Key::Confirm, CONFIRM_INTERVAL.max(FULL_INTERVAL));
            }
        } else {
            self.empty_lists = 0;
        }
        let unconfirmed = std::mem::take(&mut self.unconfirmed);
        let Some(table) = &self.table else {
            return;
        };
        let confirmed = look::confirm(nodes, table, &unconfirmed);
        self.confirmed.extend(confirmed.iter().copied());
        for destination in confirmed {
            self.reconcile(destination, false);
        }
    }
}
