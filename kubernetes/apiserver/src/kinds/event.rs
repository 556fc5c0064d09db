//! What an event's row says: the same whichever group it is served in.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::cell::{Column, NAME, number, or, text};

pub const COLUMNS: &[Column] = &[
    Column::made("Last Seen", |event, now| when(last(event), now)),
    Column::text("Type", "/type"),
    Column::text("Reason", "/reason"),
    Column::made("Object", object),
    Column::made("Subobject", |event, _| {
        json!(either(event, "/involvedObject/fieldPath", "/regarding/fieldPath"))
    })
    .wide(),
    Column::made("Source", source).wide(),
    Column::made("Message", |event, _| json!(either(event, "/message", "/note").trim())),
    Column::made("First Seen", |event, now| when(first(event), now)).wide(),
    Column::made("Count", count).wide(),
    NAME.wide(),
];

/// A field by its name in core/v1, or else in events.k8s.io/v1.
fn either<'a>(event: &'a Value, core: &str, events: &str) -> &'a str {
    or(text(event, core), text(event, events))
}

fn when(time: &str, now: Timestamp) -> Value {
    match time {
        "" => json!("<unknown>"),
        time => json!(age::since_text(time, now)),
    }
}

fn first(event: &Value) -> &str {
    or(
        either(event, "/firstTimestamp", "/deprecatedFirstTimestamp"),
        text(event, "/eventTime"),
    )
}

fn last(event: &Value) -> &str {
    match series(event) {
        Some(series) => text(series, "/lastObservedTime"),
        None => or(
            either(event, "/lastTimestamp", "/deprecatedLastTimestamp"),
            first(event),
        ),
    }
}

/// An event that goes on happening says there how often and until when.
fn series(event: &Value) -> Option<&Value> {
    event.get("series").filter(|series| !series.is_null())
}

fn count(event: &Value, _: Timestamp) -> Value {
    json!(match series(event) {
        Some(series) => number(series, "/count"),
        None => number(event, "/count").max(number(event, "/deprecatedCount")).max(1),
    })
}

fn object(event: &Value, _: Timestamp) -> Value {
    let kind = either(event, "/involvedObject/kind", "/regarding/kind").to_lowercase();
    match either(event, "/involvedObject/name", "/regarding/name") {
        "" => json!(kind),
        name => json!(format!("{kind}/{name}")),
    }
}

fn source(event: &Value, _: Timestamp) -> Value {
    let reporter = either(event, "/reportingComponent", "/reportingController");
    let component = or(
        either(event, "/source/component", "/deprecatedSource/component"),
        reporter,
    );
    let host = or(
        either(event, "/source/host", "/deprecatedSource/host"),
        text(event, "/reportingInstance"),
    );
    match host {
        "" => json!(component),
        host => json!(format!("{component}, {host}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::cells;
    use super::*;

    const NOW: &str = "2026-01-02T00:00:00Z";

    #[test]
    fn an_event_shows_the_same_in_either_group() {
        let core = json!({
            "metadata": {"name": "e"}, "type": "Normal", "reason": "R", "message": " m \n", "count": 7,
            "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "f"}, "source": {"component": "c", "host": "h"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T23:00:00Z",
        });
        let events = json!({
            "metadata": {"name": "e"}, "type": "Normal", "reason": "R", "note": " m \n", "deprecatedCount": 7,
            "regarding": {"kind": "Pod", "name": "p", "fieldPath": "f"}, "deprecatedSource": {"component": "c", "host": "h"},
            "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z", "deprecatedLastTimestamp": "2026-01-01T23:00:00Z",
        });
        let expected = json!(["60m", "Normal", "R", "pod/p", "f", "c, h", "m", "24h", 7, "e"]);
        assert_eq!(json!(cells(COLUMNS, &core, NOW.parse().unwrap())), expected);
        assert_eq!(json!(cells(COLUMNS, &events, NOW.parse().unwrap())), expected);
    }

    #[test]
    fn an_event_of_the_new_kind_tells_time_and_count_by_its_series() {
        let mut event =
            json!({"eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "c", "reportingInstance": "i"});
        let of = |event: &Value| {
            let cells = cells(COLUMNS, event, NOW.parse().unwrap());
            json!([cells[0], cells[5], cells[7], cells[8]])
        };
        assert_eq!(of(&event), json!(["24h", "c, i", "24h", 1]));
        event["series"] = json!({"count": 5, "lastObservedTime": "2026-01-01T23:58:00.000000Z"});
        assert_eq!(of(&event), json!(["2m", "c, i", "24h", 5]));
    }
}
