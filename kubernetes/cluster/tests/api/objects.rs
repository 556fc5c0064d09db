//! What the server makes of objects: versions, generations, defaults, marks.

use serde_json::{Value, json};

use crate::bad_input::{but, config_map, deployment, pod};
use crate::namespace::Namespace;
use crate::request::{delete, get, patch, post, put};

fn merge(path: &str, body: &Value) -> Value {
    patch(path).of_type("merge", body).send().expect(200)
}

#[test]
fn a_write_that_changes_nothing_keeps_the_version() {
    let namespace = Namespace::new();
    let made = namespace.have(&namespace.core("configmaps"), &config_map("a"));
    let path = namespace.core("configmaps/a");
    let version = &made["metadata"]["resourceVersion"];
    assert_eq!(
        merge(&path, &json!({"data": {"a": "1"}}))["metadata"]["resourceVersion"],
        *version
    );
    let updated = put(&path).json(&config_map("a")).send().expect(200);
    assert_eq!(updated["metadata"]["resourceVersion"], *version);
    assert_ne!(
        merge(&path, &json!({"data": {"a": "2"}}))["metadata"]["resourceVersion"],
        *version
    );
}

#[test]
fn the_generation_counts_changes_of_what_is_wanted() {
    let namespace = Namespace::new();
    namespace.have(
        &namespace.group("apps/v1", "replicasets"),
        &but(&deployment("a"), "/kind", json!("ReplicaSet")),
    );
    let path = namespace.group("apps/v1", "replicasets/a");
    let generation = |body: &Value| merge(&path, body)["metadata"]["generation"].clone();
    assert_eq!(generation(&json!({"metadata": {"labels": {"x": "y"}}})), 1);
    assert_eq!(generation(&json!({"spec": {"minReadySeconds": 3}})), 2);
    assert_eq!(generation(&json!({"spec": {"minReadySeconds": 3}})), 2);
    let status =
        patch(format!("{path}/status")).of_type("merge", &json!({"status": {"replicas": 0}}));
    assert_eq!(status.send().expect(200)["metadata"]["generation"], 2);
}

#[test]
fn annotations_of_a_deployment_are_wanted_too() {
    let namespace = Namespace::new();
    let deployment = but(&deployment("a"), "/spec/paused", json!(true));
    namespace.have(&namespace.group("apps/v1", "deployments"), &deployment);
    let path = namespace.group("apps/v1", "deployments/a");
    let before =
        merge(&path, &json!({"metadata": {"labels": {"x": "y"}}}))["metadata"]["generation"]
            .clone();
    let after =
        merge(&path, &json!({"metadata": {"annotations": {"x": "y"}}}))["metadata"]["generation"]
            .clone();
    assert!(after.as_i64() > before.as_i64(), "{before} {after}");
}

#[test]
fn a_binding_gives_a_pod_its_node_and_says_so() {
    let namespace = Namespace::new();
    namespace.have(&namespace.core("pods"), &pod("a"));
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "annotations": {"x": "y"}},
        "target": {"kind": "Node", "name": "berth-test-none"},
    });
    post(namespace.core("pods/a/binding")).json(&binding).send().expect(201);
    let bound = get(namespace.core("pods/a")).send().expect(200);
    assert_eq!(bound["spec"]["nodeName"], "berth-test-none");
    assert_eq!(bound["metadata"]["annotations"]["x"], "y");
    assert_eq!(bound["metadata"]["generation"], 1);
    let conditions = bound["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "PodScheduled" && c["status"] == "True"),
        "{bound}"
    );
    delete(namespace.core("pods/a"))
        .query("gracePeriodSeconds=0")
        .send()
        .expect(200);
}

#[test]
fn a_pods_first_address_stands_in_both_places() {
    let namespace = Namespace::new();
    namespace.have(&namespace.core("pods"), &pod("a"));
    let path = namespace.core("pods/a/status");
    let one = merge(&path, &json!({"status": {"podIP": "10.0.0.1"}}));
    assert_eq!(one["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
    let both =
        json!({"status": {"podIP": null, "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]}});
    let both = merge(&path, &both);
    assert_eq!(both["status"]["podIP"], "10.0.0.2");
    assert_eq!(both["status"]["podIPs"], json!([{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]));
    let differ = merge(&path, &json!({"status": {"podIP": "10.0.0.3"}}));
    assert_eq!(differ["status"]["podIPs"], json!([{"ip": "10.0.0.3"}]));
}

#[test]
fn a_repeated_delete_can_only_shorten_the_grace_period() {
    let namespace = Namespace::new();
    let bound = but(&pod("a"), "/spec/nodeName", json!("berth-test-none"));
    namespace.have(&namespace.core("pods"), &bound);
    let path = namespace.core("pods/a");
    let first = delete(&path).send().expect(200);
    assert_eq!(first["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(first["metadata"]["generation"], 2);
    let shorter = delete(&path).query("gracePeriodSeconds=5").send().expect(200);
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(shorter["metadata"]["generation"], 2);
    let longer = delete(&path).query("gracePeriodSeconds=50").send().expect(200);
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5);
    let last = delete(&path).query("gracePeriodSeconds=0").send().expect(200);
    assert_eq!(last["kind"], "Pod");
    get(&path).send().expect(404);
}

#[test]
fn an_update_makes_a_lease_that_is_not_there() {
    let namespace = Namespace::new();
    let path = namespace.group("coordination.k8s.io/v1", "leases/a");
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "a"},
        "spec": {"holderIdentity": "me"},
    });
    let made = put(&path).json(&lease).send().expect(201);
    assert_eq!(made["spec"]["holderIdentity"], "me");
    // What is there is only updated by who has seen it.
    put(&path).json(&lease).send().expect(422);
    put(&path).json(&made).send().expect(200);
}

#[test]
fn metadata_of_a_built_in_kind_can_be_set_along_with_its_status() {
    let namespace = Namespace::new();
    let deployment = but(&deployment("a"), "/metadata/labels", json!({"l": "1"}));
    namespace.have(&namespace.group("apps/v1", "deployments"), &deployment);
    let path = namespace.group("apps/v1", "deployments/a/status");
    let body = json!({"metadata": {"labels": {"l": "2"}, "annotations": {"k": "2"}}, "spec": {"replicas": 9}});
    let changed = merge(&path, &body);
    assert_eq!(changed["metadata"]["annotations"]["k"], "2");
    assert_eq!(changed["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(changed["spec"]["replicas"], 0);
    assert_eq!(changed["metadata"]["generation"], 1);
}

#[test]
fn what_is_deleted_answers_with_its_name_and_uid() {
    let namespace = Namespace::new();
    let made = namespace.have(&namespace.core("configmaps"), &config_map("a"));
    let gone = delete(namespace.core("configmaps/a")).send().expect(200);
    assert_eq!(gone["status"], "Success");
    assert_eq!(
        gone["details"],
        json!({"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]})
    );
}

#[test]
fn a_collection_is_deleted_by_selector() {
    let namespace = Namespace::new();
    let maps = namespace.core("configmaps");
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "x")] {
        namespace.have(
            &maps,
            &but(&config_map(name), "/metadata/labels", json!({"tier": tier})),
        );
    }
    let gone = delete(&maps).query("labelSelector=tier%3Dx").send().expect(200);
    assert_eq!(gone["items"].as_array().unwrap().len(), 2);
    let left = get(&maps).query("labelSelector=tier").send().expect(200);
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
}

#[test]
fn pages_of_a_list_show_one_moment() {
    let namespace = Namespace::new();
    let maps = namespace.core("configmaps");
    for name in ["a", "b", "c", "d"] {
        namespace.have(&maps, &but(&config_map(name), "/metadata/labels", json!({"mine": ""})));
    }
    let first = get(&maps).query("limit=2&labelSelector=mine").send().expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    delete(namespace.core("configmaps/c")).send().expect(200);
    let rest = get(&maps)
        .query(&format!("limit=9&labelSelector=mine&continue={token}"))
        .send()
        .expect(200);
    let names: Vec<&Value> = rest["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["metadata"]["name"])
        .collect();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(
        rest["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    let all = get(&maps).query("limit=-1&labelSelector=mine").send().expect(200);
    assert_eq!(all["items"].as_array().unwrap().len(), 3);
}

#[test]
fn a_watch_shows_who_leaves_a_selection_and_what_last_stood() {
    let namespace = Namespace::new();
    let maps = namespace.core("configmaps");
    let version = get(&maps).send().expect(200)["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let held = but(&config_map("a"), "/metadata/finalizers", json!(["example.com/hold"]));
    namespace.have(&maps, &but(&held, "/metadata/labels", json!({"x": "1"})));
    let path = namespace.core("configmaps/a");
    merge(&path, &json!({"metadata": {"labels": {"x": "2"}}}));
    merge(&path, &json!({"metadata": {"labels": {"x": "1"}}}));
    delete(&path).send().expect(200);
    merge(&path, &json!({"metadata": {"finalizers": null}}));
    let query = format!("watch=1&timeoutSeconds=1&labelSelector=x%3D1&resourceVersion={version}");
    let answer = get(&maps).query(&query).send();
    let events: Vec<Value> = answer
        .body
        .split(|b| *b == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let kinds: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    assert_eq!(kinds, ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(events[1]["object"]["metadata"]["labels"]["x"], "1");
    assert_eq!(
        events[4]["object"]["metadata"]["finalizers"],
        json!(["example.com/hold"])
    );
}
