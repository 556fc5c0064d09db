//! Node selector and required node affinity of pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// A pod's node selector and required node affinity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequiredNodeAffinity {
    labels: BTreeMap<String, String>,
    /// At least one term must match. `None`: the pod has no required node affinity.
    terms: Option<Vec<NodeSelectorTerm>>,
}

impl RequiredNodeAffinity {
    pub fn of(spec: &PodSpec) -> Self {
        let affinity = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
        let required =
            affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        Self {
            labels: spec.node_selector.clone().unwrap_or_default(),
            terms: required.map(|selector| selector.node_selector_terms.clone()),
        }
    }

    pub fn matches(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        let selected = self.labels.iter().all(|(key, value)| labels.get(key) == Some(value));
        let terms = self.terms.as_deref();
        selected
            && terms.is_none_or(|terms| terms.iter().any(|term| term_matches(term, name, labels)))
    }
}

/// A term without requirements selects nothing, as in Kubernetes.
fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label = |r: &NodeSelectorRequirement| {
        requirement_matches(r, labels.get(&r.key).map(String::as_str))
    };
    let field = |r: &NodeSelectorRequirement| {
        r.key == "metadata.name" && requirement_matches(r, Some(name))
    };
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(label)
        && fields.iter().all(field)
}

fn requirement_matches(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = |value: &str| values.iter().any(|v| v == value);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers(value, values).is_some_and(|(have, bound)| have > bound),
        "Lt" => numbers(value, values).is_some_and(|(have, bound)| have < bound),
        _ => false,
    }
}

fn numbers(value: Option<&str>, values: &[String]) -> Option<(i64, i64)> {
    let [bound] = values else { return None };
    Some((value?.parse().ok()?, bound.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn matches(spec: &Value) -> bool {
        let mut spec = spec.clone();
        spec["containers"] = json!([]);
        let labels = [("disk", "ssd"), ("zone", "a"), ("cores", "8")];
        let labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned()));
        RequiredNodeAffinity::of(&serde_json::from_value(spec).unwrap())
            .matches("n1", &labels.into())
    }

    fn required(terms: Value) -> Value {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}])
    }

    #[test]
    fn every_label_of_a_node_selector_must_be_there() {
        assert!(matches(&json!({})));
        assert!(matches(&json!({"nodeSelector": {"disk": "ssd", "zone": "a"}})));
        assert!(!matches(&json!({"nodeSelector": {"disk": "ssd", "zone": "b"}})));
    }

    #[test]
    fn each_operator_of_an_affinity_means_what_it_says() {
        for (key, operator, values, expected) in [
            ("zone", "In", &["a", "b"][..], true),
            ("zone", "In", &["b"], false),
            ("none", "In", &["a"], false),
            ("zone", "NotIn", &["b"], true),
            ("none", "NotIn", &["b"], true),
            ("zone", "NotIn", &["a"], false),
            ("zone", "Exists", &[], true),
            ("none", "Exists", &[], false),
            ("none", "DoesNotExist", &[], true),
            ("cores", "Gt", &["4"], true),
            ("cores", "Gt", &["8"], false),
            ("cores", "Lt", &["9"], true),
            ("zone", "Lt", &["9"], false),
            ("zone", "Near", &["a"], false),
        ] {
            let spec = required(expression(key, operator, values));
            assert_eq!(matches(&spec), expected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn one_term_is_enough_but_all_of_it_must_hold() {
        let zone = json!({"key": "zone", "operator": "In", "values": ["a"]});
        let disk = json!({"key": "disk", "operator": "In", "values": ["hdd"]});
        assert!(!matches(&required(json!([{"matchExpressions": [zone, disk]}]))));
        assert!(matches(&required(
            json!([{"matchExpressions": [disk]}, {"matchExpressions": [zone]}])
        )));
        assert!(!matches(&required(json!([{}]))));
    }

    #[test]
    fn a_term_can_name_the_node() {
        let named = |name| json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]);
        assert!(matches(&required(named("n1"))));
        assert!(!matches(&required(named("n2"))));
    }
}
