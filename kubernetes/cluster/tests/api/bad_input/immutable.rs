//! What can't be changed once it is there.

use serde_json::{Value, json};

use super::{Desk, but, config_map, deployment, pod};
use crate::namespace::unique;
use crate::request::{patch, put};

const INVALID: &str = "FieldValueInvalid";
const FORBIDDEN: &str = "FieldValueForbidden";

fn merge(desk: &Desk, what: &str, path: &str, body: &Value, causes: &[(&str, &str)]) {
    desk.refuses(what, patch(path).of_type("merge", body), 422, "Invalid", causes);
}

#[test]
fn a_pods_spec_stays_but_for_its_image() {
    let desk = Desk::new();
    desk.have(&desk.core("pods"), &pod("a"));
    let path = desk.core("pods/a");
    for (what, spec) in [
        ("hostname", json!({"hostname": "other"})),
        ("node", json!({"nodeName": "other"})),
        ("restartPolicy", json!({"restartPolicy": "Never"})),
        (
            "command",
            json!({"containers": [{"name": "c", "image": "x", "command": ["y"]}]}),
        ),
    ] {
        merge(&desk, what, &path, &json!({"spec": spec}), &[(FORBIDDEN, "spec")]);
    }
    let more =
        json!({"spec": {"containers": [{"name": "c", "image": "x"}, {"name": "d", "image": "x"}]}});
    merge(
        &desk,
        "one more container",
        &path,
        &more,
        &[(FORBIDDEN, "spec.containers")],
    );
    merge(
        &desk,
        "grace",
        &path,
        &json!({"spec": {"terminationGracePeriodSeconds": 5}}),
        &[(FORBIDDEN, "spec")],
    );
    patch(&path)
        .of_type("merge", &json!({"spec": {"activeDeadlineSeconds": 5}}))
        .send()
        .expect(200);
    let later = json!({"spec": {"activeDeadlineSeconds": 9}});
    merge(
        &desk,
        "a later deadline",
        &path,
        &later,
        &[(INVALID, "spec.activeDeadlineSeconds")],
    );
    // What every pod tolerates comes back.
    let without = patch(&path)
        .of_type("merge", &json!({"spec": {"tolerations": []}}))
        .send()
        .expect(200);
    assert_eq!(without["spec"]["tolerations"].as_array().unwrap().len(), 2);
    let image = json!({"spec": {"containers": [{"name": "c", "image": "y"}]}});
    let changed = patch(&path).of_type("strategic", &image).send().expect(200);
    assert_eq!(changed["spec"]["containers"][0]["image"], "y");
}

#[test]
fn a_deployments_selector_stays() {
    let desk = Desk::new();
    desk.have(&desk.group("apps/v1", "deployments"), &deployment("web"));
    let path = desk.group("apps/v1", "deployments/web");
    let body = json!({"spec": {
        "selector": {"matchLabels": {"app": "other"}},
        "template": {"metadata": {"labels": {"app": "other"}}},
    }});
    merge(&desk, "selector", &path, &body, &[(INVALID, "spec.selector")]);
    let body = json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}});
    let causes = [(INVALID, "spec.selector"), (INVALID, "spec.template.metadata.labels")];
    merge(&desk, "selector alone", &path, &body, &causes);
}

#[test]
fn a_nodes_pod_cidrs_stay() {
    let desk = Desk::new();
    let name = unique("node");
    let path = format!("/api/v1/nodes/{name}");
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"unschedulable": true, "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"], "providerID": "a://b"},
    });
    desk.have("/api/v1/nodes", &node);
    desk.with(&path);
    for (what, spec) in [
        (
            "another",
            json!({"podCIDR": "10.2.0.0/24", "podCIDRs": ["10.2.0.0/24"]}),
        ),
        ("one more", json!({"podCIDRs": ["10.1.0.0/24", "fd00::/64"]})),
        ("none", json!({"podCIDR": null, "podCIDRs": null})),
    ] {
        merge(
            &desk,
            what,
            &path,
            &json!({"spec": spec}),
            &[(FORBIDDEN, "spec.podCIDRs")],
        );
    }
    merge(
        &desk,
        "providerID",
        &path,
        &json!({"spec": {"providerID": "c://d"}}),
        &[(FORBIDDEN, "spec.providerID")],
    );
}

#[test]
fn a_secrets_type_stays() {
    let desk = Desk::new();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": "example.com/a"});
    desk.have(&desk.core("secrets"), &secret);
    merge(
        &desk,
        "type",
        &desk.core("secrets/a"),
        &json!({"type": "example.com/b"}),
        &[(INVALID, "type")],
    );
}

#[test]
fn immutable_data_stays() {
    let desk = Desk::new();
    let map = but(&config_map("a"), "/immutable", json!(true));
    desk.have(&desk.core("configmaps"), &map);
    let path = desk.core("configmaps/a");
    merge(
        &desk,
        "data",
        &path,
        &json!({"data": {"a": "2"}}),
        &[(FORBIDDEN, "data")],
    );
    merge(
        &desk,
        "more data",
        &path,
        &json!({"data": {"b": "2"}}),
        &[(FORBIDDEN, "data")],
    );
    merge(
        &desk,
        "binaryData",
        &path,
        &json!({"binaryData": {"b": "eA=="}}),
        &[(FORBIDDEN, "binaryData")],
    );
    merge(
        &desk,
        "immutable",
        &path,
        &json!({"immutable": false}),
        &[(FORBIDDEN, "immutable")],
    );
    patch(&path)
        .of_type("merge", &json!({"metadata": {"labels": {"a": "b"}}}))
        .send()
        .expect(200);

    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "immutable": true});
    desk.have(&desk.core("secrets"), &secret);
    let path = desk.core("secrets/a");
    merge(
        &desk,
        "secret",
        &path,
        &json!({"data": {"a": "eA=="}}),
        &[(FORBIDDEN, "data")],
    );
}

#[test]
fn a_bindings_role_stays() {
    let desk = Desk::new();
    let role =
        |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "a"},
        "roleRef": role("r"),
    });
    desk.have(&desk.group("rbac.authorization.k8s.io/v1", "rolebindings"), &binding);
    let path = desk.group("rbac.authorization.k8s.io/v1", "rolebindings/a");
    merge(
        &desk,
        "roleRef",
        &path,
        &json!({"roleRef": role("s")}),
        &[(INVALID, "roleRef")],
    );
}

#[test]
fn clients_cannot_change_metadata_that_the_server_sets() {
    let desk = Desk::new();
    let made = desk.have(&desk.core("configmaps"), &config_map("a"));
    let path = desk.core("configmaps/a");
    let mut sent = but(&made, "/metadata/creationTimestamp", json!("2001-01-01T00:00:00Z"));
    sent["metadata"]["generation"] = json!(99);
    let kept = put(&path).json(&sent).send().expect(200);
    assert_eq!(
        kept["metadata"]["creationTimestamp"],
        made["metadata"]["creationTimestamp"]
    );
    assert_eq!(kept["metadata"].get("generation"), None);
    let gone = json!({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}});
    merge(
        &desk,
        "deletion",
        &path,
        &gone,
        &[(INVALID, "metadata.deletionTimestamp")],
    );
}
