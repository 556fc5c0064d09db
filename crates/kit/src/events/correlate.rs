//! Which occurrences are worth a write. Pure: the clock is handed in.
//!
//! client-go's measures: the same again within ten minutes is one more of a series; about one object 25 writes at once, then
//! one every five minutes; 4096 of each are remembered.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;

use super::Event;

const SERIES_LASTS: Duration = Duration::from_secs(600);
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);
const REMEMBERED: usize = 4096;

/// What an object is known by. Not `ObjectReference`, which has no order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Object([Option<String>; 6]);

impl From<&ObjectReference> for Object {
    fn from(object: &ObjectReference) -> Self {
        Self([
            object.api_version.clone(),
            object.kind.clone(),
            object.namespace.clone(),
            object.name.clone(),
            object.uid.clone(),
            object.field_path.clone(),
        ])
    }
}

/// What makes two occurrences the same event. The note is part of it: another note is other news.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    regarding: Object,
    related: Option<Object>,
    warning: bool,
    reason: &'static str,
    action: &'static str,
    note: String,
}

impl Key {
    pub(super) fn new(regarding: &ObjectReference, event: &Event) -> Self {
        Self {
            regarding: regarding.into(),
            related: event.related.as_ref().map(Object::from),
            warning: event.type_ == kube::runtime::events::EventType::Warning,
            reason: event.reason,
            action: event.action,
            note: event.note.clone(),
        }
    }
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
    last: Instant,
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
}

#[derive(Debug, Default)]
pub(super) struct Correlator {
    series: BTreeMap<Key, Series>,
    buckets: BTreeMap<Object, Bucket>,
}

impl Correlator {
    pub(super) fn observe(&mut self, key: &Key, now: Instant) -> Action {
        let full = Bucket {
            writes: BURST,
            since: now,
        };
        let allowed = self.buckets.entry(key.regarding.clone()).or_insert(full).take(now);
        forget_oldest(&mut self.buckets, |bucket| bucket.since);
        let series = self
            .series
            .get_mut(key)
            .filter(|series| now < series.last + SERIES_LASTS);
        match series {
            Some(series) => {
                series.count = series.count.saturating_add(1);
                series.last = now;
                if !allowed {
                    return Action::Leave;
                }
                Action::Continue {
                    name: series.name.clone(),
                    count: series.count,
                }
            }
            None if allowed => Action::Create,
            None => Action::Leave,
        }
    }

    /// The event was written under `name`; the same again continues it.
    pub(super) fn written(&mut self, key: Key, name: String, now: Instant) {
        let first = Series {
            name,
            count: 1,
            last: now,
        };
        self.series.insert(key, first);
        forget_oldest(&mut self.series, |series| series.last);
    }
}

fn forget_oldest<K: Clone + Ord, V>(map: &mut BTreeMap<K, V>, age: impl Fn(&V) -> Instant) {
    if map.len() <= REMEMBERED {
        return;
    }
    let oldest = map
        .iter()
        .min_by_key(|(_, value)| age(value))
        .map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        map.remove(&oldest);
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
    fn write(correlator: &mut Correlator, key: &Key, now: Instant) -> Action {
        let action = correlator.observe(key, now);
        if action == Action::Create {
            correlator.written(key.clone(), "first".to_owned(), now);
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
        assert_eq!(write(&mut correlator, &key, start), Action::Create);
        assert_eq!(write(&mut correlator, &key, start + Duration::from_secs(1)), more(2));
        assert_eq!(write(&mut correlator, &key, start + Duration::from_secs(600)), more(3));
        assert_eq!(
            write(&mut correlator, &key, start + Duration::from_secs(1200)),
            Action::Create
        );
    }

    #[test]
    fn another_note_or_object_is_another_event() {
        let (mut correlator, now) = (Correlator::default(), Instant::now());
        for key in [key("n1", "a"), key("n1", "b"), key("n2", "a")] {
            assert_eq!(write(&mut correlator, &key, now), Action::Create);
        }
    }

    #[test]
    fn a_flood_about_one_object_is_limited_and_others_are_not() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let flood = |correlator: &mut Correlator, now| {
            (0..1000)
                .filter(|n| write(correlator, &key("n1", &n.to_string()), now) != Action::Leave)
                .count()
        };
        assert_eq!(flood(&mut correlator, start), 25);
        assert_eq!(write(&mut correlator, &key("n2", "a"), start), Action::Create);
        assert_eq!(flood(&mut correlator, start + Duration::from_secs(299)), 0);
        assert_eq!(flood(&mut correlator, start + Duration::from_secs(300)), 1);
        assert_eq!(flood(&mut correlator, start + Duration::from_secs(100_000)), 25);
    }

    #[test]
    fn a_series_counts_on_while_it_is_limited() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        let key = key("n1", "no address");
        for _ in 0..100 {
            write(&mut correlator, &key, start);
        }
        assert_eq!(write(&mut correlator, &key, start + REFILL), more(101));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut correlator, start) = (Correlator::default(), Instant::now());
        for n in 0..5000 {
            let now = start + Duration::from_millis(n);
            write(&mut correlator, &key(&n.to_string(), "a"), now);
        }
        assert_eq!(correlator.series.len(), REMEMBERED);
        assert_eq!(correlator.buckets.len(), REMEMBERED);
        assert!(correlator.series.contains_key(&key("4999", "a")));
    }
}
