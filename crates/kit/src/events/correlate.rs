//! Which occurrences are worth a write. Pure: the clock is passed in.
//!
//! With client-go's limits: the same event within ten minutes continues a series. One object gets
//! 25 writes at once, then one every five minutes. At most 4096 series and 4096 objects are
//! remembered, under a hash and without the event's text.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::Event;

const SERIES_TTL: Duration = Duration::from_secs(600);
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);
const MAX_REMEMBERED: usize = 4096;

/// Hashes of the object and of the whole event. Two events that differ have the same hash once in
/// 2^64: then one counts as a repetition of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    regarding: u64,
    event: u64,
}

impl Key {
    /// The note is part of the event: another note makes another event.
    pub(super) fn new(regarding: &ObjectReference, event: &Event) -> Self {
        let mut hasher = DefaultHasher::new();
        hash(regarding, &mut hasher);
        let regarding = hasher.finish();
        event.related.is_some().hash(&mut hasher);
        event.related.iter().for_each(|related| hash(related, &mut hasher));
        let warning = event.type_ == kube::runtime::events::EventType::Warning;
        (warning, event.reason, event.action, &event.note).hash(&mut hasher);
        Self {
            regarding,
            event: hasher.finish(),
        }
    }
}

/// Hashes what identifies an object.
fn hash(object: &ObjectReference, hasher: &mut DefaultHasher) {
    let fields = [
        &object.api_version,
        &object.kind,
        &object.namespace,
        &object.name,
        &object.uid,
        &object.field_path,
    ];
    fields.hash(hasher);
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The first event of its kind.
    Create,
    /// A repetition of the event that was written under this name, with the count so far.
    Continue { name: String, count: i32 },
    /// Too many events about this object. The series, if there is one, has counted this one.
    Skip,
}

#[derive(Debug)]
struct Series {
    name: String,
    count: i32,
}

/// The writes that an object has left. It gains one every [`REFILL`], up to [`BURST`].
#[derive(Debug)]
struct Bucket {
    writes: u32,
    since: Instant,
}

impl Bucket {
    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        let periods = u32::try_from(passed.as_secs() / REFILL.as_secs()).unwrap_or(u32::MAX);
        if periods > 0 {
            self.writes = self.writes.saturating_add(periods).min(BURST);
            self.since += REFILL.saturating_mul(periods);
        }
        let allowed = self.writes > 0;
        self.writes = self.writes.saturating_sub(1);
        allowed
    }

    /// When it is full again, like a new one.
    fn full_at(&self) -> Instant {
        self.since + REFILL.saturating_mul(BURST.saturating_sub(self.writes))
    }
}

/// At most [`MAX_REMEMBERED`] values, each until it expires. If there are more, the value that
/// would expire first is removed.
#[derive(Debug)]
struct ExpiringMap<V> {
    values: BTreeMap<u64, (V, (Instant, u64))>,
    /// When each value expires; the number tells apart values that expire together.
    order: BTreeMap<(Instant, u64), u64>,
    number: u64,
}

impl<V> Default for ExpiringMap<V> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            order: BTreeMap::new(),
            number: 0,
        }
    }
}

impl<V> ExpiringMap<V> {
    fn take(&mut self, key: u64, now: Instant) -> Option<V> {
        while let Some(first) = self.order.first_entry()
            && first.key().0 <= now
        {
            self.values.remove(&first.remove());
        }
        let (value, place) = self.values.remove(&key)?;
        self.order.remove(&place);
        Some(value)
    }

    fn put(&mut self, key: u64, value: V, until: Instant) {
        self.number += 1;
        let place = (until, self.number);
        if let Some((_, before)) = self.values.insert(key, (value, place)) {
            self.order.remove(&before);
        }
        self.order.insert(place, key);
        if self.values.len() > MAX_REMEMBERED
            && let Some((_, first)) = self.order.pop_first()
        {
            self.values.remove(&first);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Correlator {
    series: ExpiringMap<Series>,
    buckets: ExpiringMap<Bucket>,
}

impl Correlator {
    pub(super) fn observe(&mut self, key: Key, now: Instant) -> Action {
        let full = Bucket {
            writes: BURST,
            since: now,
        };
        let mut bucket = self.buckets.take(key.regarding, now).unwrap_or(full);
        let allowed = bucket.take(now);
        let until = bucket.full_at();
        self.buckets.put(key.regarding, bucket, until);
        match self.series.take(key.event, now) {
            Some(mut series) => {
                series.count = series.count.saturating_add(1);
                let action = if allowed {
                    Action::Continue {
                        name: series.name.clone(),
                        count: series.count,
                    }
                } else {
                    Action::Skip
                };
                self.series.put(key.event, series, now + SERIES_TTL);
                action
            }
            None if allowed => Action::Create,
            None => Action::Skip,
        }
    }

    /// The event was written under `name`: the same event continues its series from now on.
    pub(super) fn written(&mut self, key: Key, name: String, now: Instant) {
        self.series.put(key.event, Series { name, count: 1 }, now + SERIES_TTL);
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::events::EventType;

    use super::*;

    fn key(object: &str, note: &str) -> Key {
        let regarding = ObjectReference {
            name: Some(object.to_owned()),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: EventType::Warning,
            reason: "SubnetFull",
            action: "Allocate",
            note: note.to_owned(),
            related: None,
        };
        Key::new(&regarding, &event)
    }

    /// Observes, and writes what is to be created.
    fn write(correlator: &mut Correlator, key: Key, now: Instant) -> Action {
        let action = correlator.observe(key, now);
        if action == Action::Create {
            correlator.written(key, "first".to_owned(), now);
        }
        action
    }

    fn more(count: i32) -> Action {
        let name = "first".to_owned();
        Action::Continue { name, count }
    }

    #[test]
    fn a_repeated_event_is_a_series_until_ten_quiet_minutes() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let key = key("n1", "no address");
        assert_eq!(write(&mut correlator, key, start), Action::Create);
        assert_eq!(write(&mut correlator, key, start + Duration::from_secs(1)), more(2));
        assert_eq!(write(&mut correlator, key, start + Duration::from_secs(600)), more(3));
        assert_eq!(
            write(&mut correlator, key, start + Duration::from_secs(1200)),
            Action::Create
        );
    }

    #[test]
    fn another_note_or_object_is_another_event() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        for key in [key("n1", "a"), key("n1", "b"), key("n2", "a")] {
            assert_eq!(write(&mut correlator, key, now), Action::Create);
        }
    }

    #[test]
    fn a_flood_about_one_object_is_limited_and_others_are_not() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let flood = |correlator: &mut Correlator, now| {
            (0..1000)
                .filter(|n| write(correlator, key("n1", &n.to_string()), now) != Action::Skip)
                .count()
        };
        assert_eq!(flood(&mut correlator, start), 25);
        assert_eq!(write(&mut correlator, key("n2", "a"), start), Action::Create);
        assert_eq!(flood(&mut correlator, start + Duration::from_secs(299)), 0);
        assert_eq!(flood(&mut correlator, start + Duration::from_secs(300)), 1);
        assert_eq!(flood(&mut correlator, start + Duration::from_secs(100_000)), 25);
    }

    #[test]
    fn a_series_counts_on_while_it_is_limited() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let key = key("n1", "no address");
        for _ in 0..100 {
            write(&mut correlator, key, start);
        }
        assert_eq!(write(&mut correlator, key, start + REFILL), more(101));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for n in 0..5000 {
            let now = start + Duration::from_millis(n);
            write(&mut correlator, key(&n.to_string(), "a"), now);
        }
        assert_eq!(correlator.series.values.len(), MAX_REMEMBERED);
        assert_eq!(correlator.series.order.len(), MAX_REMEMBERED);
        assert_eq!(correlator.buckets.values.len(), MAX_REMEMBERED);
        assert_eq!(correlator.buckets.order.len(), MAX_REMEMBERED);
        assert!(correlator.series.values.contains_key(&key("4999", "a").event));
    }

    #[test]
    fn objects_that_come_once_do_not_push_out_one_that_is_limited() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for n in 0..BURST {
            write(&mut correlator, key("n1", &n.to_string()), start);
        }
        for n in 0..5000 {
            write(&mut correlator, key(&format!("p{n}"), "a"), start);
        }
        assert_eq!(write(&mut correlator, key("n1", "more"), start), Action::Skip);
    }

    #[test]
    fn what_means_nothing_any_more_is_forgotten() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for n in 0..1000 {
            write(&mut correlator, key(&n.to_string(), "a"), start);
        }
        write(&mut correlator, key("last", "a"), start + SERIES_TTL);
        assert_eq!(correlator.series.values.len(), 1);
        assert_eq!(correlator.buckets.values.len(), 1);
    }
}
