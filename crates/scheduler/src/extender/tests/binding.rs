//! Bind, on the embedded API server.

use berth_apiserver::{Options, Server};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};

use super::*;
use crate::accounting::Refusal;

struct Site {
    stage: Stage,
    pods: Api<Pod>,
    server: Server,
}

impl Site {
    async fn open(nodes: &[(&str, u64)]) -> Self {
        let server = Server::open(Options::default()).await.unwrap();
        let client = server.client();
        let stage = Stage::new(client.clone());
        let api = Api::<Node>::all(client.clone());
        for (name, pods) in nodes {
            let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            api.create(&PostParams::default(), &node).await.unwrap();
            stage.node(name, *pods);
        }
        Self {
            stage,
            pods: Api::default_namespaced(client),
            server,
        }
    }

    /// Returns the UID of the pod.
    async fn create(&self, name: &str, spec: Value) -> String {
        let mut whole = json!({"containers": [{"name": "c", "image": "i"}]});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let pod =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": whole})).unwrap();
        let created = self.pods.create(&PostParams::default(), &pod).await.unwrap();
        created.uid().unwrap()
    }

    async fn bind(&self, name: &str, uid: &str, node: &str) -> String {
        let args = json!({"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": node});
        let answer = self.stage.ask("/bind", args).await;
        answer["Error"].as_str().unwrap().to_owned()
    }

    async fn node_of(&self, name: &str) -> Option<String> {
        self.pods.get(name).await.unwrap().spec.unwrap().node_name
    }

    fn free(&self, node: &str) -> Result<u64, Refusal> {
        self.stage.books.lock().free(node, "nobody")
    }
}

#[tokio::test]
async fn the_last_ip_goes_to_one_pod() {
    let site = Site::open(&[("n", 1)]).await;
    let a = site.create("a", json!({})).await;
    let b = site.create("b", json!({})).await;
    let (one, other) = tokio::join!(site.bind("a", &a, "n"), site.bind("b", &b, "n"));
    let errors: Vec<&String> =
        [&one, &other].into_iter().filter(|error| !error.is_empty()).collect();
    assert_eq!(errors, ["no pod IP left in the node's podCIDR"]);
    let bound = [site.node_of("a").await, site.node_of("b").await];
    assert_eq!(bound.iter().flatten().collect::<Vec<_>>(), ["n"]);
    site.server.stop().await;
}

#[tokio::test]
async fn a_binding_can_be_repeated() {
    let site = Site::open(&[("n", 2), ("m", 2)]).await;
    let a = site.create("a", json!({})).await;
    assert_eq!(site.bind("a", &a, "n").await, "");
    // The watch has not sent the bound pod yet.
    assert_eq!(site.bind("a", &a, "n").await, "");
    assert_eq!(site.free("n"), Ok(1));
    let elsewhere = site.bind("a", &a, "m").await;
    assert!(elsewhere.contains("node n already"), "{elsewhere}");
    assert_eq!(site.free("m"), Ok(2));
    site.server.stop().await;
}

#[tokio::test]
async fn a_pod_of_another_uid_is_not_bound() {
    let site = Site::open(&[("n", 1)]).await;
    let old = site.create("a", json!({})).await;
    site.pods.delete("a", &DeleteParams::default()).await.unwrap();
    let new = site.create("a", json!({})).await;
    assert_ne!(old, new);
    let error = site.bind("a", &old, "n").await;
    assert!(error.contains("there is no pod default/a with the UID"), "{error}");
    // As if the watch had not sent the deletion of the old one yet.
    let facts = PodFacts {
        needs_ip: true,
        ..PodFacts::default()
    };
    site.stage.books.change(|accounting| accounting.apply_pod(&old, &facts));
    let error = site.bind("a", &old, "n").await;
    assert!(error.starts_with("the API server refuses the binding"), "{error}");
    assert_eq!((site.node_of("a").await, site.free("n")), (None, Ok(1)));
    assert!(site.bind("nobody", "nobody", "n").await.contains("there is no pod"));
    site.server.stop().await;
}

#[tokio::test]
async fn a_pod_on_the_host_is_bound_to_a_full_node() {
    let site = Site::open(&[("n", 0)]).await;
    let a = site.create("a", json!({"hostNetwork": true})).await;
    assert_eq!(site.bind("a", &a, "n").await, "");
    assert_eq!(site.node_of("a").await.as_deref(), Some("n"));
    site.server.stop().await;
}

#[tokio::test]
async fn a_pod_that_was_bound_by_others_gives_its_reservation_back() {
    let site = Site::open(&[("n", 1), ("m", 1)]).await;
    let a = site.create("a", json!({"nodeName": "m"})).await;
    let error = site.bind("a", &a, "n").await;
    assert!(error.starts_with("the API server refuses the binding"), "{error}");
    assert_eq!(site.free("n"), Ok(1));
    site.server.stop().await;
}

#[tokio::test]
async fn a_binding_to_an_unknown_node_is_refused() {
    let site = Site::open(&[]).await;
    let a = site.create("a", json!({})).await;
    assert_eq!(site.bind("a", &a, "nobody").await, "the node is not known yet");
    assert_eq!(site.node_of("a").await, None);
    site.server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_binding_counts_until_the_watch_settles_it() {
    let stage = Stage::alone();
    stage.node("n", 1);
    let facts = PodFacts {
        needs_ip: true,
        ..PodFacts::default()
    };
    stage.books.change(|accounting| accounting.apply_pod("a", &facts));
    let args = json!({"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "n"});
    let answer = stage.ask("/bind", args).await;
    assert!(answer["Error"].as_str().unwrap().contains("did not answer"), "{answer}");
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    // The API server does not answer the read of the pod, either.
    assert_eq!(stage.books.lock().free("n", "b"), Err(Refusal::PodCidrFull));
    // The watch sends the deletion.
    stage.books.change(|accounting| accounting.delete_pod("a"));
    assert_eq!(stage.books.lock().free("n", "b"), Ok(1));
}
