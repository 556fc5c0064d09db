//! What is left in a namespace that is being deleted, for its conditions. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resources::mentions;
use crate::store::Record;

/// Objects left, counted by resource and by finalizer.
#[derive(Debug, Default)]
pub struct Remains {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Remains {
    pub fn add(&mut self, table: &str, left: &[Record]) {
        if left.is_empty() {
            return;
        }
        // Core resources end in a dot: `configmaps.` beside `leases.coordination.k8s.io`.
        let resource = if table.contains('.') {
            table.to_owned()
        } else {
            format!("{table}.")
        };
        *self.resources.entry(resource).or_default() += left.len();
        for record in left.iter().filter(|record| mentions(&record.body, "\"finalizers\"")) {
            let object: Value = serde_json::from_slice(&record.body).unwrap_or_default();
            let finalizers = object["metadata"]["finalizers"].as_array();
            for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
                *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// The namespace with these conditions, or `None` if it has them already.
    pub fn with_conditions(&self, namespace: &Value, now: Timestamp) -> Option<Value> {
        let before = namespace["status"]["conditions"].as_array();
        let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let conditions = self.conditions().map(|(kind, status, reason, message)| {
            let since = |time: &Value| {
                json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time})
            };
            let mut known = before.into_iter().flatten();
            let same = known.find(|known| **known == since(&known["lastTransitionTime"]));
            same.cloned().unwrap_or_else(|| since(&json!(now)))
        });
        let conditions = Value::from(conditions.to_vec());
        if namespace["status"]["conditions"] == conditions {
            return None;
        }
        let mut namespace = namespace.clone();
        namespace["status"]["conditions"] = conditions;
        Some(namespace)
    }

    /// Type, status, reason and message of each condition, in Kubernetes' order.
    fn conditions(&self) -> [(&'static str, &'static str, &'static str, String); 5] {
        let no = |kind, reason, message: &str| (kind, "False", reason, message.to_owned());
        let list = |counts: &BTreeMap<String, usize>, verb: &str| {
            let counts = counts.iter();
            let parts: Vec<_> = counts
                .map(|(name, count)| format!("{name} {verb} {count} resource instances"))
                .collect();
            parts.join(", ")
        };
        let left = format!("Some resources are remaining: {}", list(&self.resources, "has"));
        let held = list(&self.finalizers, "in");
        let held = format!("Some content in the namespace has finalizers remaining: {held}");
        [
            no(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            no(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            no(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            ("NamespaceContentRemaining", "True", "SomeResourcesRemain", left),
            if self.finalizers.is_empty() {
                let message = "All content-preserving finalizers finished";
                no("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", message)
            } else {
                ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", held)
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(count: usize, finalizers: &Value) -> Vec<Record> {
        let object = json!({"metadata": {"finalizers": finalizers}});
        let record = Record {
            version: 1,
            body: object.to_string().into(),
        };
        vec![record; count]
    }

    #[test]
    fn what_is_left_is_counted_by_resource_and_finalizer() {
        let mut remains = Remains::default();
        remains.add("pods", &left(2, &json!([])));
        remains.add("secrets", &[]);
        remains.add("leases.coordination.k8s.io", &left(3, &json!(["a", "b"])));
        remains.add("configmaps", &left(1, &json!(["a"])));
        let messages = remains.conditions().map(|(.., message)| message);
        assert!(messages[3].ends_with(
            ": configmaps. has 1 resource instances, leases.coordination.k8s.io has 3 \
             resource instances, pods. has 2 resource instances"
        ));
        assert!(messages[4].ends_with(": a in 4 resource instances, b in 3 resource instances"));
    }

    #[test]
    fn what_still_holds_keeps_its_time_and_is_not_told_twice() {
        let mut remains = Remains::default();
        remains.add("pods", &left(2, &json!([])));
        let at = |second| Timestamp::from_second(second).unwrap();
        let with_conditions = remains.with_conditions(&json!({}), at(1)).unwrap();
        assert_eq!(remains.with_conditions(&with_conditions, at(2)), None);
        remains.add("pods", &left(1, &json!([])));
        let later = remains.with_conditions(&with_conditions, at(3)).unwrap();
        let times = [2, 3, 4]
            .map(|n: usize| later["status"]["conditions"][n]["lastTransitionTime"].clone());
        assert_eq!(
            times,
            ["1970-01-01T00:00:01Z", "1970-01-01T00:00:03Z", "1970-01-01T00:00:01Z"]
        );
    }
}
