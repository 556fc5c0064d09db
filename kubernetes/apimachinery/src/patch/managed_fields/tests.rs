use serde_json::json;

use super::*;
use crate::shape::builtin;

const THEN: &str = "2024-01-01T00:00:00Z";
const NOW: &str = "2024-01-01T00:00:09Z";

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "uid": "u"}, "data": data})
}

/// The object as it is after `manager` has written it.
fn write(
    old: Option<&Value>,
    mut new: Value,
    manager: &str,
    subresource: &str,
    now: &str,
) -> Value {
    let shape = builtin("", "v1", "ConfigMap").unwrap();
    track_update(old, &mut new, &shape, manager, subresource, "v1", now);
    new
}

/// The fields below `data` that each manager owns.
fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let name = |entry: &Value| entry["manager"].as_str().unwrap().to_owned();
    entries
        .iter()
        .map(|entry| (name(entry), entry["fieldsV1"]["f:data"].clone()))
        .collect()
}

fn with_managed(mut object: Value, managed: Value) -> Value {
    object["metadata"]["managedFields"] = managed;
    object
}

fn live() -> Value {
    let created = write(None, config_map(json!({"a": "1"})), "m1", "", THEN);
    write(Some(&created), config_map(json!({"a": "1", "b": "2"})), "m2", "", THEN)
}

#[test]
fn who_creates_an_object_owns_what_it_has() {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "creationTimestamp": THEN, "labels": {"run": "p"}},
        "spec": {
            "containers": [{"name": "c", "image": "x", "imagePullPolicy": "Always", "resources": {}}],
            "restartPolicy": "Always", "securityContext": {}, "nodeSelector": {"a": "b"},
        },
        "status": {},
    });
    let mut new = pod.clone();
    track_update(
        None,
        &mut new,
        &builtin("", "v1", "Pod").unwrap(),
        "kubectl-run",
        "",
        "v1",
        NOW,
    );
    assert_eq!(
        take_managed_fields(&mut new),
        json!([{
            "manager": "kubectl-run", "operation": "Update", "apiVersion": "v1", "time": NOW, "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:run": {}}},
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {}}},
                    "f:nodeSelector": {}, "f:restartPolicy": {}, "f:securityContext": {},
                },
            },
        }])
    );
    assert_eq!(new, pod);
}

#[test]
fn a_custom_resource_appears_with_its_spec() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}});
    let shape = crate::shape::custom(&schema, builtin("meta.k8s.io", "v1", "ObjectMeta").unwrap());
    let mut new =
        json!({"apiVersion": "x.y/v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"a": "b"}});
    track_update(None, &mut new, &shape, "m", "", "x.y/v1", NOW);
    assert_eq!(
        take_managed_fields(&mut new)[0]["fieldsV1"],
        json!({"f:spec": {".": {}, "f:a": {}}})
    );
}

#[test]
fn what_is_changed_changes_hands() {
    let new = write(Some(&live()), config_map(json!({"a": "9", "b": "2"})), "m2", "", NOW);
    assert_eq!(owners(&new), json!({"m1": {}, "m2": {"f:a": {}, "f:b": {}}}));
}

#[test]
fn what_is_removed_is_nobodys_and_who_owns_nothing_has_no_entry() {
    let new = write(Some(&live()), config_map(json!({"a": "1"})), "m3", "", NOW);
    assert_eq!(owners(&new), json!({"m1": {".": {}, "f:a": {}}}));
    let mut bare = config_map(json!({}));
    bare.as_object_mut().unwrap().remove("data");
    assert_eq!(write(Some(&live()), bare.clone(), "m3", "", NOW), bare);
}

#[test]
fn a_write_that_changes_nothing_changes_no_entry() {
    let live = live();
    assert_eq!(write(Some(&live), live.clone(), "m2", "", NOW), live);
    assert_eq!(write(Some(&live), live.clone(), "m3", "", NOW), live);
}

#[test]
fn only_who_writes_gets_a_new_time() {
    let new = write(Some(&live()), config_map(json!({"a": "1", "b": "3"})), "m2", "", NOW);
    let times: Vec<&Value> = new["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["time"])
        .collect();
    assert_eq!(times, [THEN, NOW]);
}

#[test]
fn the_same_manager_through_another_door_has_another_entry() {
    let new = write(
        Some(&live()),
        config_map(json!({"a": "9", "b": "2"})),
        "m2",
        "status",
        NOW,
    );
    let entry = &new["metadata"]["managedFields"][2];
    assert_eq!(
        (&entry["manager"], &entry["subresource"]),
        (&json!("m2"), &json!("status"))
    );
    assert_eq!(entry["fieldsV1"], json!({"f:data": {"f:a": {}}}));
}

#[test]
fn a_manager_without_a_name_is_unknown() {
    let new = write(None, config_map(json!({"a": "1"})), "", "", NOW);
    assert_eq!(new["metadata"]["managedFields"][0]["manager"], "unknown");
}

#[test]
fn missing_or_invalid_managed_fields_keep_the_live_ones() {
    let live = live();
    for sent in [
        json!(null),
        json!([{"manager": "x"}]),
        json!([{"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"a": 1}}]),
    ] {
        let new = with_managed(live.clone(), sent.clone());
        assert_eq!(write(Some(&live), new, "m", "", NOW), live, "{sent}");
    }
}

#[test]
fn a_client_may_edit_entries() {
    let live = live();
    let mut edited = live.clone();
    edited["metadata"]["managedFields"][0]["manager"] = "renamed".into();
    assert_eq!(
        owners(&write(Some(&live), edited.clone(), "m", "", NOW))["renamed"],
        json!({".": {}, "f:a": {}})
    );
    let through_status = write(Some(&live), edited, "m", "status", NOW);
    assert_eq!(through_status, live);
}

#[test]
fn an_empty_list_or_one_empty_entry_clears_the_entries_for_good() {
    let live = live();
    for sent in [json!([]), json!([{}])] {
        let cleared = write(Some(&live), with_managed(live.clone(), sent), "m", "", NOW);
        assert_eq!(owners(&cleared), json!({}));
        let next = write(Some(&cleared), config_map(json!({"z": "z"})), "m", "", NOW);
        assert_eq!(owners(&next), json!({}));
    }
}

#[test]
fn the_oldest_of_more_than_ten_managers_share_an_entry() {
    let mut data = json!({});
    let mut object = write(None, config_map(json!({"a": "1"})), "m00", "", THEN);
    for number in 1..14 {
        data = object["data"].clone();
        data[format!("k{number}")] = "x".into();
        let now = format!("2024-01-01T00:00:{number:02}Z");
        object = write(
            Some(&object),
            config_map(data.clone()),
            &format!("m{number:02}"),
            "",
            &now,
        );
    }
    let owners = owners(&object);
    assert_eq!(owners.as_object().unwrap().len(), MAX_UPDATERS);
    assert_eq!(
        owners[ANCIENT_CHANGES],
        json!({".": {}, "f:a": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}, "f:k4": {}})
    );
    assert_eq!(object["metadata"]["managedFields"][0]["time"], "2024-01-01T00:00:04Z");
    assert_eq!(object["data"], data);
}

#[test]
fn entries_come_by_operation_then_time_then_name() {
    let entry = |name: &str, operation, time: &str| Entry {
        manager: Manager::new(name, operation, "v1", ""),
        time: Some(time.to_owned()),
        fields: FieldSet::default(),
    };
    let mut managed = ManagedFields(vec![
        entry("a", Operation::Update, NOW),
        entry("c", Operation::Update, THEN),
        entry("b", Operation::Update, THEN),
        entry("z", Operation::Apply, NOW),
    ]);
    managed.sort();
    let names: Vec<&str> = managed.0.iter().map(|entry| entry.manager.name.as_str()).collect();
    assert_eq!(names, ["z", "b", "c", "a"]);
}

#[test]
fn times_come_back_when_nothing_else_has_changed() {
    let old = live();
    let mut new = old.clone();
    new["metadata"]["managedFields"][0]["time"] = NOW.into();
    let mut only_time = new.clone();
    restore_times(&old, &mut only_time);
    assert_eq!(only_time, old);
    new["data"]["a"] = "x".into();
    let mut more = new.clone();
    restore_times(&old, &mut more);
    assert_eq!(more, new);
}
