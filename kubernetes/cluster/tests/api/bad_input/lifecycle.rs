//! Deletion, binding, eviction, scale: operations on objects that are not in the state for them.

use serde_json::json;

use super::{Desk, but, config_map, deployment, pod};
use crate::namespace::Namespace;
use crate::request::{delete, get, patch, post, put};

#[test]
fn nothing_is_created_in_a_namespace_that_is_being_deleted() {
    let desk = Desk::new();
    let going = Namespace::new();
    let held = but(&config_map("held"), "/metadata/finalizers", json!(["example.com/hold"]));
    going.have(&going.core("configmaps"), &held);
    delete(format!("/api/v1/namespaces/{}", going.name)).send().expect(200);
    let create = post(going.core("configmaps")).json(&config_map("a"));
    let status = desk.refuses(
        "create",
        create,
        403,
        "Forbidden",
        &[("NamespaceTerminating", "metadata.namespace")],
    );
    assert_eq!(status["details"]["name"], "a");
    let apply = patch(going.core("configmaps/a"))
        .query("fieldManager=m")
        .of_type("apply", &config_map("a"));
    desk.refuses(
        "apply",
        apply,
        403,
        "Forbidden",
        &[("NamespaceTerminating", "metadata.namespace")],
    );
    let held = going.core("configmaps/held");
    patch(&held)
        .of_type("merge", &json!({"metadata": {"finalizers": null}}))
        .send()
        .expect(200);
}

#[test]
fn namespaces_that_every_cluster_needs_stay() {
    let desk = Desk::new();
    for name in ["default", "kube-system", "kube-public"] {
        let path = format!("/api/v1/namespaces/{name}");
        desk.refuses(name, delete(path), 403, "Forbidden", &[]);
    }
}

#[test]
fn whoever_is_being_deleted_takes_no_new_finalizer() {
    let desk = Desk::new();
    let held = but(&config_map("a"), "/metadata/finalizers", json!(["example.com/hold"]));
    desk.have(&desk.core("configmaps"), &held);
    let path = desk.core("configmaps/a");
    delete(&path).send().expect(200);
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let request = patch(&path).of_type("merge", &more);
    desk.refuses(
        "one more",
        request,
        422,
        "Invalid",
        &[("FieldValueForbidden", "metadata.finalizers")],
    );
    patch(&path)
        .of_type("merge", &json!({"metadata": {"finalizers": null}}))
        .send()
        .expect(200);
    get(&path).send().expect(404);
}

#[test]
fn options_of_a_delete_that_mean_nothing_are_refused() {
    let desk = Desk::new();
    desk.have(&desk.core("configmaps"), &config_map("a"));
    let path = desk.core("configmaps/a");
    let options = |field: &str, value: serde_json::Value| {
        delete(&path).json(&json!({"apiVersion": "v1", "kind": "DeleteOptions", field: value}))
    };
    let policy = ("FieldValueNotSupported", "propagationPolicy");
    desk.refuses(
        "policy",
        options("propagationPolicy", json!("Sometimes")),
        422,
        "Invalid",
        &[policy],
    );
    desk.refuses(
        "policy in the query",
        delete(&path).query("propagationPolicy=Sometimes"),
        422,
        "Invalid",
        &[policy],
    );
    let dry = ("FieldValueNotSupported", "dryRun");
    desk.refuses("dryRun", options("dryRun", json!(["Maybe"])), 422, "Invalid", &[dry]);
    desk.refuses(
        "a text for seconds",
        options("gracePeriodSeconds", json!("long")),
        400,
        "BadRequest",
        &[],
    );
    desk.refuses(
        "seconds in the query",
        delete(&path).query("gracePeriodSeconds=long"),
        400,
        "BadRequest",
        &[],
    );
    desk.refuses(
        "malformed",
        delete(&path).body("application/json", "{"),
        400,
        "BadRequest",
        &[],
    );
    let both =
        delete(&path).json(&json!({"propagationPolicy": "Orphan", "orphanDependents": true}));
    desk.refuses(
        "both ways",
        both,
        422,
        "Invalid",
        &[("FieldValueInvalid", "propagationPolicy")],
    );
}

fn binding(node: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}})
}

#[test]
fn a_pod_is_bound_once() {
    let desk = Desk::new();
    desk.have(&desk.core("pods"), &pod("a"));
    let path = desk.core("pods/a/binding");
    post(&path).json(&binding("berth-test-one")).send().expect(201);
    desk.refuses(
        "to another node",
        post(&path).json(&binding("berth-test-two")),
        409,
        "Conflict",
        &[],
    );
    desk.refuses(
        "to the same node",
        post(&path).json(&binding("berth-test-one")),
        409,
        "Conflict",
        &[],
    );
    delete(desk.core("pods/a"))
        .query("gracePeriodSeconds=0")
        .send()
        .expect(200);
}

#[test]
fn a_binding_names_a_pod_and_a_node() {
    let desk = Desk::new();
    desk.have(&desk.core("pods"), &pod("a"));
    let nobody = but(&binding("n"), "/metadata/name", json!("none"));
    desk.refuses(
        "no such pod",
        post(desk.core("pods/none/binding")).json(&nobody),
        404,
        "NotFound",
        &[],
    );
    let path = desk.core("pods/a/binding");
    let nowhere = post(&path).json(&binding(""));
    desk.refuses("no node", nowhere, 500, "", &[]);
    let elsewhere = but(&binding("n"), "/target/kind", json!("House"));
    desk.refuses("not a node", post(&path).json(&elsewhere), 500, "", &[]);
}

#[test]
fn what_is_not_there_can_not_be_evicted() {
    let desk = Desk::new();
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    desk.refuses(
        "eviction",
        post(desk.core("pods/a/eviction")).json(&eviction),
        404,
        "NotFound",
        &[],
    );
    desk.have(&desk.core("pods"), &pod("a"));
    let other = but(&eviction, "/metadata/name", json!("b"));
    desk.refuses(
        "another name",
        post(desk.core("pods/a/eviction")).json(&other),
        400,
        "BadRequest",
        &[],
    );
}

#[test]
fn a_scale_below_zero_is_refused() {
    let desk = Desk::new();
    desk.have(&desk.group("apps/v1", "deployments"), &deployment("web"));
    let path = desk.group("apps/v1", "deployments/web/scale");
    let scale = get(&path).send().expect(200);
    let causes = [("FieldValueInvalid", "spec.replicas")];
    let below = put(&path).json(&but(&scale, "/spec/replicas", json!(-1)));
    desk.refuses("update", below, 422, "Invalid", &causes);
    let below = patch(&path).of_type("merge", &json!({"spec": {"replicas": -1}}));
    desk.refuses("patch", below, 422, "Invalid", &causes);
    let stale = but(&scale, "/metadata/resourceVersion", json!("1"));
    desk.refuses("stale", put(&path).json(&stale), 409, "Conflict", &[]);
    let other = but(&scale, "/metadata/name", json!("other"));
    desk.refuses("another name", put(&path).json(&other), 400, "BadRequest", &[]);
    let missing = desk.group("apps/v1", "deployments/none/scale");
    desk.refuses("missing", get(&missing), 404, "NotFound", &[]);
}
