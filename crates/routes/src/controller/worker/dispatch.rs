//! Changes on their way to the backend and back.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use futures::FutureExt;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::{Outcome, Worker};
use crate::backend::{Backend, BackendError, ErrorKind};
use crate::controller::feed::Key;
use crate::controller::publish;
use crate::controller::record::Record;
use crate::core::{Change, Decision, Hop, decide};

/// A change without an answer by then is tried again; what the backend did is found then.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

impl Worker {
    /// Sends waiting changes, as many as the backend takes now.
    pub(super) fn dispatch(&mut self) {
        while self.calls < self.pace.limit(Instant::now()) {
            let batch = self.next_batch(self.options.backend.limits().batch);
            if batch.is_empty() {
                return;
            }
            self.calls += 1;
            self.tasks.spawn(call(
                self.options.backend.clone(),
                self.record.clone(),
                batch,
            ));
        }
    }

    /// Decides each destination again: things may have changed since the request.
    fn next_batch(&mut self, size: usize) -> Vec<Change> {
        let mut batch = Vec::new();
        while batch.len() < size {
            let next = self
                .urgent
                .pop_front()
                .or_else(|| self.background.pop_front());
            let Some(destination) = next else {
                break;
            };
            if self.in_flight.contains(&destination) {
                self.dirty.insert(destination);
                continue;
            }
            match self.with_view(|view| decide(view, destination)) {
                Some(Decision::Change(change)) => {
                    self.in_flight.insert(destination);
                    batch.push(change);
                }
                _ => self.finished(destination),
            }
        }
        batch
    }

    pub(super) fn applied(
        &mut self,
        changes: Vec<Change>,
        results: Vec<Result<(), BackendError>>,
        after: Duration,
    ) {
        self.calls -= 1;
        let failed = results.iter().find_map(|result| result.as_ref().err());
        let label = failed.map_or("success", |error| error.kind.label());
        self.options.metrics.call("apply", label);
        for (change, result) in changes.into_iter().zip(results) {
            let destination = change.destination;
            self.in_flight.remove(&destination);
            self.changed_meanwhile.insert(destination);
            match result {
                Ok(()) => self.succeeded(&change),
                Err(error) => self.failed(&change, &error, after),
            }
            self.finished(destination);
        }
    }

    fn succeeded(&mut self, change: &Change) {
        let (destination, now) = (change.destination, Instant::now());
        debug!(%destination, kind = change.kind(), "route changed");
        self.options.metrics.operation(change.kind(), "success");
        if let Some(table) = &mut self.table {
            table.apply(change, self.options.backend.mark());
        }
        self.pace.succeed();
        self.retries.succeed(destination);
        self.damping.changed(destination, now);
        self.confirmed.remove(&destination);
        if change.create.is_some() {
            if let Some(since) = self.missing_since.remove(&destination) {
                self.options.metrics.created_after(now - since);
            }
        } else {
            for woken in self.retries.wake(now) {
                self.queue.add(Key::Destination(woken));
            }
        }
        if let Some(full) = &mut self.full {
            full.changed += 1;
        }
    }

    fn failed(&mut self, change: &Change, error: &BackendError, after: Duration) {
        let (destination, now) = (change.destination, Instant::now());
        self.options
            .metrics
            .operation(change.kind(), error.kind.label());
        self.pace.fail(error.kind, now);
        let delay = self.retries.fail(change, error.kind, now);
        let kind = change.kind();
        warn!(%destination, kind, %error, "cannot change the route; retrying in {delay:.1?}");
        self.queue.add_after(Key::Destination(destination), delay);
        match (error.kind, &self.options.ready) {
            // The backend is not in the state that we expected.
            (ErrorKind::Conflict, _) => self.follow_up(),
            (ErrorKind::Unauthorized, Some(ready)) => ready.not_ready_because(&error.message),
            _ => {}
        }
        if let Some(full) = &mut self.full {
            full.failed += 1;
        }
        let Some(creation) = &change.create else {
            return;
        };
        let node = self.shared.index.lock().get(&creation.node).cloned();
        if let Some(node) = node.filter(|node| node.uid == creation.uid) {
            let note = format!(
                "Could not create route {} {destination} for node {} after {after:.1?}: {error}",
                creation.uid, creation.node
            );
            publish::warn(&self.events, &node, "FailedToCreateRoute", note);
        }
    }

    /// A destination was tried, or there was nothing left to do.
    fn finished(&mut self, destination: Prefix) {
        let owner = {
            let index = self.shared.index.lock();
            index.owner(destination).map(|node| node.name.clone())
        };
        if let Some(owner) = owner {
            self.publishing.push(&owner);
        }
        if self.dirty.remove(&destination) && self.reconcile(destination, true) {
            return;
        }
        self.release(destination);
        self.remove_from_full(destination);
    }
}

async fn call(backend: Arc<dyn Backend>, record: Option<Record>, changes: Vec<Change>) -> Outcome {
    let start = Instant::now();
    let creations = changes.iter().filter_map(|change| change.create.as_ref());
    let hops: BTreeSet<Hop> = creations.map(|creation| creation.hop.clone()).collect();
    let recorded = match &record {
        // The record is written before the routes are made: see `record`.
        Some(record) => record.ensure(hops).await,
        None => Ok(()),
    };
    let all = |message: &str| vec![Err(BackendError::unavailable(message)); changes.len()];
    let mut results = match recorded {
        Ok(()) => {
            // After a panic these destinations must not stay marked as in flight.
            let apply = AssertUnwindSafe(backend.apply(&changes)).catch_unwind();
            match timeout(CALL_TIMEOUT, apply).await {
                Ok(Ok(results)) => results,
                Ok(Err(_)) => all("the backend has panicked"),
                Err(_) => all("no answer in time"),
            }
        }
        Err(error) => all(&format!("writing down the next hop: {error}")),
    };
    let silent = || {
        Err(BackendError::unavailable(
            "the backend said nothing about it",
        ))
    };
    results.resize_with(changes.len(), silent);
    Outcome::Applied {
        changes,
        results,
        after: start.elapsed(),
    }
}
