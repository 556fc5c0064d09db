//! From the stored form of an object to the served one and back. Only two kinds of difference exist: an Event is stored once and served
//! in two groups, and a custom resource may be served under another version than it is stored.

use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conversion {
    None,
    /// Stored as core/v1, served as events.k8s.io/v1.
    Events,
    /// Stored under this apiVersion, otherwise the same.
    Version(String),
}

/// core/v1 name, events.k8s.io/v1 name.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

impl Conversion {
    /// `served`: the apiVersion that the caller asked for.
    pub fn to_served(&self, object: &mut Value, served: &str) {
        match self {
            Self::None => return,
            Self::Events => rename(object, |(core, events)| (core, events)),
            Self::Version(_) => {}
        }
        object["apiVersion"] = served.into();
    }

    pub fn to_stored(&self, object: &mut Value) {
        match self {
            Self::None => {}
            Self::Events => {
                rename(object, |(core, events)| (events, core));
                object["apiVersion"] = "v1".into();
            }
            Self::Version(stored) => object["apiVersion"] = stored.as_str().into(),
        }
    }
}

fn rename(object: &mut Value, direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    let old: Map<String, Value> = std::mem::take(fields);
    for (name, value) in old {
        let renamed = EVENT_FIELDS
            .iter()
            .map(|pair| direction(*pair))
            .find(|(from, _)| *from == name);
        fields.insert(renamed.map_or(name, |(_, to)| to.to_owned()), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_goes_to_the_other_group_and_back_unchanged() {
        let stored = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "a"}, "message": "m", "reason": "r"});
        let mut object = stored.clone();
        Conversion::Events.to_served(&mut object, "events.k8s.io/v1");
        assert_eq!(
            object,
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "a"}, "note": "m", "reason": "r"})
        );
        Conversion::Events.to_stored(&mut object);
        assert_eq!(object, stored);
    }
}
