//! The recent events of one table, for watches that resume and lists at an earlier version.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::record::{Key, Place, Record, TooOld};

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

/// One change of one object. A deletion has the last state, with the version of the deletion.
#[derive(Debug)]
pub struct Event {
    pub version: u64,
    pub kind: EventKind,
    pub key: Key,
    /// A slice of the line, as is the body of the stored record.
    pub body: Bytes,
    pub previous: Option<Record>,
    line: Bytes,
    nodes: OnceLock<[Option<Box<str>>; 2]>,
}

impl Event {
    /// `line` must be that of the object at `version`.
    pub fn new(
        version: u64,
        kind: EventKind,
        key: Key,
        line: Bytes,
        previous: Option<Record>,
    ) -> Self {
        Self {
            version,
            kind,
            key,
            body: body_of(kind, &line),
            previous,
            line,
            nodes: OnceLock::new(),
        }
    }

    /// The nodes that a pod was and is bound to. Read once, for all nodes that watch their pods.
    pub fn nodes(&self, read: impl Fn(&[u8]) -> Option<Box<str>>) -> &[Option<Box<str>>; 2] {
        self.nodes.get_or_init(|| {
            let before = self.previous.as_ref().and_then(|record| read(&record.body));
            [before, read(&self.body)]
        })
    }

    /// The line for every watcher that needs no conversion.
    pub fn line(&self) -> Bytes {
        self.line.clone()
    }
}

const BEFORE_KIND: &[u8] = b"{\"type\":\"";
const BEFORE_BODY: &[u8] = b"\",\"object\":";
const AFTER_BODY: &[u8] = b"}\n";

/// A line of a watch.
pub fn line(kind: &str, body: &[u8]) -> Bytes {
    line_of_parts(kind, &[body])
}

/// The same for a body in parts. The line is kept, so it takes exactly the memory that it needs.
pub fn line_of_parts(kind: &str, body: &[&[u8]]) -> Bytes {
    let around = BEFORE_KIND.len() + kind.len() + BEFORE_BODY.len() + AFTER_BODY.len();
    let mut line = Vec::with_capacity(around + body.iter().map(|part| part.len()).sum::<usize>());
    for part in [BEFORE_KIND, kind.as_bytes(), BEFORE_BODY]
        .into_iter()
        .chain(body.iter().copied())
        .chain([AFTER_BODY])
    {
        line.extend_from_slice(part);
    }
    line.into()
}

/// The object in a line, as a slice of the same memory.
pub fn body_of(kind: EventKind, line: &Bytes) -> Bytes {
    let start = BEFORE_KIND.len() + kind.name().len() + BEFORE_BODY.len();
    line.slice(start..line.len() - AFTER_BODY.len())
}

/// Bytes that a table's history may hold beside the live objects.
const KEEP_BYTES: usize = 16 << 20;
/// The memory of an event beside its line: the event, its key, its slot in the history.
const EVENT_BYTES: usize = 320;

#[derive(Debug, Default)]
pub struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// The history has all events after this version.
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

    pub fn since(&self, cursor: u64, limit: usize) -> Result<Vec<Arc<Event>>, TooOld> {
        self.reaches(cursor)?;
        let first = self.events.partition_point(|event| event.version <= cursor);
        Ok(self.events.range(first..).take(limit).cloned().collect())
    }

    /// The state at `at` of each object that has changed since.
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

/// The memory of an event. It must be the same when the event is added and when it is removed.
fn weight(event: &Event) -> usize {
    EVENT_BYTES + event.line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(version: u64, size: usize) -> Arc<Event> {
        let key = Key::new("pods", "default", "p");
        let body = format!("{{\"a\":\"{}\"}}", "x".repeat(size));
        let line = line("MODIFIED", body.as_bytes());
        Arc::new(Event::new(version, EventKind::Modified, key, line, None))
    }

    #[test]
    fn a_line_and_its_body_are_one_piece_of_memory() {
        let event = event(1, 5);
        assert_eq!(event.body, r#"{"a":"xxxxx"}"#);
        let line = event.line();
        assert!(line.as_ptr_range().contains(&event.body.as_ptr()));
        assert_eq!(line, "{\"type\":\"MODIFIED\",\"object\":{\"a\":\"xxxxx\"}}\n");
    }

    /// The bound must hold after watchers have read the lines, since these take memory too.
    #[test]
    fn a_history_is_bounded_by_all_that_its_events_take() {
        let mut history = History::default();
        let size = 1 << 20;
        for version in 1..=100 {
            let event = event(version, size);
            history.push(event.clone(), 1000);
            assert!(event.line().len() > size);
            let held: usize = history.events.iter().map(|event| event.line().len()).sum();
            assert!(held <= KEEP_BYTES, "{held} bytes after {version} events");
            assert!(history.events.len() >= 15.min(usize::try_from(version).unwrap()));
        }
        assert_eq!(
            history.bytes,
            history.events.iter().map(|event| weight(event)).sum::<usize>()
        );
    }
}
