//! A commit: a write is checked against the current state, gets the next version, is made durable,
//! and is then published to readers and watchers.
//!
//! Why this is safe: only one place at a time checks and assigns versions (under the state's lock
//! in memory, in the one committer on disk), so no two writes can pass the same check. On disk the
//! order is check → fsync → publish → answer: a crash can't undo a change that a reader or writer
//! has seen. Requests that wait while one fsync runs share the next one.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::disk::Disk;
use super::history::{Event, EventKind, body_of};
use super::record::{Key, NAMESPACES, Place, Record};
use super::state::{State, table_of};
use super::write::{Change, Guard, Write, WriteError};

type Answer = oneshot::Sender<Result<Record, WriteError>>;

#[derive(Debug, Default)]
pub struct Queue {
    waiting: Vec<(Write, Answer)>,
    /// A committer is running and will take the waiting writes.
    running: bool,
    committer: Option<JoinHandle<()>>,
}

/// A checked write with its version.
struct Accepted {
    key: Key,
    record: Record,
    /// The line for watchers. The record's body is a slice of it.
    line: Bytes,
    kind: EventKind,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: RwLock<State>,
    queue: Mutex<Queue>,
    disk: Option<Disk>,
    pub(super) taps: Mutex<Vec<mpsc::UnboundedSender<Arc<Event>>>>,
    /// The version when the store was opened. Versions up to it have no history.
    pub(super) opened_at: u64,
    keep: usize,
}

impl Shared {
    pub(super) fn new(state: State, disk: Option<Disk>, keep: usize) -> Self {
        let opened_at = state.version;
        Self {
            state: RwLock::new(state),
            queue: Mutex::default(),
            disk,
            taps: Mutex::default(),
            opened_at,
            keep,
        }
    }

    pub(super) async fn commit(self: &Arc<Self>, write: Write) -> Result<Record, WriteError> {
        if self.disk.is_none() {
            let mut state = self.state.write();
            let accepted = check(&state, &HashMap::new(), state.version + 1, &write)?;
            let record = accepted.record.clone();
            self.publish(&mut state, vec![accepted]);
            return Ok(record);
        }
        let (answer, answered) = oneshot::channel();
        let lead = {
            let mut queue = self.queue.lock();
            queue.waiting.push((write, answer));
            !std::mem::replace(&mut queue.running, true)
        };
        if lead {
            let shared = self.clone();
            // Not awaited: other requests wait for the committer, even if this one is dropped.
            let committer = tokio::task::spawn_blocking(move || shared.drain());
            self.queue.lock().committer = Some(committer);
        }
        answered
            .await
            .unwrap_or_else(|_| Err(WriteError::Failed("the committer ended".to_owned())))
    }

    pub(super) async fn wait_for_commits(&self) {
        loop {
            let committer = self.queue.lock().committer.take();
            match committer {
                Some(committer) => drop(committer.await),
                None => return,
            }
        }
    }

    fn drain(&self) {
        loop {
            let batch = {
                let mut queue = self.queue.lock();
                if queue.waiting.is_empty() {
                    queue.running = false;
                    return;
                }
                std::mem::take(&mut queue.waiting)
            };
            self.commit_batch(batch);
        }
    }

    fn commit_batch(&self, batch: Vec<(Write, Answer)>) {
        let mut accepted = Vec::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        {
            let state = self.state.read();
            let mut version = state.version;
            let mut overlay = HashMap::new();
            for (write, answer) in batch {
                match check(&state, &overlay, version + 1, &write) {
                    Ok(one) => {
                        version += 1;
                        let left = (one.kind != EventKind::Deleted).then_some(version);
                        overlay.insert(one.key.clone(), left);
                        answers.push((answer, one.record.clone()));
                        accepted.push(one);
                    }
                    Err(refused) => drop(answer.send(Err(refused))),
                }
            }
        }
        if accepted.is_empty() {
            return;
        }
        if let Some(Err(error)) = self.disk.as_ref().map(|disk| persist(disk, &accepted)) {
            tracing::error!(%error, "cannot write the store; failing the writes of this batch");
            for (answer, _) in answers {
                drop(answer.send(Err(WriteError::Failed(error.to_string()))));
            }
            return;
        }
        self.publish(&mut self.state.write(), accepted);
        for (answer, record) in answers {
            drop(answer.send(Ok(record)));
        }
    }

    fn publish(&self, state: &mut State, accepted: Vec<Accepted>) {
        let mut taps = self.taps.lock();
        for one in accepted {
            let version = one.record.version;
            state.version = version;
            let table = table_of(state, &one.key.table, self.opened_at);
            let place = one.key.place();
            let previous = match one.kind {
                EventKind::Deleted => table.objects.remove(&place),
                EventKind::Added | EventKind::Modified => table.objects.insert(place, one.record),
            };
            let event = Arc::new(Event::new(version, one.kind, one.key, one.line, previous));
            taps.retain(|tap| tap.send(event.clone()).is_ok());
            table.history.push(event, self.keep);
            table.changed.send_replace(version);
        }
    }
}

fn persist(disk: &Disk, accepted: &[Accepted]) -> Result<(), redb::Error> {
    let version = accepted.last().map_or(0, |one| one.record.version);
    disk.write(
        version,
        accepted.iter().map(|one| {
            let record = (one.kind != EventKind::Deleted).then_some(&one.record);
            (&one.key, record)
        }),
    )
}

/// `overlay`: versions of the objects that earlier writes of the same batch changed; `None` for
/// deleted ones.
fn check(
    state: &State,
    overlay: &HashMap<Key, Option<u64>>,
    version: u64,
    write: &Write,
) -> Result<Accepted, WriteError> {
    let there = |key: &Key| match overlay.get(key) {
        Some(version) => *version,
        None => state
            .tables
            .get(&key.table)
            .and_then(|table| table.objects.get(&key.place()))
            .map(|record| record.version),
    };
    match &write.guard {
        Some(Guard::NamespaceExists(namespace)) => {
            there(&Key::new(NAMESPACES, "", namespace)).ok_or(WriteError::NoNamespace)?;
        }
        Some(Guard::NamespaceEmpty(namespace)) if !is_empty(state, overlay, namespace) => {
            return Err(WriteError::NotEmpty);
        }
        Some(Guard::NamespaceEmpty(_)) | None => {}
    }
    let (draft, kind) = match (&write.change, there(&write.key)) {
        (Change::Create(_), Some(_)) => return Err(WriteError::Exists),
        (Change::Create(draft), None) => (draft, EventKind::Added),
        (Change::Update(..) | Change::Delete(..), None) => return Err(WriteError::Missing),
        (Change::Update(given, draft), Some(found)) if *given == found => {
            (draft, EventKind::Modified)
        }
        (Change::Delete(given, draft), Some(found)) if *given == found => {
            (draft, EventKind::Deleted)
        }
        (Change::Update(..) | Change::Delete(..), Some(_)) => return Err(WriteError::Stale),
    };
    let line = draft.line(kind, version);
    let body = body_of(kind, &line);
    Ok(Accepted {
        key: write.key.clone(),
        record: Record { version, body },
        line,
        kind,
    })
}

fn is_empty(state: &State, overlay: &HashMap<Key, Option<u64>>, namespace: &Arc<str>) -> bool {
    let first: Place = (namespace.clone(), "".into());
    let stored = state.tables.iter().flat_map(|(name, table)| {
        let inside = table.objects.range(first.clone()..);
        inside
            .take_while(|((space, _), _)| space == namespace)
            .map(move |((space, object), _)| Key {
                table: name.clone(),
                namespace: space.clone(),
                name: object.clone(),
            })
    });
    let added = overlay
        .iter()
        .any(|(key, left)| key.namespace == *namespace && left.is_some());
    !added && stored.into_iter().all(|key| overlay.get(&key) == Some(&None))
}
