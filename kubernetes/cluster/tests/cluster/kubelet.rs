//! The virtual kubelets with a network: who is attached when, and what a pod says meanwhile.

mod switch;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_apiserver::{Options as ServerOptions, Server};
use berth_cluster::{Cluster, Fleet, Options};
use berth_kit::clock::Clock;
use berth_kit::metrics::Metrics;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use switch::Switch;

struct Running {
    server: Server,
    cluster: Cluster,
    token: CancellationToken,
    pods: Api<Pod>,
}

async fn start_on(server: Server, nodes: u32, network: &Arc<Switch>) -> Running {
    let token = CancellationToken::new();
    let options = Options {
        fleet: Fleet::new(nodes).unwrap(),
        clock: Clock::System,
        metrics: Metrics::new("test"),
        seed: None,
        network: Some(network.clone()),
        limit: None,
    };
    let client = server.client();
    let cluster = Cluster::start(client.clone(), options, token.clone()).await.unwrap();
    Running {
        server,
        cluster,
        token,
        pods: Api::namespaced(client, "default"),
    }
}

async fn start(network: &Arc<Switch>) -> Running {
    let server = Server::open(ServerOptions::default()).await.unwrap();
    start_on(server, 2, network).await
}

impl Running {
    async fn create(&self, name: &str, spec: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}});
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        let pod = serde_json::from_value(pod).unwrap();
        self.pods.create(&PostParams::default(), &pod).await.unwrap()
    }

    async fn delete(&self, name: &str, params: &DeleteParams) {
        self.pods.delete(name, params).await.unwrap();
    }

    /// The pods once `enough` says that they are as wanted.
    async fn once(&self, enough: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
        loop {
            let pods = self.pods.list(&ListParams::default()).await.unwrap().items;
            if enough(&pods) {
                return pods;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn event(&self, reason: &str) -> Event {
        let events = Api::<Event>::namespaced(self.server.client(), "default");
        loop {
            let all = events.list(&ListParams::default()).await.unwrap();
            if let Some(found) = all.into_iter().find(|e| e.reason.as_deref() == Some(reason)) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn stop(self) -> Server {
        self.token.cancel();
        self.cluster.stopped().await;
        self.server
    }
}

fn runs(pod: &Pod) -> bool {
    let status = pod.status.clone().unwrap_or_default();
    let ready =
        |c: &k8s_openapi::api::core::v1::PodCondition| c.type_ == "Ready" && c.status == "True";
    status.phase.as_deref() == Some("Running") && status.conditions.iter().flatten().any(ready)
}

fn address(pod: &Pod) -> String {
    pod.status.clone().unwrap_or_default().pod_ip.unwrap_or_default()
}

#[tokio::test]
async fn every_pod_runs_with_an_address_of_its_own_and_gives_it_back() {
    let network = Switch::new();
    let cluster = start(&network).await;
    for number in 0..60 {
        cluster.create(&format!("p{number}"), json!({})).await;
    }
    let pods = cluster.once(|pods| pods.len() == 60 && pods.iter().all(runs)).await;
    let shown: BTreeSet<String> = pods.iter().map(address).collect();
    assert_eq!(shown.len(), 60);
    assert_eq!(shown, network.addresses());
    for pod in &pods {
        cluster.delete(&pod.name_any(), &DeleteParams::default()).await;
    }
    cluster.once(<[Pod]>::is_empty).await;
    assert!(
        network.addresses().is_empty(),
        "they were given back before the pods went"
    );
    network.calls_were_in_order();
}

#[tokio::test]
async fn a_refused_pod_says_why_in_an_event_and_runs_once_it_can() {
    let network = Switch::new();
    network.refuse("attach", "no address is free");
    let cluster = start(&network).await;
    cluster.create("a", json!({})).await;
    let event = cluster.event("FailedCreatePodSandBox").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert!(event.note.unwrap().contains("no address is free"));
    let pods = cluster
        .once(|pods| network.count("attach") > 2 && pods.len() == 1)
        .await;
    let status = pods[0].status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    let state = &status.container_statuses.as_ref().unwrap()[0].state;
    let waiting = state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("ContainerCreating"));
    network.serve("attach");
    cluster.once(|pods| pods.iter().all(runs)).await;
    network.calls_were_in_order();
}

#[tokio::test]
async fn a_deleted_pod_stays_until_it_is_detached() {
    let network = Switch::new();
    let cluster = start(&network).await;
    cluster.create("a", json!({})).await;
    cluster.once(|pods| pods.iter().all(runs)).await;
    network.refuse("detach", "the disk is full");
    cluster.delete("a", &DeleteParams::default()).await;
    let event = cluster.event("FailedKillPod").await;
    assert!(event.note.unwrap().contains("the disk is full"));
    cluster
        .once(|pods| pods.len() == 1 && network.count("detach") > 2)
        .await;
    network.serve("detach");
    cluster.once(<[Pod]>::is_empty).await;
    assert!(network.addresses().is_empty());
    network.calls_were_in_order();
}

#[tokio::test]
async fn a_force_deleted_pod_is_detached_even_if_its_name_is_reused() {
    let network = Switch::new();
    let cluster = start(&network).await;
    for _ in 0..20 {
        cluster.create("a", json!({})).await;
        // Sometimes before it is attached, sometimes while, sometimes after.
        tokio::time::sleep(Duration::from_millis(2)).await;
        cluster.delete("a", &DeleteParams::default().grace_period(0)).await;
    }
    let last = cluster.create("a", json!({})).await;
    let pods = cluster
        .once(|pods| pods.iter().all(runs) && network.addresses().len() == 1)
        .await;
    assert_eq!(pods[0].uid(), last.uid());
    assert_eq!(network.addresses(), BTreeSet::from([address(&pods[0])]));
    network.calls_were_in_order();
}

#[tokio::test]
async fn a_finished_pod_gives_its_address_back_and_stays() {
    let network = Switch::new();
    let cluster = start(&network).await;
    cluster.create("a", json!({})).await;
    cluster.once(|pods| pods.iter().all(runs)).await;
    let done = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    cluster
        .pods
        .patch_status("a", &PatchParams::default(), &done)
        .await
        .unwrap();
    cluster
        .once(|pods| pods.len() == 1 && network.addresses().is_empty())
        .await;
    cluster.delete("a", &DeleteParams::default()).await;
    cluster.once(<[Pod]>::is_empty).await;
    assert_eq!(network.count("detach"), 1);
}

#[tokio::test]
async fn a_pod_on_the_hosts_network_is_never_attached() {
    let network = Switch::new();
    let cluster = start(&network).await;
    cluster
        .create("a", json!({"hostNetwork": true, "nodeName": "berth-node-2"}))
        .await;
    let pods = cluster.once(|pods| pods.iter().all(runs)).await;
    assert_eq!(address(&pods[0]), "198.18.0.2");
    cluster.delete("a", &DeleteParams::default()).await;
    cluster.once(<[Pod]>::is_empty).await;
    assert_eq!((network.count("attach"), network.count("detach")), (0, 0));
}

#[tokio::test]
async fn pods_of_a_deleted_node_are_detached() {
    let network = Switch::new();
    let cluster = start(&network).await;
    for name in ["a", "b", "c"] {
        cluster.create(name, json!({"nodeName": "berth-node-1"})).await;
    }
    cluster.once(|pods| pods.len() == 3 && pods.iter().all(runs)).await;
    let nodes = Api::<Node>::all(cluster.server.client());
    nodes.delete("berth-node-1", &DeleteParams::default()).await.unwrap();
    cluster.once(<[Pod]>::is_empty).await;
    assert!(network.addresses().is_empty());
}

#[tokio::test]
async fn a_restart_keeps_addresses_and_frees_those_of_deleted_pods() {
    let network = Switch::new();
    let cluster = start(&network).await;
    for number in 0..20 {
        cluster.create(&format!("p{number}"), json!({})).await;
    }
    let before = cluster.once(|pods| pods.len() == 20 && pods.iter().all(runs)).await;
    let server = cluster.stop().await;
    let pods = Api::<Pod>::namespaced(server.client(), "default");
    for pod in &before[..5] {
        let force = DeleteParams::default().grace_period(0);
        pods.delete(&pod.name_any(), &force).await.unwrap();
    }
    // One node fewer: what its pods have is theirs until they go, too.
    network.refuse("keep_only", "nobody answers");
    let cluster = start_on(server, 1, &network).await;
    cluster.once(|_| network.count("keep_only") > 2).await;
    network.serve("keep_only");
    let left = |node: &str| {
        let on = |pod: &&Pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(node);
        before[5..].iter().filter(on).map(address).collect::<BTreeSet<_>>()
    };
    cluster
        .once(|_| network.addresses_on("berth-node-1") == left("berth-node-1"))
        .await;
    let after = cluster.pods.list(&ListParams::default()).await.unwrap().items;
    let named =
        |pods: &[Pod]| pods.iter().map(|p| (p.name_any(), address(p))).collect::<BTreeSet<_>>();
    assert_eq!(named(&after), named(&before[5..]));
    assert!(network.addresses_on("berth-node-2").is_superset(&left("berth-node-2")));
    network.calls_were_in_order();
}

#[tokio::test]
async fn pods_that_wait_for_an_address_do_not_delay_deletions() {
    let network = Switch::new();
    let cluster = start(&network).await;
    cluster.create("ends", json!({})).await;
    cluster.once(|pods| pods.iter().all(runs)).await;
    network.hold_attaching();
    for number in 0..100 {
        cluster.create(&format!("waits{number}"), json!({})).await;
    }
    cluster.once(|_| network.under_way() == 8).await;
    cluster.delete("ends", &DeleteParams::default()).await;
    cluster.once(|pods| pods.len() == 100).await;
    assert!(network.addresses().is_empty());
    assert_eq!(network.under_way(), 8);
    network.go_on();
    cluster.once(|pods| pods.iter().all(runs)).await;
    network.calls_were_in_order();
}

#[tokio::test]
async fn a_network_that_is_not_ready_is_asked_only_to_detach() {
    let network = Switch::new();
    network.set_ready(false);
    let cluster = start(&network).await;
    cluster.create("stays", json!({})).await;
    cluster.create("goes", json!({})).await;
    let wait = |pod: &Pod| {
        pod.status
            .as_ref()
            .is_some_and(|status| status.container_statuses.is_some())
    };
    cluster.once(|pods| pods.len() == 2 && pods.iter().all(wait)).await;
    cluster.delete("goes", &DeleteParams::default()).await;
    cluster.once(|pods| pods.len() == 1).await;
    assert_eq!((network.count("keep_only"), network.count("attach")), (0, 0));
    network.set_ready(true);
    cluster.once(|pods| pods.iter().all(runs)).await;
    network.calls_were_in_order();
}
