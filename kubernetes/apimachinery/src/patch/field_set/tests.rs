use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::shape::{Shape, builtin};

/// The same as plainly as can be: every member's path.
type Paths = BTreeSet<Vec<String>>;

fn wire(paths: &Paths) -> Value {
    let mut node = Map::new();
    let firsts: BTreeSet<&String> = paths.iter().filter_map(|path| path.first()).collect();
    for first in firsts {
        let below: Paths = paths
            .iter()
            .filter(|path| path.first() == Some(first))
            .map(|path| path[1..].to_vec())
            .collect();
        node.insert(first.clone(), wire(&below));
    }
    if paths.contains(&Vec::new()) && !node.is_empty() {
        node.insert(".".to_owned(), json!({}));
    }
    Value::Object(node)
}

fn set(paths: &Paths) -> FieldSet {
    FieldSet::parse(wire(paths)).unwrap()
}

fn paths() -> impl Strategy<Value = Paths> {
    let element = prop::sample::select(vec!["f:a", "f:b", "k:{\"name\":\"a\"}", "v:\"x\"", "i:0"]);
    let path = prop::collection::vec(element.prop_map(str::to_owned), 1..4);
    prop::collection::btree_set(path, 0..8)
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_what_was_printed(paths in paths()) {
        let set = set(&paths);
        prop_assert_eq!(set.clone().into_value(), wire(&paths));
        prop_assert_eq!(FieldSet::parse(set.clone().into_value()), Some(set));
    }

    #[test]
    fn union_intersection_and_difference_are_those_of_sets(left in paths(), right in paths()) {
        let mut union = set(&left);
        union.union(set(&right));
        prop_assert_eq!(union, set(&(&left | &right)));

        let mut intersection = set(&left);
        intersection.intersect(&set(&right));
        prop_assert_eq!(intersection, set(&(&left & &right)));

        let mut difference = set(&left);
        difference.subtract(&set(&right));
        prop_assert_eq!(difference, set(&(&left - &right)));
    }

    #[test]
    fn every_path_is_shown_once(paths in paths()) {
        prop_assert_eq!(set(&paths).paths().len(), paths.len());
    }
}

#[test]
fn an_element_has_one_spelling() {
    let one = FieldSet::parse(json!({"f:a": {"k:{ \"b\": 1, \"a\": \"x\" }": {"f:c": {}}}}));
    let other = FieldSet::parse(json!({"f:a": {"k:{\"a\":\"x\",\"b\":1}": {"f:c": {}}}}));
    assert_eq!(one, other);
    assert!(one.is_some());
}

#[test]
fn a_mark_without_children_says_nothing() {
    let marked = FieldSet::parse(json!({".": {}, "f:a": {".": {}}})).unwrap();
    assert_eq!(marked.into_value(), json!({"f:a": {}}));
}

#[test]
fn what_is_no_set_is_refused() {
    for fields in [
        json!([]),
        json!({"f:a": 1}),
        json!({"a": {}}),
        json!({"x:a": {}}),
        json!({"k:a": {}}),
        json!({"k:[]": {}}),
        json!({"v:": {}}),
        json!({"i:a": {}}),
        json!({"é": {}}),
    ] {
        assert_eq!(FieldSet::parse(fields.clone()), None, "{fields}");
    }
}

#[test]
fn paths_are_shown_as_kubectl_users_know_them() {
    let set = FieldSet::parse(json!({
        "f:spec": {
            "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}}}},
            "f:replicas": {},
        },
        "f:metadata": {"f:finalizers": {"v:\"x\"": {}}},
        "f:list": {"i:3": {}},
    }));
    assert_eq!(
        set.unwrap().paths(),
        [
            ".list[3]",
            ".metadata.finalizers[=\"x\"]",
            ".spec.replicas",
            ".spec.containers[name=\"a\"]",
            ".spec.containers[name=\"a\"].ports[containerPort=80,protocol=\"TCP\"]",
        ]
    );
}

fn deployment() -> std::sync::Arc<Shape> {
    builtin("apps", "v1", "Deployment").unwrap()
}

fn of(value: Value) -> Value {
    FieldSet::of(&value, &deployment()).into_value()
}

fn pod_spec(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

/// What `change` says of the pod template's spec.
fn written(old: Value, new: Value) -> Value {
    let change = Change::between(Some(&pod_spec(old)), &pod_spec(new), &deployment());
    assert!(change.removed.is_empty(), "{change:?}");
    change.written.into_value()
}

#[test]
fn list_items_are_named_by_their_keys_and_key_defaults() {
    let ports = json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]);
    let spec = pod_spec(json!({"containers": [{"name": "a", "ports": ports}]}));
    assert_eq!(
        of(spec),
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
            ".": {},
            "f:name": {},
            "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
                "k:{\"containerPort\":80,\"protocol\":\"UDP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}},
            },
        }}}}}})
    );
}

#[test]
fn what_has_one_owner_is_one_field() {
    let spec = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"tolerations": [{"key": "a"}]}}}});
    assert_eq!(
        of(spec),
        json!({"f:spec": {"f:selector": {}, "f:template": {"f:spec": {"f:tolerations": {}}}}})
    );
}

#[test]
fn an_empty_map_is_claimed_and_an_empty_list_is_not() {
    let value = json!({"metadata": {"labels": {}, "finalizers": [], "annotations": {"a": "b"}}});
    assert_eq!(
        of(value),
        json!({"f:metadata": {"f:labels": {}, "f:annotations": {"f:a": {}}}})
    );
}

#[test]
fn untyped_data_is_claimed_key_by_key_and_lists_as_a_whole() {
    let fields = FieldSet::of(&json!({"a": {"b": [{"c": 1}]}, "d": 1}), &Shape::Any);
    assert_eq!(fields.into_value(), json!({"f:a": {".": {}, "f:b": {}}, "f:d": {}}));
}

#[test]
fn equal_objects_have_no_change() {
    let object = pod_spec(json!({"containers": [{"name": "a", "image": "x"}], "hostname": "h"}));
    assert_eq!(
        Change::between(Some(&object), &object, &deployment()),
        Change::default()
    );
}

#[test]
fn only_what_differs_is_written() {
    let old = json!({"hostname": "a", "containers": [{"name": "a", "image": "x"}, {"name": "b"}]});
    let new = json!({"hostname": "b", "containers": [{"name": "b"}, {"name": "a", "image": "y"}]});
    assert_eq!(
        written(old, new),
        json!({"f:spec": {"f:template": {"f:spec": {
            "f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}},
            "f:hostname": {},
        }}}})
    );
}

#[test]
fn what_appears_or_goes_as_a_whole_is_in_the_set_itself() {
    let old = json!({"metadata": {"labels": {"a": "b"}}});
    let new = json!({"metadata": {"finalizers": ["f"]}});
    let change = Change::between(Some(&old), &new, &deployment());
    assert_eq!(
        change.written.into_value(),
        json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"f\"": {}}}})
    );
    assert_eq!(
        change.removed.into_value(),
        json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}})
    );
}

#[test]
fn a_struct_that_is_no_pointer_never_appears() {
    let status = json!({"status": {"replicas": 1}});
    let change = Change::between(Some(&json!({})), &status, &deployment());
    assert_eq!(change.written.into_value(), json!({"f:status": {"f:replicas": {}}}));
    let change = Change::between(Some(&json!({})), &json!({"status": {}}), &deployment());
    assert_eq!(change, Change::default());
}

#[test]
fn a_zero_that_go_always_writes_is_nobodys() {
    let event = builtin("", "v1", "Event").unwrap();
    let new = json!({"reason": "r", "reportingComponent": "", "eventTime": null});
    let change = Change::between(None, &new, &event);
    assert_eq!(change.written.into_value(), json!({"f:reason": {}}));
}

#[test]
fn items_that_share_a_name_are_one_field() {
    let item = |value: &str| json!({"name": "A", "value": value});
    let containers = |env: Vec<Value>| json!({"containers": [{"name": "a", "env": env}]});
    let env = |name: &str, fields: Value| json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:env": {name: fields}}}}}}});
    let changed = written(
        containers(vec![item("1"), item("2")]),
        containers(vec![item("1"), item("3")]),
    );
    assert_eq!(changed, env("k:{\"name\":\"A\"}", json!({})));
    let same = written(
        containers(vec![item("1"), item("2")]),
        containers(vec![item("1"), item("2")]),
    );
    assert_eq!(same, json!({}));
}

#[test]
fn untyped_data_that_turns_into_an_object_loses_nothing() {
    let change = |old: Value, new: Value| {
        let change = Change::between(Some(&old), &new, &Shape::Any);
        (change.written.into_value(), change.removed.into_value())
    };
    let (object, text) = (json!({"a": {"b": 1}}), json!({"a": "x"}));
    let to_object = (json!({"f:a": {".": {}, "f:b": {}}}), json!({}));
    assert_eq!(change(text.clone(), object.clone()), to_object);
    assert_eq!(change(object, text), (json!({"f:a": {}}), json!({"f:a": {"f:b": {}}})));
}
