//! Which occurrences are worth a write. Pure: the clock is handed in.
//!
//! client-go's measures: the same again within ten minutes is one more of a series; about one
//! object 25 writes at once, then one every five minutes; 4096 of each are remembered. What is
//! remembered of an occurrence is a number, not the words.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::Event;

const SERIES_LASTS: Duration = Duration::from_secs(600);
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);
const REMEMBERED: usize = 4096;

/// What makes two occurrences the same event, and what they are about. Two that differ have the
/// same number once in 2^64: then one counts as the other again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    regarding: u64,
    event: u64,
}

impl Key {
    /// The note is part of it: another note is other news.
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

/// What an object is known by.
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
    /// The first of its kind.
    Create,
    /// Once more what was written under this name; so many by now.
    Continue { name: String, count: i32 },
    /// Too much about this object. The series, if there is one, has been counted on.
    Leave,
}

#[derive(Debug)]
struct Series {
    name: String,
    count: i32,
}

/// Fills by one write every [`REFILL`], up to [`BURST`].
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

    /// From when on it is as good as a new one.
    fn full_at(&self) -> Instant {
        self.since + REFILL.saturating_mul(BURST.saturating_sub(self.writes))
    }
}

/// At most [`REMEMBERED`] values, each until it means nothing any more. What would be forgotten
/// first gives way when there are more.
#[derive(Debug)]
struct Memory<V> {
    values: BTreeMap<u64, (V, (Instant, u64))>,
    /// When each is forgotten; the number tells apart what is forgotten together.
    order: BTreeMap<(Instant, u64), u64>,
    number: u64,
}

impl<V> Default for Memory<V> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            order: BTreeMap::new(),
            number: 0,
        }
    }
}

impl<V> Memory<V> {
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
        if self.values.len() > REMEMBERED
            && let Some((_, first)) = self.order.pop_first()
        {
            self.values.remove(&first);
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Correlator {
    series: Memory<Series>,
    buckets: Memory<Bucket>,
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
                    Action::Leave
                };
                self.series.put(key.event, series, now + SERIES_LASTS);
                action
            }
            None if allowed => Action::Create,
            None => Action::Leave,
        }
    }

    /// The event was written under `name`; the same again continues it.
    pub(super) fn written(&mut self, key: Key, name: String, now: Instant) {
        self.series
            .put(key.event, Series { name, count: 1 }, now + SERIES_LASTS);
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
    fn the_same_again_is_a_series_until_it_has_been_quiet_for_ten_minutes() {
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
                .filter(|n| write(correlator, key("n1", &n.to_string()), now) != Action::Leave)
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
        assert_eq!(correlator.series.values.len(), REMEMBERED);
        assert_eq!(correlator.series.order.len(), REMEMBERED);
        assert_eq!(correlator.buckets.values.len(), REMEMBERED);
        assert_eq!(correlator.buckets.order.len(), REMEMBERED);
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
        assert_eq!(write(&mut correlator, key("n1", "more"), start), Action::Leave);
    }

    #[test]
    fn what_means_nothing_any_more_is_forgotten() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for n in 0..1000 {
            write(&mut correlator, key(&n.to_string(), "a"), start);
        }
        write(&mut correlator, key("last", "a"), start + SERIES_LASTS);
        assert_eq!(correlator.series.values.len(), 1);
        assert_eq!(correlator.buckets.values.len(), 1);
    }
}
