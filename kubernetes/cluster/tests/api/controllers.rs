//! What controllers do of their own accord: accounts, namespaces that end, pods for Deployments. No
//! node is needed for any of it.

use berth_testkit::until_so;
use serde_json::{Value, json};

use crate::bad_input::{but, config_map, deployment, pod};
use crate::namespace::Namespace;
use crate::request::{delete, get, patch, post};
use crate::target::{Capability, target};

/// The objects of a collection once there are so many.
fn some(path: &str, count: usize) -> Vec<Value> {
    let mut found = Vec::new();
    until_so(&format!("{count} in {path}"), || {
        let list = get(path).send().expect(200);
        found = list["items"].as_array().cloned().unwrap_or_default();
        found.retain(|item| item["metadata"]["deletionTimestamp"].is_null());
        found.len() == count
    });
    found
}

fn gone(path: &str) {
    until_so(&format!("{path} is gone"), || get(path).send().code == 404);
}

fn merge(path: &str, body: &Value) -> Value {
    patch(path).of_type("merge", body).send().expect(200)
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn controller(owner: &Value, version: &str, kind: &str) -> Value {
    let metadata = &owner["metadata"];
    json!([{
        "apiVersion": version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// A Deployment of two pods that stay where they are: no scheduler takes them.
fn web() -> Value {
    let web = but(&deployment("web"), "/spec/replicas", json!(2));
    but(&web, "/spec/template/spec/schedulerName", json!("nobody"))
}

#[test]
fn a_namespace_gets_its_default_account_back() {
    if !target().has(Capability::Controllers) {
        return;
    }
    let namespace = Namespace::new();
    let path = namespace.core("serviceaccounts/default");
    let first = delete(&path).send().expect(200);
    until_so("there is another", || {
        let account = get(&path).send();
        account.code == 200 && account.expect(200)["metadata"]["uid"] != first["details"]["uid"]
    });
}

#[test]
fn a_namespace_that_ends_says_what_it_waits_for() {
    if !target().has(Capability::Controllers) {
        return;
    }
    let namespace = Namespace::new();
    let held = but(&config_map("held"), "/metadata/finalizers", json!(["example.com/hold"]));
    namespace.have(&namespace.core("configmaps"), &held);
    let path = format!("/api/v1/namespaces/{}", namespace.name);
    delete(&path).send().expect(200);
    let mut conditions = Vec::new();
    until_so("it says what is left", || {
        let found = get(&path).send().expect(200);
        conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        // What else is in every namespace takes a moment to go.
        let only = "Some resources are remaining: configmaps. has 1 resource instances";
        conditions.iter().any(|condition| condition["message"] == only)
    });
    let said: Vec<[&str; 3]> = conditions
        .iter()
        .map(|condition| {
            ["type", "status", "reason"].map(|field| condition[field].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        said,
        [
            ["NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered"],
            [
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions"
            ],
            ["NamespaceDeletionContentFailure", "False", "ContentDeleted"],
            ["NamespaceContentRemaining", "True", "SomeResourcesRemain"],
            ["NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain"],
        ]
    );
    assert_eq!(
        conditions[4]["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 \
         resource instances"
    );
    merge(
        &namespace.core("configmaps/held"),
        &json!({"metadata": {"finalizers": null}}),
    );
    gone(&path);
}

#[test]
fn a_deployment_owns_its_set_and_the_set_its_pods() {
    if !target().has(Capability::Controllers) {
        return;
    }
    let namespace = Namespace::new();
    let made = namespace.have(&namespace.group("apps/v1", "deployments"), &web());
    let pods = some(&namespace.core("pods"), 2);
    let set = some(&namespace.group("apps/v1", "replicasets"), 1).remove(0);
    assert_eq!(
        set["metadata"]["ownerReferences"],
        controller(&made, "apps/v1", "Deployment")
    );
    let annotations = json!({
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
    });
    assert_eq!(set["metadata"]["annotations"], annotations);
    let hash = &set["metadata"]["labels"]["pod-template-hash"];
    assert_eq!(name(&set), format!("web-{}", hash.as_str().unwrap()));
    let labels = json!({"app": "web", "pod-template-hash": hash});
    assert_eq!(set["spec"]["selector"]["matchLabels"], labels);
    for pod in &pods {
        assert_eq!(
            pod["metadata"]["ownerReferences"],
            controller(&set, "apps/v1", "ReplicaSet")
        );
        assert_eq!(pod["metadata"]["labels"], labels);
        assert!(name(pod).starts_with(&format!("{}-", name(&set))), "{pod}");
    }
    until_so("the Deployment counts them", || {
        let status =
            get(namespace.group("apps/v1", "deployments/web")).send().expect(200)["status"].clone();
        let counts = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "unavailableReplicas",
        ];
        counts.map(|count| status[count].as_i64()) == [Some(1), Some(2), Some(2), Some(2)]
            && status["terminatingReplicas"] == 0
    });
}

#[test]
fn a_pod_that_no_longer_fits_its_set_is_let_go_and_replaced() {
    if !target().has(Capability::Controllers) {
        return;
    }
    let namespace = Namespace::new();
    namespace.have(&namespace.group("apps/v1", "deployments"), &web());
    let pods = namespace.core("pods");
    let stray = some(&pods, 2).remove(0);
    let path = format!("{pods}/{}", name(&stray));
    merge(&path, &json!({"metadata": {"labels": {"app": "other"}}}));
    some(&format!("{pods}?labelSelector=app%3Dweb"), 2);
    until_so("nobody owns it", || {
        get(&path).send().expect(200)["metadata"]
            .get("ownerReferences")
            .is_none()
    });
    merge(&path, &json!({"metadata": {"labels": {"app": "web"}}}));
    // It fits again, and one of the three is too many.
    until_so("two are left, and all are owned", || {
        let left = get(&pods).send().expect(200)["items"].clone();
        let left = left.as_array().unwrap();
        left.len() == 2 && left.iter().all(|pod| pod["metadata"]["ownerReferences"].is_array())
    });
}

#[test]
fn a_foreground_deletion_removes_the_deployment_after_its_pods() {
    if !target().has(Capability::Controllers) {
        return;
    }
    let namespace = Namespace::new();
    let path = namespace.group("apps/v1", "deployments/web");
    namespace.have(&namespace.group("apps/v1", "deployments"), &web());
    let pods = namespace.core("pods");
    let held = some(&pods, 2).remove(0);
    let held = format!("{pods}/{}", name(&held));
    merge(&held, &json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    // Once a pod without an owner is gone, the collector knows of all that were there before it.
    let nobody = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000000"});
    post(&pods)
        .json(&but(&pod("stray"), "/metadata/ownerReferences", json!([nobody])))
        .send()
        .expect(201);
    gone(&format!("{pods}/stray"));

    delete(&path).query("propagationPolicy=Foreground").send().expect(200);
    some(&pods, 0);
    let sets = namespace.group("apps/v1", "replicasets");
    let sets = get(&sets).send().expect(200)["items"].clone();
    for waiting in [&sets[0], &get(&path).send().expect(200)] {
        assert_eq!(
            waiting["metadata"]["finalizers"],
            json!(["foregroundDeletion"]),
            "{waiting}"
        );
    }
    merge(&held, &json!({"metadata": {"finalizers": null}}));
    gone(&path);
    assert_eq!(get(&held).send().code, 404);
}
