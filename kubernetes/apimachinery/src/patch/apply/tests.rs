use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::shape::{builtin, custom};

const THEN: &str = "2024-01-01T00:00:00Z";
const NOW: &str = "2024-01-01T00:00:09Z";

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}, "spec": spec})
}

fn containers(containers: Value) -> Value {
    deployment(json!({"template": {"spec": {"containers": containers}}}))
}

/// The configuration of a manager that gives up all its fields.
fn nothing() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "n"}})
}

fn run(live: Option<&Value>, applied: &Value, manager: &str, force: bool) -> Result<Value> {
    let shape = builtin("apps", "v1", "Deployment").unwrap();
    apply(live, applied, &shape, manager, "", force, "apps/v1", NOW)
}

fn updated(live: Option<&Value>, mut new: Value, manager: &str) -> Value {
    let shape = builtin("apps", "v1", "Deployment").unwrap();
    crate::patch::track_update(live, &mut new, &shape, manager, "", "apps/v1", THEN);
    new
}

fn fields<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries
        .iter()
        .find(|entry| entry["manager"] == manager)
        .map_or(&Value::Null, |entry| &entry["fieldsV1"])
}

#[test]
fn a_new_object_is_what_was_applied_and_who_applied_it_owns_it() {
    let applied = containers(json!([{"name": "a", "ports": [{"containerPort": 80}]}]));
    let created = run(None, &applied, "m", false).unwrap();
    assert_eq!(created["spec"], applied["spec"]);
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "m", "operation": "Apply", "apiVersion": "apps/v1", "time": NOW, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {
                ".": {}, "f:name": {},
                "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
            }}}}}},
        }])
    );
}

#[test]
fn a_conflict_names_the_other_owner_and_the_field() {
    let live = updated(None, deployment(json!({"replicas": 1})), "kubectl-client-side-apply");
    let status = run(Some(&live), &deployment(json!({"replicas": 2})), "m", false).unwrap_err();
    assert_eq!((status.code, status.reason), (409, "Conflict"));
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" \
         using apps/v1: .spec.replicas"
    );
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"kubectl-client-side-apply\" using apps/v1", "field": ".spec.replicas"});
    assert_eq!(status.details.unwrap()["causes"], json!([cause]));
}

#[test]
fn several_conflicts_are_listed_by_owner() {
    let live = updated(None, deployment(json!({"replicas": 1, "paused": true})), "b");
    let image = |image: &str| containers(json!([{"name": "a", "image": image}]));
    let live = run(Some(&live), &image("x"), "a", false).unwrap();
    let mut wanted = image("y");
    wanted["spec"]["replicas"] = 2.into();
    wanted["spec"]["paused"] = false.into();
    let status = run(Some(&live), &wanted, "m", false).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- \
         .spec.template.spec.containers[name=\"a\"].image\nconflicts with \"b\" using \
         apps/v1:\n- .spec.paused\n- .spec.replicas"
    );
}

#[test]
fn a_conflict_with_a_subresource_names_it() {
    let shape = builtin("apps", "v1", "Deployment").unwrap();
    let old = updated(None, deployment(json!({"replicas": 1})), "m1");
    let mut live = old.clone();
    live["spec"]["replicas"] = 3.into();
    crate::patch::track_update(Some(&old), &mut live, &shape, "kubectl", "scale", "apps/v1", THEN);
    let status = run(Some(&live), &deployment(json!({"replicas": 2})), "m", false).unwrap_err();
    assert!(
        status
            .message
            .contains("conflict with \"kubectl\" with subresource \"scale\" using apps/v1"),
        "{status}"
    );
}

#[test]
fn force_takes_the_field_from_its_owner() {
    let live = updated(None, deployment(json!({"replicas": 1, "paused": true})), "u");
    let new = run(Some(&live), &deployment(json!({"replicas": 2})), "m", true).unwrap();
    assert_eq!(new["spec"]["replicas"], 2);
    assert_eq!(fields(&new, "u"), &json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(fields(&new, "m"), &json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn an_equal_value_is_shared_and_outlives_one_of_its_owners() {
    let wanted = deployment(json!({"replicas": 2}));
    let first = run(None, &wanted, "m1", false).unwrap();
    let second = run(Some(&first), &wanted, "m2", false).unwrap();
    assert_eq!(fields(&second, "m1"), fields(&second, "m2"));
    let third = run(Some(&second), &deployment(json!({})), "m1", false).unwrap();
    assert_eq!(third["spec"]["replicas"], 2);
    let last = run(Some(&third), &deployment(json!({})), "m2", false).unwrap();
    assert_eq!(last["spec"].get("replicas"), None);
}

#[test]
fn what_is_no_longer_applied_goes_unless_another_owns_it() {
    let first = run(
        None,
        &containers(json!([{"name": "a", "image": "x"}, {"name": "b", "image": "y"}])),
        "m1",
        false,
    )
    .unwrap();
    let second = run(
        Some(&first),
        &containers(json!([{"name": "b", "command": ["c"]}])),
        "m2",
        false,
    )
    .unwrap();
    let third = run(Some(&second), &deployment(json!({"paused": true})), "m1", false).unwrap();
    assert_eq!(
        third["spec"],
        json!({"paused": true, "template": {"spec": {"containers": [{"name": "b", "command": ["c"]}]}}})
    );
}

#[test]
fn what_an_update_set_stays_when_an_applier_leaves() {
    let live = updated(None, deployment(json!({"replicas": 1})), "u");
    let applied = run(Some(&live), &deployment(json!({"paused": true})), "m", false).unwrap();
    let left = run(Some(&applied), &nothing(), "m", false).unwrap();
    assert_eq!(left, live);
}

#[test]
fn list_items_keep_the_order_in_which_they_are_applied() {
    let names = |object: &Value| -> Vec<String> {
        let items = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        items
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let named =
        |names: &[&str]| containers(names.iter().map(|name| json!({"name": name})).collect());
    let live = updated(None, named(&["a", "b", "c", "d"]), "u");
    for (applied, want) in [
        (["c", "a"], ["b", "c", "d", "a"].as_slice()),
        (["d", "new"], &["a", "b", "c", "d", "new"]),
        (["new", "a"], &["new", "a", "b", "c", "d"]),
    ] {
        let new = run(Some(&live), &named(&applied), "m", false).unwrap();
        assert_eq!(names(&new), want, "{applied:?}");
    }
}

#[test]
fn applying_the_same_again_gives_what_is_live() {
    let wanted = containers(json!([{"name": "a", "image": "x"}]));
    let live = updated(None, deployment(json!({"replicas": 1})), "u");
    let shape = builtin("apps", "v1", "Deployment").unwrap();
    let first = apply(Some(&live), &wanted, &shape, "m", "", false, "apps/v1", THEN).unwrap();
    assert_eq!(run(Some(&first), &wanted, "m", false).unwrap(), first);
}

#[test]
fn a_null_time_as_kubectl_generates_it_changes_nothing() {
    let live = updated(None, deployment(json!({"replicas": 1})), "u");
    let mut live = run(Some(&live), &deployment(json!({"replicas": 1})), "m", false).unwrap();
    live["metadata"]["creationTimestamp"] = THEN.into();
    let mut applied = deployment(json!({"replicas": 1}));
    applied["metadata"]["creationTimestamp"] = Value::Null;
    assert_eq!(run(Some(&live), &applied, "m", false).unwrap(), live);
}

#[test]
fn what_every_object_has_is_nobodys() {
    let live = updated(None, deployment(json!({"replicas": 1})), "u");
    let mut applied = nothing();
    applied["metadata"]["resourceVersion"] = "7".into();
    let new = run(Some(&live), &applied, "m", false).unwrap();
    assert_eq!(fields(&new, "m"), &Value::Null);
}

#[test]
fn an_unmanaged_object_is_owned_by_before_first_apply() {
    let mut live = deployment(json!({"replicas": 1}));
    live["status"] = json!({"replicas": 1});
    let status = run(Some(&live), &deployment(json!({"replicas": 2})), "m", false).unwrap_err();
    assert!(
        status
            .message
            .contains("conflict with \"before-first-apply\" using apps/v1: .spec.replicas"),
        "{status}"
    );
    let new = run(Some(&live), &deployment(json!({"paused": true})), "m", false).unwrap();
    assert_eq!(
        fields(&new, "before-first-apply"),
        &json!({"f:spec": {"f:replicas": {}}})
    );
}

#[test]
fn managed_fields_can_not_be_applied() {
    let mut applied = deployment(json!({}));
    applied["metadata"]["managedFields"] = json!([{}]);
    let status = run(None, &applied, "m", false).unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "metadata.managedFields must be nil")
    );
}

#[test]
fn an_apply_that_fails_the_schema_is_refused_with_each_reason() {
    for (spec, reason) in [
        (json!({"nope": 1}), ".spec.nope: field not declared in schema"),
        (
            json!({"replicas": "x"}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (json!({"paused": "yes"}), ".spec.paused: expected boolean, got &{yes}"),
        (json!({"template": []}), ".spec.template: expected map, got &{[]}"),
        (
            json!({"template": {"spec": {"hostname": 5, "containers": {"a": 1}}}}),
            "errors:\n  .spec.template.spec.containers: expected list, got &{map[a:1]}\n  \
             .spec.template.spec.hostname: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            json!({"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}}),
            ".spec.template.spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            json!({"template": {"spec": {"containers": [1]}}}),
            ".spec.template.spec.containers: element 0: associative list with keys may \
             not have non-map elements",
        ),
        (
            json!({"template": {"metadata": {"finalizers": [null]}}}),
            ".spec.template.metadata.finalizers: element 0: associative list without \
             keys has an element that's an explicit null",
        ),
    ] {
        let status = run(None, &deployment(spec), "m", false).unwrap_err();
        let want = format!(
            "failed to create typed patch object (n/d; apps/v1, Kind=Deployment): {reason}"
        );
        assert_eq!((status.code, status.message), (500, want));
    }
}

#[test]
fn an_item_without_any_of_its_keys_is_refused() {
    let item = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let list = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]});
    let shape = custom(
        &json!({"type": "object", "properties": {"list": list}}),
        std::sync::Arc::new(Shape::Any),
    );
    let applied = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "list": [{}]});
    let status = apply(None, &applied, &shape, "m", "", false, "v1", NOW).unwrap_err();
    assert_eq!(
        status.message,
        "failed to create typed patch object (/x; /v1, Kind=X): .list: element 0: \
         associative list with keys has an element that omits all key fields [\"a\"] \
         (and doesn't have default values for any key fields)"
    );
}

/// A live object that kubectl has applied client-side.
fn client_side(spec: Value) -> Value {
    let mut object = deployment(spec);
    let last = object.to_string();
    object["metadata"]["annotations"] = json!({LAST_APPLIED: last});
    updated(None, object, "kubectl-client-side-apply")
}

#[test]
fn kubectl_takes_over_from_client_side_apply_without_a_conflict() {
    let live = client_side(json!({"replicas": 1}));
    let wanted = deployment(json!({"replicas": 2}));
    assert!(run(Some(&live), &wanted, "other", false).is_err());
    let new = run(Some(&live), &wanted, KUBECTL, false).unwrap();
    assert_eq!(fields(&new, KUBECTL), &json!({"f:spec": {"f:replicas": {}}}));
    let annotation = new["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(annotation).unwrap(), wanted);
}

#[test]
fn kubectl_conflicts_over_fields_changed_since_its_last_apply() {
    let live = client_side(json!({"replicas": 1, "paused": true}));
    let mut changed = live.clone();
    changed["spec"]["replicas"] = 5.into();
    let live = updated(Some(&live), changed, "u");
    let wanted = deployment(json!({"replicas": 2, "paused": false}));
    let status = run(Some(&live), &wanted, KUBECTL, false).unwrap_err();
    assert_eq!(
        status.message,
        "Apply failed with 1 conflict: conflict with \"u\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn what_one_owner_empties_stays_another_owners() {
    let labels = |labels: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "labels": labels}});
    let first = run(None, &labels(json!({"a": "b"})), "m1", false).unwrap();
    let second = run(Some(&first), &labels(json!({})), "m2", false).unwrap();
    let third = run(Some(&second), &deployment(json!({})), "m1", false).unwrap();
    assert_eq!(third["metadata"].get("labels"), None);
    assert_eq!(fields(&third, "m2"), &json!({"f:metadata": {"f:labels": {}}}));
}

#[test]
fn a_list_that_one_owner_empties_stays_another_owners() {
    let widget = |spec: Value| json!({"apiVersion": "x.y/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
    let mut live = run_widget(None, &widget(json!({"set": ["a"], "text": "x"})), "m", THEN);
    let mut other = live["metadata"]["managedFields"][0].clone();
    other["manager"] = "other".into();
    other["fieldsV1"] = json!({"f:spec": {"f:set": {}}});
    live["metadata"]["managedFields"].as_array_mut().unwrap().push(other);
    let new = run_widget(Some(&live), &widget(json!({"text": "x"})), "m", NOW);
    assert_eq!(new["spec"], json!({"set": [], "text": "x"}));
    assert_eq!(fields(&new, "other"), &json!({"f:spec": {"f:set": {}}}));
}

/// Every way in which fields merge, in one small kind.
fn widget() -> Shape {
    let text = json!({"type": "string"});
    let item = json!({"type": "object", "properties": {
        "name": text, "protocol": {"type": "string", "default": "TCP"}, "value": text,
        "inner": {"type": "object", "properties": {"a": text, "b": text}},
    }});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "text": text,
        "map": {"type": "object", "additionalProperties": text},
        "whole": {"type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic"},
        "list": {"type": "array", "items": text},
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "items": {"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "protocol"]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    custom(&schema, builtin("meta.k8s.io", "v1", "ObjectMeta").unwrap())
}

fn some_of<S: Strategy<Value = Value> + 'static>(
    fields: Vec<(&'static str, S)>,
) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| {
            prop::option::of(value.prop_map(move |value| (name.to_owned(), value)))
        })
        .collect();
    fields.prop_map(|fields| fields.into_iter().flatten().collect()).boxed()
}

/// Removes empty lists of named items: they have no owner, so no apply removes them.
fn configuration() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["x", "y"]).prop_map(Value::from).boxed();
    let map = || some_of(vec![("a", text()), ("b", text()), ("c", text())]);
    let list = || {
        prop::collection::btree_set(prop::sample::select(vec!["x", "y", "z"]), 1..3)
            .prop_map(|set| json!(set))
            .boxed()
    };
    let names = prop::sample::subsequence(
        vec![("a", None), ("a", Some("UDP")), ("b", Some("TCP")), ("c", None)],
        1..4,
    )
    .prop_shuffle();
    let rest = prop::collection::vec(
        some_of(vec![("value", text()), ("inner", map_of(text(), &["a", "b"]))]),
        4,
    );
    let items = (names, rest).prop_map(|(names, rest)| {
        let item = |((name, protocol), mut item): ((&str, Option<&str>), Value)| {
            item["name"] = name.into();
            if let Some(protocol) = protocol {
                item["protocol"] = protocol.into();
            }
            item
        };
        names.into_iter().zip(rest).map(item).collect::<Value>()
    });
    let free = some_of(vec![("a", text()), ("b", map()), ("c", list())]);
    let spec = some_of(vec![
        ("text", text()),
        ("map", map()),
        ("whole", map()),
        ("list", list()),
        ("set", list()),
        ("items", items.boxed()),
        ("free", free),
    ]);
    spec.prop_map(|spec| json!({"apiVersion": "x.y/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}))
}

fn map_of(value: BoxedStrategy<Value>, names: &[&'static str]) -> BoxedStrategy<Value> {
    some_of(names.iter().map(|name| (*name, value.clone())).collect())
}

fn run_widget(live: Option<&Value>, applied: &Value, manager: &str, now: &str) -> Value {
    apply(live, applied, &widget(), manager, "", true, "x.y/v1", now).unwrap()
}

proptest! {
    #[test]
    fn the_same_manager_can_apply_the_same_again(other in configuration(), mine in configuration()) {
        let live = run_widget(None, &other, "m2", THEN);
        let once = run_widget(Some(&live), &mine, "m1", THEN);
        let twice = apply(Some(&once), &mine, &widget(), "m1", "", false, "x.y/v1", NOW);
        prop_assert_eq!(twice, Ok(once));
    }

    #[test]
    fn a_manager_that_leaves_takes_its_own_and_nothing_else(mine in configuration(), others in configuration()) {
        let nothing = json!({"apiVersion": "x.y/v1", "kind": "Widget", "metadata": {"name": "w"}});
        let first = run_widget(None, &mine, "m1", THEN);
        let second = run_widget(Some(&first), &others, "m2", THEN);
        let left = run_widget(Some(&second), &nothing, "m1", NOW);

        let shape = widget();
        let mut with_others = left.clone();
        combine::merge(&mut with_others, &others, &shape);
        prop_assert_eq!(&with_others, &left, "all of m2 stays");
        let mut fields = FieldSet::of(&left, &shape);
        fields.subtract(&FieldSet::of(&others, &shape).with_parents(&shape));
        fields.strip_meta();
        prop_assert_eq!(fields.paths(), Vec::<String>::new(), "nothing of m1 alone remains");
        prop_assert!(left["metadata"]["managedFields"].as_array().into_iter().flatten().all(|entry| entry["manager"] == "m2"));
    }

    #[test]
    fn what_is_applied_is_there_whoever_was_there_before(before in configuration(), mine in configuration()) {
        let live = run_widget(None, &before, "m2", THEN);
        let new = run_widget(Some(&live), &mine, "m1", THEN);
        let mut again = new.clone();
        combine::merge(&mut again, &mine, &widget());
        prop_assert_eq!(again, new);
    }
}
