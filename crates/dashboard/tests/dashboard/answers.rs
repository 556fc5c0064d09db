//! The dashboard's server with an API server of its own: what it answers, and to whom.

use berth_api::Subnet;
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::scene::Scene;

fn subnet(name: &str) -> Subnet {
    serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
        "metadata": {"name": name}, "spec": {"cidrs": ["10.64.0.0/24"]},
    }))
    .unwrap()
}

fn is_synced(state: &Value) -> bool {
    state["unsynced"].as_array().unwrap().is_empty()
}

#[tokio::test]
async fn the_stream_tells_what_changes_in_the_cluster() {
    let scene = Scene::start(true).await;
    scene.until(is_synced).await;
    let subnets = Api::<Subnet>::all(scene.client.clone());
    subnets.create(&PostParams::default(), &subnet("pods")).await.unwrap();
    let state = scene
        .until(|state| state["subnets"].as_array().unwrap().len() == 1)
        .await;
    assert_eq!(state["subnets"][0]["name"], "pods");
    assert_eq!(state["subnets"][0]["source"], "nodesAndPods");

    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}]},
    }))
    .unwrap();
    let pods = Api::<Pod>::default_namespaced(scene.client.clone());
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let state = scene.until(|state| state["totals"]["podsWaiting"] == 1).await;
    // The same sentence as from `berth explain pod`.
    let told = &state["waitingPods"][0]["explanation"]["sentences"][0];
    let told = told.as_str().unwrap();
    assert!(told.ends_with("its Node n1 is not there."), "{told}");

    let params = kube::api::DeleteParams::default().grace_period(0);
    pods.delete("web", &params).await.unwrap();
    scene.until(|state| state["totals"]["podsWaiting"] == 0).await;
}

#[tokio::test]
async fn a_pod_that_waits_says_for_how_long() {
    let scene = Scene::start(false).await;
    let pod = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "old", "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"nodeName": "n1", "containers": []},
    }))
    .unwrap();
    scene.dashboard.index().write().apply_pod(&pod);
    let (_, state) = scene.ask("/api/state").await;
    let told = state["waitingPods"][0]["explanation"]["sentences"][0].as_str().unwrap();
    assert!(
        told.starts_with("old waits since ") && told.contains(" days: "),
        "{told}"
    );
}

#[tokio::test]
async fn missing_kinds_are_named_and_the_rest_is_shown() {
    let scene = Scene::start(false).await;
    let state = scene.until(is_synced).await;
    let missing = state["missing"].as_array().unwrap();
    for kind in ["Subnet", "NodeNetworkConfig", "AddressBlock"] {
        assert!(missing.contains(&json!(kind)), "{state}");
    }
    assert_eq!(state["totals"]["nodes"], 0);
}

#[tokio::test]
async fn callers_by_another_name_than_loopbacks_are_refused() {
    let scene = Scene::start(false).await;
    for path in [
        "/",
        "/app.js",
        "/api/state",
        "/api/stream",
        "/api/nodes",
        "/api/latency",
    ] {
        let (status, _) = scene.request("GET", path, "evil.example").await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
    }
    let (status, page) = scene.request("GET", "/", "127.0.0.1:7480").await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("/app.js"), "{page}");
}

#[tokio::test]
async fn what_only_shows_takes_no_writes() {
    let scene = Scene::start(false).await;
    for path in ["/", "/api/state", "/api/nodes", "/api/subnets/pods/map"] {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let (status, _) = scene.request(method, path, "localhost").await;
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_bad_question_is_refused_with_the_field() {
    let scene = Scene::start(true).await;
    let subnets = Api::<Subnet>::all(scene.client.clone());
    subnets.create(&PostParams::default(), &subnet("pods")).await.unwrap();
    scene
        .until(|state| state["subnets"].as_array().unwrap().len() == 1)
        .await;
    let (status, answer) = scene.ask("/api/subnets/nobody/map").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert_eq!(answer["error"], "there is no Subnet nobody");
    for (query, word) in [
        ("from=10.1.0.0", "from: 10.1.0.0"),
        ("length=33", "length: /33"),
        ("from=web", "from"),
        ("length=x", "length"),
    ] {
        let (status, answer) = scene.ask(&format!("/api/subnets/pods/map?{query}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
        assert!(answer["error"].as_str().unwrap().contains(word), "{answer}");
    }
    let (status, map) = scene.ask("/api/subnets/pods/map?from=10.64.0.9&length=28").await;
    assert_eq!((status, &map["window"]), (StatusCode::OK, &json!("10.64.0.0/28")));
    assert_eq!(map["counts"]["free"], 15);
}
