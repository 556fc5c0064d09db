//! Batches the events of watches. Under many writes, each of a hundred watchers would wake up and
//! send a packet for every write. So a watcher that has just sent waits until the next tick of a
//! common clock, and then sends all events since. All wait for the same tick, so they send the
//! same events, and the bytes are put together once. A watcher that was quiet sends at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::Event;

/// Too short for a person or a controller to notice, but much longer than a hundred sends take.
const INTERVAL: Duration = Duration::from_millis(4);

/// Enough for a few namespaces, a few kinds, and watchers that are late from the tick before.
const MAX_PIECES: usize = 16;

/// First and last version, and the namespace if only one is watched. Versions are unique across
/// tables.
type PieceKey = (u64, u64, Option<Box<str>>);

#[derive(Debug)]
pub struct Step {
    start: Instant,
    pieces: Mutex<VecDeque<(PieceKey, Bytes)>>,
}

impl Step {
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            pieces: Mutex::default(),
        }
    }

    /// When the next tick comes.
    pub fn next(&self) -> Instant {
        let now = Instant::now();
        let into = now.duration_since(self.start).as_micros() % INTERVAL.as_micros();
        let left = INTERVAL.as_micros() - into;
        now + Duration::from_micros(u64::try_from(left).unwrap_or_default())
    }

    /// The lines of these events. All watchers that send them share the bytes.
    pub fn piece(&self, events: &[Arc<Event>], namespace: Option<&str>) -> Bytes {
        let (first, last) = match events {
            [] => return Bytes::new(),
            [only] if is_inside(only, namespace) => return only.line(),
            [_] => return Bytes::new(),
            [first, .., last] => (first.version, last.version),
        };
        let run: PieceKey = (first, last, namespace.map(Into::into));
        if let Some((_, piece)) = self.pieces.lock().iter().find(|(made, _)| *made == run) {
            return piece.clone();
        }
        let mut piece = BytesMut::new();
        for event in events.iter().filter(|event| is_inside(event, namespace)) {
            piece.extend_from_slice(&event.line());
        }
        let piece = piece.freeze();
        let mut pieces = self.pieces.lock();
        pieces.truncate(MAX_PIECES - 1);
        pieces.push_front((run, piece.clone()));
        piece
    }
}

pub fn is_inside(event: &Event, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|namespace| namespace == &*event.key.namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{EventKind, Key, line};

    fn event(version: u64, namespace: &str) -> Arc<Event> {
        let key = Key::new("pods", namespace, "a");
        let line = line("ADDED", format!("{{\"n\":{version}}}").as_bytes());
        Arc::new(Event::new(version, EventKind::Added, key, line, None))
    }

    #[test]
    fn watch_events_are_joined_once_per_namespace_in_order() {
        let step = Step::new();
        let events = [event(5, "a"), event(6, "b"), event(9, "a")];
        let piece = step.piece(&events, Some("a"));
        let line = |n: u64| format!("{{\"type\":\"ADDED\",\"object\":{{\"n\":{n}}}}}\n");
        assert_eq!(piece, line(5) + &line(9));
        assert_eq!(step.piece(&events, Some("a")).as_ptr(), piece.as_ptr());
        assert_eq!(step.piece(&events, None), line(5) + &line(6) + &line(9));
        assert_eq!(step.piece(&events[1..2], Some("a")), "");
    }

    #[tokio::test(start_paused = true)]
    async fn everybody_rests_until_the_same_moment() {
        let step = Step::new();
        tokio::time::advance(Duration::from_millis(1)).await;
        let early = step.next();
        tokio::time::advance(Duration::from_millis(2)).await;
        assert_eq!(step.next(), early);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(step.next(), early + INTERVAL);
    }
}
