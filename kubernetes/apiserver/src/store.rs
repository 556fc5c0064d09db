//! The store: objects, their history, and its watchers. All writes have one order: every commit
//! takes the next resourceVersion. Readers and watchers see a commit only once it is durable.
//!
//! Objects are kept as the JSON that goes over the wire. A list copies no fields, and ten thousand
//! pods take only the memory of their own bytes.

mod commit;
mod disk;
mod history;
mod record;
mod state;
mod write;

pub use disk::OpenError;
pub use history::{Event, EventKind, line};
pub use record::{Key, Place, Record, TooOld};
pub use write::{Change, Draft, Guard, Write, WriteError};

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use commit::Shared;
use disk::Disk;
use state::{State, table_of};

/// Part of a table, ordered by namespace and name.
#[derive(Debug)]
pub struct Page {
    pub version: u64,
    pub records: Vec<(Place, Record)>,
    /// How many records follow, if `limit` cut them off.
    pub remaining: usize,
}

/// The part of a table to read.
#[derive(Clone, Debug, Default)]
pub struct Range {
    pub namespace: Option<Arc<str>>,
    pub after: Option<Place>,
    /// Read the state at this version. `None` reads the current state.
    pub at: Option<u64>,
    pub limit: Option<usize>,
}

/// Events since a cursor, and the version up to which they are complete.
#[derive(Debug)]
pub struct Since {
    pub events: Vec<Arc<Event>>,
    pub version: u64,
}

#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

/// The default number of events kept per table: ten seconds under heavy load, hours in an ordinary
/// cluster.
pub const KEEP_EVENTS: usize = 10_000;

impl Store {
    /// The table of namespaces.
    pub const NAMESPACES: &str = record::NAMESPACES;

    pub fn in_memory(keep: usize) -> Self {
        // Version 0 means "any" on the wire, so the first state has version 1.
        let state = State {
            version: 1,
            ..State::default()
        };
        Self::new(state, None, keep)
    }

    pub fn open(directory: &Path, keep: usize) -> Result<Self, OpenError> {
        let (disk, found) = Disk::open(directory)?;
        let mut state = State {
            version: found.version.max(1),
            ..State::default()
        };
        for (key, record) in found.objects {
            let table = state.tables.entry(key.table.clone()).or_default();
            table.objects.insert(key.place(), record);
        }
        let opened_at = state.version;
        for table in state.tables.values_mut() {
            table.history.start_at(opened_at);
        }
        Ok(Self::new(state, Some(disk), keep))
    }

    fn new(state: State, disk: Option<Disk>, keep: usize) -> Self {
        Self {
            shared: Arc::new(Shared::new(state, disk, keep)),
        }
    }

    pub async fn commit(&self, write: Write) -> Result<Record, WriteError> {
        Shared::commit(&self.shared, write).await
    }

    /// Waits until no commit is under way. Dropping the last handle after this closes the file.
    pub async fn wait_for_commits(&self) {
        self.shared.wait_for_commits().await;
    }

    /// The version of the last commit.
    pub fn version(&self) -> u64 {
        self.shared.state.read().version
    }

    pub fn get(&self, key: &Key) -> Option<Record> {
        let state = self.shared.state.read();
        let table = state.tables.get(&key.table)?;
        table.objects.get(&key.place()).cloned()
    }

    pub fn exists(&self, table: &str, namespace: &str, name: &str) -> bool {
        self.get(&Key::new(table, namespace, name)).is_some()
    }

    /// The version of the table's last change: 0 if there was none since the store was opened.
    pub fn changed_at(&self, table: &str) -> u64 {
        let state = self.shared.state.read();
        state.tables.get(table).map_or(0, |t| *t.changed.borrow())
    }

    pub fn tables(&self) -> Vec<Arc<str>> {
        self.shared.state.read().tables.keys().cloned().collect()
    }

    pub fn list(&self, table: &str, range: &Range) -> Result<Page, TooOld> {
        let state = self.shared.state.read();
        let mut page = Page {
            version: range.at.unwrap_or(state.version),
            records: Vec::new(),
            remaining: 0,
        };
        let Some(table) = state.tables.get(table) else {
            return Ok(page);
        };
        // The history undoes, key by key, all changes since `at`.
        let undone = match range.at {
            Some(at) if at < state.version => table.history.undo(at)?,
            _ => BTreeMap::new(),
        };
        let low = match (&range.after, &range.namespace) {
            (Some(place), _) => Bound::Excluded(place.clone()),
            (None, Some(namespace)) => Bound::Included((namespace.clone(), "".into())),
            (None, None) => Bound::Unbounded,
        };
        let inside = |place: &Place| range.namespace.as_ref().is_none_or(|n| *n == place.0);
        let live = table
            .objects
            .range((low.clone(), Bound::Unbounded))
            .take_while(|(place, _)| inside(place))
            .filter(|(place, _)| !undone.contains_key(*place));
        let then = undone
            .range((low, Bound::Unbounded))
            .take_while(|(place, _)| inside(place))
            .filter_map(|(place, record)| record.as_ref().map(|record| (place, record)));
        let mut all = merge(live, then);
        let limit = range.limit.unwrap_or(usize::MAX);
        page.records = all
            .by_ref()
            .take(limit)
            .map(|(place, record)| (place.clone(), record.clone()))
            .collect();
        page.remaining = all.count();
        Ok(page)
    }

    /// Up to `limit` events of a table after `cursor`.
    pub fn since(&self, table: &str, cursor: u64, limit: usize) -> Result<Since, TooOld> {
        let state = self.shared.state.read();
        let Some(table) = state.tables.get(table) else {
            return if cursor < self.shared.opened_at {
                Err(TooOld {
                    asked: cursor,
                    oldest: self.shared.opened_at,
                })
            } else {
                Ok(Since {
                    events: Vec::new(),
                    version: state.version.max(cursor),
                })
            };
        };
        let events = table.history.since(cursor, limit)?;
        let version = match events.last() {
            Some(last) if events.len() == limit => last.version,
            _ => state.version.max(cursor),
        };
        Ok(Since { events, version })
    }

    /// Wakes when the table changes.
    pub fn subscribe(&self, table: &str) -> watch::Receiver<u64> {
        let mut state = self.shared.state.write();
        let opened_at = self.shared.opened_at;
        table_of(&mut state, &table.into(), opened_at).changed.subscribe()
    }

    /// Every event of every table, in order, from now on.
    pub fn tap(&self) -> mpsc::UnboundedReceiver<Arc<Event>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.shared.taps.lock().push(sender);
        receiver
    }
}

/// Merges two ordered iterators without a common key.
fn merge<'a, T: 'a>(
    left: impl Iterator<Item = (&'a Place, &'a T)> + 'a,
    right: impl Iterator<Item = (&'a Place, &'a T)> + 'a,
) -> impl Iterator<Item = (&'a Place, &'a T)> {
    let mut left = left.peekable();
    let mut right = right.peekable();
    std::iter::from_fn(move || match (left.peek(), right.peek()) {
        (Some(l), Some(r)) if r.0 < l.0 => right.next(),
        (None, _) => right.next(),
        _ => left.next(),
    })
}

#[cfg(test)]
mod tests;
