//! Events. Both groups serve the same objects, stored in the form of core/v1.

use berth_apimachinery::columns::{self, Column, NAME, number, or};
use berth_apimachinery::conversion::StoredFields;
use berth_apimachinery::selectors::SelectableField;
use berth_apimachinery::status::{FieldError, Path};
use jiff::Timestamp;
use k8s_openapi::api::{core, events};
use serde_json::{Value, json};

use super::built_in::{BuiltIn, schema_of};
use crate::rules::{Errors, text};

pub static KIND: BuiltIn = BuiltIn {
    kind: "Event",
    plural: "events",
    short_names: &["ev"],
    schema: schema_of::<core::v1::Event>,
    // Only new events are checked.
    check: |object, change, errors| {
        if change.old.is_none() {
            check_new(object, false, errors);
        }
    },
    allow_create_on_update: true,
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    ..BuiltIn::PLAIN
};

pub static NEWER_KIND: BuiltIn = BuiltIn {
    group: "events.k8s.io",
    kind: "Event",
    plural: "events",
    short_names: &["ev"],
    stored: Some(STORED),
    schema: schema_of::<events::v1::Event>,
    check: |object, change, errors| {
        if change.old.is_none() {
            check_new(object, true, errors);
        }
    },
    allow_create_on_update: true,
    columns: COLUMNS,
    selectable: Some(NEWER_SELECTABLE),
    ..BuiltIn::PLAIN
};

/// Each pair is the name in core/v1 and the name in events.k8s.io/v1.
const STORED: StoredFields = StoredFields {
    table: "events",
    api_version: "v1",
    names: &[
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("source", "deprecatedSource"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("count", "deprecatedCount"),
        ("reportingComponent", "reportingController"),
    ],
};

const SELECTABLE: &[SelectableField] = &[
    SelectableField::new("involvedObject.kind"),
    SelectableField::new("involvedObject.namespace"),
    SelectableField::new("involvedObject.name"),
    SelectableField::new("involvedObject.uid"),
    SelectableField::new("involvedObject.apiVersion"),
    SelectableField::new("involvedObject.resourceVersion"),
    SelectableField::new("involvedObject.fieldPath"),
    SelectableField::new("reason"),
    SelectableField::new("reportingComponent"),
    SelectableField::stored_at("source", &["source.component", "reportingComponent"]),
    SelectableField::new("type"),
];

const NEWER_SELECTABLE: &[SelectableField] = &[
    SelectableField::stored_at("regarding.kind", &["involvedObject.kind"]),
    SelectableField::stored_at("regarding.namespace", &["involvedObject.namespace"]),
    SelectableField::stored_at("regarding.name", &["involvedObject.name"]),
    SelectableField::stored_at("regarding.uid", &["involvedObject.uid"]),
    SelectableField::stored_at("regarding.apiVersion", &["involvedObject.apiVersion"]),
    SelectableField::stored_at("regarding.resourceVersion", &["involvedObject.resourceVersion"]),
    SelectableField::stored_at("regarding.fieldPath", &["involvedObject.fieldPath"]),
    SelectableField::new("reason"),
    SelectableField::stored_at("reportingController", &["reportingComponent"]),
    SelectableField::new("type"),
];

/// An event must be about an object of its own namespace. The newer group requires more fields.
fn check_new(object: &Value, newer: bool, errors: &mut Errors) {
    let about = if newer { "regarding" } else { "involvedObject" };
    let namespace = text(&object["metadata"], "namespace");
    let target = text(&object[about], "namespace");
    if target != namespace && !(target.is_empty() && namespace == "default") {
        let field = Path::new("involvedObject.namespace");
        errors.push(FieldError::invalid(
            field,
            target.into(),
            "does not match event.namespace",
        ));
    }
    if object["eventTime"].is_null() {
        if newer {
            errors.push(FieldError::required(Path::new("eventTime"), ""));
        }
    } else {
        let reporter = if newer {
            "reportingController"
        } else {
            "reportingComponent"
        };
        for field in [reporter, "reportingInstance", "action", "reason"] {
            if text(object, field).is_empty() {
                errors.push(FieldError::required(Path::new(field), ""));
            }
        }
    }
    if !newer {
        return;
    }
    if !matches!(text(object, "type"), "Normal" | "Warning") {
        let detail = "must be Normal or Warning";
        errors.push(FieldError::invalid(Path::new("type"), object["type"].clone(), detail));
    }
    if text(object, "note").len() > 1024 {
        let detail = "can have at most 1024 bytes";
        errors.push(FieldError::invalid(Path::new("note"), "".into(), detail));
    }
}

const COLUMNS: &[Column] = &[
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
    or(columns::text(event, core), columns::text(event, events))
}

fn when(time: &str, now: Timestamp) -> Value {
    match time {
        "" => json!("<unknown>"),
        time => json!(columns::since_text(time, now)),
    }
}

fn first(event: &Value) -> &str {
    or(
        either(event, "/firstTimestamp", "/deprecatedFirstTimestamp"),
        columns::text(event, "/eventTime"),
    )
}

fn last(event: &Value) -> &str {
    match series(event) {
        Some(series) => columns::text(series, "/lastObservedTime"),
        None => or(
            either(event, "/lastTimestamp", "/deprecatedLastTimestamp"),
            first(event),
        ),
    }
}

/// The series of an event that repeats: how often, and when it was last seen.
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
        columns::text(event, "/reportingInstance"),
    );
    match host {
        "" => json!(component),
        host => json!(format!("{component}, {host}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_apimachinery::columns::cells;
    use berth_apimachinery::conversion::Conversion;

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
        let mut event = json!({"eventTime": "2026-01-01T00:00:00.000000Z", "reportingComponent": "c", "reportingInstance": "i"});
        let of = |event: &Value| {
            let cells = cells(COLUMNS, event, NOW.parse().unwrap());
            json!([cells[0], cells[5], cells[7], cells[8]])
        };
        assert_eq!(of(&event), json!(["24h", "c, i", "24h", 1]));
        event["series"] = json!({"count": 5, "lastObservedTime": "2026-01-01T23:58:00.000000Z"});
        assert_eq!(of(&event), json!(["2m", "c, i", "24h", 5]));
    }

    #[test]
    fn an_event_goes_to_the_other_group_and_back_unchanged() {
        let stored = json!({
            "apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "a"}, "message": "m",
        });
        let mut object = stored.clone();
        let conversion = Conversion::Fields(STORED);
        conversion.to_served(&mut object, "events.k8s.io/v1");
        assert_eq!(
            object,
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "a"}, "note": "m",
            })
        );
        conversion.to_stored(&mut object);
        assert_eq!(object, stored);
    }
}
