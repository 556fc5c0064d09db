//! Deleting things, and what goes with them.

use berth_testkit::until_so;
use serde_json::json;

use super::{Kubectl, each};
use crate::namespace::Namespace;
use crate::request::get;
use crate::target::{Capability, target};

#[test]
fn delete_takes_names_labels_files_and_all() {
    each(|kubectl| {
        for name in ["a", "b", "c", "d", "e"] {
            kubectl.ok(["create", "configmap", name]);
        }
        kubectl.ok("label configmap b c tier=front");
        assert!(kubectl.ok("delete configmap a").starts_with("configmap \"a\" deleted"));
        kubectl.ok("delete configmap -l tier=front");
        assert_eq!(kubectl.ok("get configmaps d e -o name"), "configmap/d\nconfigmap/e\n");
        let text = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}"#;
        kubectl.fed(text, "delete -f -");
        let missing = kubectl.fails("delete configmap d");
        assert!(missing.contains("(NotFound)"), "{missing}");
        assert_eq!(kubectl.ok("delete configmap d --ignore-not-found"), "");
        kubectl.ok("delete configmap --all");
        assert_eq!(kubectl.ok("get configmap e --ignore-not-found"), "");
    });
}

#[test]
fn a_finalizer_holds_an_object_that_is_deleted() {
    each(|kubectl| {
        let text = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["example.com/hold"]}}"#;
        kubectl.fed(text, "create -f -");
        kubectl.ok("delete configmap a --wait=false");
        let object = kubectl.json("get configmap a");
        assert!(object["metadata"]["deletionTimestamp"].is_string(), "{object}");
        kubectl.ok([
            "patch",
            "configmap",
            "a",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ]);
        assert_eq!(kubectl.ok("get configmap a --ignore-not-found"), "");
    });
}

#[test]
fn a_pod_on_a_node_gets_time_unless_it_is_forced() {
    each(|kubectl| {
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "berth-test-none", "containers": [{"name": "c", "image": "x"}]}}"#;
        kubectl.fed(pod, "create -f -");
        kubectl.ok("delete pod p --wait=false");
        let object = kubectl.json("get pod p");
        assert_eq!(object["metadata"]["deletionGracePeriodSeconds"], 30);
        assert!(kubectl.ok("get pod p").contains("Terminating"));
        kubectl.ok("delete pod p --force --grace-period=0");
        assert_eq!(kubectl.ok("get pod p --ignore-not-found"), "");
    });
}

/// An owner, and two that it owns.
fn family(kubectl: &Kubectl) {
    kubectl.ok("create configmap owner");
    let uid = kubectl.ok("get configmap owner -o jsonpath={.metadata.uid}");
    for name in ["one", "two"] {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": true});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [owner]}});
        kubectl.fed(&object.to_string(), "create -f -");
    }
}

fn is_there(kubectl: &Kubectl, name: &str) -> bool {
    get(kubectl.core(&format!("configmaps/{name}"))).send().code == 200
}

#[test]
fn delete_in_the_background_takes_dependents_along_later() {
    if !target().has(Capability::Controllers) {
        return;
    }
    each(|kubectl| {
        family(kubectl);
        kubectl.ok("delete configmap owner --cascade=background");
        assert!(!is_there(kubectl, "owner"));
        until_so("the dependents are gone", || {
            !is_there(kubectl, "one") && !is_there(kubectl, "two")
        });
    });
}

#[test]
fn delete_in_the_foreground_waits_for_dependents() {
    if !target().has(Capability::Controllers) {
        return;
    }
    each(|kubectl| {
        family(kubectl);
        let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
        kubectl.ok(["patch", "configmap", "one", "--type=merge", "-p", hold]);
        kubectl.ok("delete configmap owner --cascade=foreground --wait=false");
        until_so("what is not held is gone", || !is_there(kubectl, "two"));
        let owner = kubectl.json("get configmap owner");
        assert_eq!(owner["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        kubectl.ok([
            "patch",
            "configmap",
            "one",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ]);
        kubectl.ok("wait --for=delete configmap/owner --timeout=300s");
        assert!(!is_there(kubectl, "one"));
    });
}

#[test]
fn delete_with_orphan_leaves_dependents_without_an_owner() {
    if !target().has(Capability::Controllers) {
        return;
    }
    each(|kubectl| {
        family(kubectl);
        kubectl.ok("delete configmap owner --cascade=orphan");
        assert!(!is_there(kubectl, "owner"));
        for name in ["one", "two"] {
            let object = kubectl.json(&format!("get configmap {name}"));
            assert_eq!(object["metadata"].get("ownerReferences"), None);
        }
    });
}

#[test]
fn a_namespace_takes_its_content_along() {
    if !target().has(Capability::Controllers) {
        return;
    }
    each(|kubectl| {
        let going = Namespace::new();
        kubectl.ok(["create", "configmap", "a", "-n", &going.name]);
        kubectl.ok(["create", "deployment", "web", "--image=x", "-n", &going.name]);
        kubectl.ok(["delete", "namespace", &going.name, "--timeout=300s"]);
        assert_eq!(kubectl.ok(["get", "namespace", &going.name, "--ignore-not-found"]), "");
        assert_eq!(get(going.core("configmaps/a")).send().code, 404);
        assert_eq!(get(going.group("apps/v1", "deployments/web")).send().code, 404);
    });
}
