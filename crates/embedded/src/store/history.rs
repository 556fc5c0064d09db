//! The recent past of one table: for watches that resume, and for lists as of an earlier version.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::{Key, Place, Record, TooOld};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object. A deletion carries the last state under the version of the deletion.
#[derive(Debug)]
pub struct Event {
    pub version: u64,
    pub kind: EventKind,
    pub key: Key,
    pub body: Bytes,
    pub previous: Option<Record>,
    line: OnceLock<Bytes>,
    nodes: OnceLock<[Option<Box<str>>; 2]>,
}

impl Event {
    pub fn new(version: u64, kind: EventKind, key: Key, body: Bytes, previous: Option<Record>) -> Self {
        Self {
            version,
            kind,
            key,
            body,
            previous,
            line: OnceLock::new(),
            nodes: OnceLock::new(),
        }
    }

    /// The nodes that a pod was and is bound to: read once, for all the nodes that watch their pods.
    pub fn nodes(&self, read: impl Fn(&[u8]) -> Option<Box<str>>) -> &[Option<Box<str>>; 2] {
        self.nodes.get_or_init(|| {
            let before = self.previous.as_ref().and_then(|record| read(&record.body));
            [before, read(&self.body)]
        })
    }

    /// The line of a watch that needs no conversion: made once, sent to every watcher.
    pub fn line(&self) -> Bytes {
        self.line.get_or_init(|| line(self.kind.name(), &self.body)).clone()
    }
}

/// A line of a watch.
pub fn line(kind: &str, body: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(body.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(body);
    line.extend_from_slice(b"}\n");
    line.into()
}

/// Bytes of bodies that a table's history may hold beside the live objects.
const KEEP_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
pub struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// All events after this version are here.
    complete_after: u64,
}

impl History {
    pub fn start_at(&mut self, version: u64) {
        self.complete_after = version;
    }

    pub fn push(&mut self, event: Arc<Event>, keep: usize) {
        self.bytes += weight(&event);
        self.events.push_back(event);
        while self.events.len() > keep || (self.bytes > KEEP_BYTES && self.events.len() > 1) {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(weight(&oldest));
            self.complete_after = oldest.version;
        }
    }

    pub fn since(&self, cursor: u64, most: usize) -> Result<Vec<Arc<Event>>, TooOld> {
        self.reaches(cursor)?;
        let first = self.events.partition_point(|event| event.version <= cursor);
        Ok(self.events.range(first..).take(most).cloned().collect())
    }

    /// For each place that has changed after `at`: what was there at `at`.
    pub fn undo(&self, at: u64) -> Result<BTreeMap<Place, Option<Record>>, TooOld> {
        self.reaches(at)?;
        let first = self.events.partition_point(|event| event.version <= at);
        let mut before = BTreeMap::new();
        for event in self.events.range(first..) {
            before
                .entry(event.key.place())
                .or_insert_with(|| event.previous.clone());
        }
        Ok(before)
    }

    fn reaches(&self, version: u64) -> Result<(), TooOld> {
        if version < self.complete_after {
            return Err(TooOld {
                asked: version,
                oldest: self.complete_after,
            });
        }
        Ok(())
    }
}

fn weight(event: &Event) -> usize {
    event.body.len() + event.line.get().map_or(0, Bytes::len)
}
