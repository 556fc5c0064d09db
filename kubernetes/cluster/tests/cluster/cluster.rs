//! The virtual cluster on the in-process API: what a user sees of nodes, scheduling, Deployments
//! and pods.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_apiserver::{Options as ServerOptions, Server};
use berth_cluster::{Cluster, Fleet, Options};
use berth_kit::clock::Clock;
use berth_kit::metrics::Metrics;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Running {
    server: Server,
    cluster: Cluster,
    token: CancellationToken,
    client: Client,
}

async fn cluster_on(server: Server, nodes: u32) -> Running {
    let client = server.client();
    let token = CancellationToken::new();
    let options = Options {
        fleet: Fleet::new(nodes).unwrap(),
        clock: Clock::System,
        metrics: Metrics::new("test"),
        seed: None,
        network: None,
        limit: None,
    };
    let cluster = Cluster::start(client.clone(), options, token.clone()).await.unwrap();
    Running {
        server,
        cluster,
        token,
        client,
    }
}

async fn start(nodes: u32) -> Running {
    let server = Server::open(ServerOptions::default()).await.unwrap();
    cluster_on(server, nodes).await
}

impl Running {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn deploy(&self, replicas: i32, image: &str) {
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}},
            },
        });
        let params = PatchParams::apply("test").force();
        let patch = Patch::Apply(deployment);
        self.deployments().patch("web", &params, &patch).await.unwrap();
    }

    async fn create_pod(&self, name: &str, mut spec: Value) -> Pod {
        if spec.get("containers").is_none() {
            spec["containers"] = json!([{"name": "c", "image": "x"}]);
        }
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        let pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap()
    }

    /// The pods of the namespace once `enough` says that they are as wanted.
    async fn pods_once(&self, enough: impl Fn(&[Pod]) -> bool) -> Vec<Pod> {
        loop {
            let pods = self.pods().list(&ListParams::default()).await.unwrap().items;
            if enough(&pods) {
                return pods;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn deployment_once(&self, enough: impl Fn(&Deployment) -> bool) -> Deployment {
        loop {
            let deployment = self.deployments().get("web").await.unwrap();
            if enough(&deployment) {
                return deployment;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn patch_node(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.nodes().patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// Gives every pod that has none an address, as the parts to come will.
    async fn give_addresses(&self) {
        for (number, pod) in (1..).zip(self.pods().list(&ListParams::default()).await.unwrap()) {
            if pod.status.as_ref().is_some_and(|s| s.pod_ips.is_none()) {
                let patch = json!({"status": {"podIPs": [{"ip": format!("10.64.1.{number}")}]}});
                let params = PatchParams::default();
                // It may be gone by now: a rollout goes on meanwhile.
                drop(
                    self.pods()
                        .patch_status(&pod.name_any(), &params, &Patch::Merge(patch))
                        .await,
                );
            }
        }
    }

    async fn stop(self) -> Server {
        self.token.cancel();
        self.cluster.stopped().await;
        self.server
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<(&'a str, &'a str)> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let found = conditions.find(|c| c.type_ == type_)?;
    Some((&found.status, found.reason.as_deref().unwrap_or_default()))
}

fn waits_for_address(pod: &Pod) -> bool {
    condition(pod, "PodReadyToStartContainers") == Some(("False", "WaitingForAddress"))
}

fn is_ready(pod: &Pod) -> bool {
    phase(pod) == "Running" && condition(pod, "Ready").is_some_and(|(status, _)| status == "True")
}

#[tokio::test]
async fn nodes_are_ready_with_address_capacity_and_lease() {
    let cluster = start(3).await;
    let nodes = cluster.nodes().list(&ListParams::default()).await.unwrap().items;
    let names: Vec<_> = nodes.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["berth-node-1", "berth-node-2", "berth-node-3"]);
    for node in &nodes {
        let status = node.status.as_ref().unwrap();
        let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
        assert_eq!(ready.status, "True");
        assert_eq!(status.addresses.as_ref().unwrap()[0].type_, "InternalIP");
        assert_eq!(status.allocatable.as_ref().unwrap()["pods"].0, "110");
        assert_eq!(node.labels()["kubernetes.io/hostname"], node.name_any());
        let leases = Api::<Lease>::namespaced(cluster.client.clone(), "kube-node-lease");
        let lease = leases.get(&node.name_any()).await.unwrap();
        assert_eq!(lease.spec.unwrap().holder_identity, Some(node.name_any()));
        assert_eq!(lease.metadata.owner_references.unwrap()[0].uid, node.uid().unwrap());
    }
}

#[tokio::test]
async fn pods_of_a_deployment_are_spread_and_wait_for_an_address() {
    let cluster = start(3).await;
    cluster.deploy(20, "one").await;
    let all_wait = |pods: &[Pod]| pods.len() == 20 && pods.iter().all(waits_for_address);
    let pods = cluster.pods_once(all_wait).await;
    assert!(pods.iter().all(|pod| phase(pod) == "Pending"));
    let writers = pods.iter().flat_map(ResourceExt::managed_fields);
    for entry in writers {
        assert_eq!(entry.manager.as_deref(), Some("berth"));
    }
    for node in ["berth-node-1", "berth-node-2", "berth-node-3"] {
        let there = pods.iter().filter(|pod| node_of(pod) == Some(node)).count();
        assert!((6..=7).contains(&there), "{there} on {node}");
    }
    let status = cluster
        .deployment_once(|d| d.status.as_ref().is_some_and(|s| s.replicas == Some(20)))
        .await;
    assert_eq!(status.status.unwrap().available_replicas, None);
}

#[tokio::test]
async fn an_address_makes_a_pod_run_and_its_deployment_available() {
    let cluster = start(3).await;
    cluster.deploy(5, "one").await;
    cluster
        .pods_once(|pods| pods.len() == 5 && pods.iter().all(waits_for_address))
        .await;
    cluster.give_addresses().await;
    let pods = cluster.pods_once(|pods| pods.iter().all(is_ready)).await;
    assert!(pods.iter().all(|pod| pod.status.as_ref().unwrap().pod_ip.is_some()));
    let done = |d: &Deployment| {
        let status = d.status.clone().unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        status.available_replicas == Some(5)
            && conditions.any(|c| c.reason.as_deref() == Some("NewReplicaSetAvailable"))
    };
    let status = cluster.deployment_once(done).await.status.unwrap();
    assert_eq!((status.updated_replicas, status.unavailable_replicas), (Some(5), None));
    let available = status
        .conditions
        .unwrap()
        .into_iter()
        .find(|c| c.type_ == "Available")
        .unwrap();
    assert_eq!(available.status, "True");
}

#[tokio::test]
async fn scaling_down_deletes_the_pods_that_are_not_ready_first() {
    let cluster = start(3).await;
    cluster.deploy(2, "one").await;
    cluster
        .pods_once(|pods| pods.len() == 2 && pods.iter().all(waits_for_address))
        .await;
    cluster.give_addresses().await;
    let ready = cluster.pods_once(|pods| pods.iter().all(is_ready)).await;
    cluster.deploy(6, "one").await;
    cluster
        .pods_once(|pods| {
            pods.len() == 6 && pods.iter().all(|p| is_ready(p) || waits_for_address(p))
        })
        .await;
    cluster.deploy(2, "one").await;
    let left = cluster.pods_once(|pods| pods.len() == 2).await;
    let names = |pods: &[Pod]| pods.iter().map(ResourceExt::name_any).collect::<BTreeSet<_>>();
    assert_eq!(names(&left), names(&ready));
}

#[tokio::test]
async fn a_new_template_replaces_every_pod_and_keeps_the_old_set() {
    let cluster = start(3).await;
    cluster.deploy(4, "one").await;
    cluster
        .pods_once(|pods| pods.len() == 4 && pods.iter().all(waits_for_address))
        .await;
    cluster.give_addresses().await;
    cluster.pods_once(|pods| pods.iter().all(is_ready)).await;
    cluster.deploy(4, "two").await;
    let replaced = |pods: &[Pod]| {
        let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
        pods.len() == 4
            && pods
                .iter()
                .all(|pod| is_ready(pod) && image(pod).as_deref() == Some("two"))
    };
    loop {
        cluster.give_addresses().await;
        let pods = cluster.pods().list(&ListParams::default()).await.unwrap().items;
        assert!(
            pods.len() <= 6,
            "4 and a quarter more at most, and those on their way out"
        );
        if replaced(&pods) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let sets = Api::<ReplicaSet>::namespaced(cluster.client.clone(), "default");
    let sets = sets.list(&ListParams::default()).await.unwrap().items;
    let revisions: BTreeSet<_> = sets
        .iter()
        .map(|s| s.annotations()["deployment.kubernetes.io/revision"].clone())
        .collect();
    assert_eq!(revisions, ["1".to_owned(), "2".to_owned()].into());
}

#[tokio::test]
async fn recreation_lets_every_old_pod_go_before_a_new_one_comes() {
    let cluster = start(2).await;
    cluster.deploy(3, "one").await;
    cluster
        .pods_once(|pods| pods.len() == 3 && pods.iter().all(waits_for_address))
        .await;
    let patch = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}});
    let params = PatchParams::default();
    cluster
        .deployments()
        .patch("web", &params, &Patch::Merge(patch))
        .await
        .unwrap();
    let held = json!({"metadata": {"finalizers": ["test/held"]}});
    let name = cluster.pods().list(&ListParams::default()).await.unwrap().items[0].name_any();
    cluster.pods().patch(&name, &params, &Patch::Merge(held)).await.unwrap();
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}});
    cluster
        .deployments()
        .patch("web", &params, &Patch::Strategic(image))
        .await
        .unwrap();
    let left = cluster.pods_once(|pods| pods.len() == 1).await;
    assert_eq!(left[0].name_any(), name, "the held one keeps the new ones away");
    let free = json!({"metadata": {"finalizers": null}});
    cluster.pods().patch(&name, &params, &Patch::Merge(free)).await.unwrap();
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
    let all_new = |pods: &[Pod]| {
        pods.len() == 3 && pods.iter().all(|pod| image(pod).as_deref() == Some("two"))
    };
    cluster.pods_once(all_new).await;
}

#[tokio::test]
async fn an_evicted_pod_is_replaced_away_from_a_cordoned_node() {
    let cluster = start(2).await;
    cluster.deploy(6, "one").await;
    cluster
        .pods_once(|pods| pods.len() == 6 && pods.iter().all(waits_for_address))
        .await;
    cluster
        .patch_node("berth-node-1", json!({"spec": {"unschedulable": true}}))
        .await;
    for pod in cluster.pods().list(&ListParams::default()).await.unwrap() {
        if node_of(&pod) == Some("berth-node-1") {
            cluster
                .pods()
                .evict(&pod.name_any(), &EvictParams::default())
                .await
                .unwrap();
        }
    }
    let moved = |pods: &[Pod]| {
        pods.len() == 6 && pods.iter().all(|pod| node_of(pod) == Some("berth-node-2"))
    };
    cluster.pods_once(moved).await;
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_says_why_and_is_placed_once_it_fits() {
    let cluster = start(3).await;
    let spec =
        json!({"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "x"}]});
    cluster.create_pod("picky", spec).await;
    let refused = |pods: &[Pod]| {
        pods.iter()
            .any(|p| condition(p, "PodScheduled") == Some(("False", "Unschedulable")))
    };
    let pods = cluster.pods_once(refused).await;
    let conditions = pods[0].status.as_ref().unwrap().conditions.as_ref().unwrap();
    let message = conditions[0].message.as_deref().unwrap();
    assert_eq!(
        message,
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    );
    let events = Api::<Event>::namespaced(cluster.client.clone(), "default");
    loop {
        let all = events.list(&ListParams::default()).await.unwrap();
        if all.iter().any(|e| {
            e.reason.as_deref() == Some("FailedScheduling") && e.note.as_deref() == Some(message)
        }) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cluster
        .patch_node("berth-node-2", json!({"metadata": {"labels": {"disk": "ssd"}}}))
        .await;
    let pods = cluster
        .pods_once(|pods| node_of(&pods[0]).is_some() && waits_for_address(&pods[0]))
        .await;
    assert_eq!(node_of(&pods[0]), Some("berth-node-2"));
    assert_eq!(condition(&pods[0], "PodScheduled"), Some(("True", "")));
}

#[tokio::test]
async fn requests_fill_a_node_to_the_brim_and_not_beyond() {
    let cluster = start(1).await;
    for number in 0..5 {
        let requests = json!({"requests": {"cpu": "2"}});
        let spec = json!({"containers": [{"name": "c", "image": "x", "resources": requests}]});
        cluster.create_pod(&format!("p{number}"), spec).await;
    }
    let settled = |pods: &[Pod]| {
        pods.iter().all(|p| {
            waits_for_address(p) || condition(p, "PodScheduled").is_some_and(|(s, _)| s == "False")
        })
    };
    let pods = cluster.pods_once(settled).await;
    assert_eq!(pods.iter().filter(|pod| node_of(pod).is_some()).count(), 4);
    let placed = pods.iter().find(|pod| node_of(pod).is_some()).unwrap().name_any();
    cluster.pods().delete(&placed, &DeleteParams::default()).await.unwrap();
    cluster
        .pods_once(|pods| pods.len() == 4 && pods.iter().all(|pod| node_of(pod).is_some()))
        .await;
}

#[tokio::test]
async fn a_pod_on_the_hosts_network_runs_with_its_nodes_address() {
    let cluster = start(1).await;
    cluster.create_pod("host", json!({"hostNetwork": true})).await;
    let pods = cluster.pods_once(|pods| pods.iter().all(is_ready)).await;
    assert_eq!(pods[0].status.as_ref().unwrap().pod_ip.as_deref(), Some("198.18.0.1"));
}

#[tokio::test]
async fn a_deleted_node_loses_its_pods_and_returns_after_a_restart() {
    let cluster = start(2).await;
    cluster.deploy(4, "one").await;
    cluster
        .pods_once(|pods| pods.len() == 4 && pods.iter().all(waits_for_address))
        .await;
    cluster
        .nodes()
        .delete("berth-node-1", &DeleteParams::default())
        .await
        .unwrap();
    let moved = |pods: &[Pod]| {
        pods.len() == 4 && pods.iter().all(|pod| node_of(pod) == Some("berth-node-2"))
    };
    cluster.pods_once(moved).await;
    let cluster = cluster_on(cluster.stop().await, 2).await;
    assert!(cluster.nodes().get_opt("berth-node-1").await.unwrap().is_some());
}

#[tokio::test]
async fn a_node_left_out_at_a_restart_stays_but_gets_no_pods() {
    let cluster = start(3).await;
    let uid = cluster.nodes().get("berth-node-1").await.unwrap().uid();
    let cluster = cluster_on(cluster.stop().await, 1).await;
    assert_eq!(
        cluster.nodes().get("berth-node-1").await.unwrap().uid(),
        uid,
        "taken over, not recreated"
    );
    let ready = async |name: &str| {
        let node = cluster.nodes().get(name).await.unwrap();
        let conditions = node.status.unwrap().conditions.unwrap();
        conditions.into_iter().find(|c| c.type_ == "Ready").unwrap().status
    };
    assert_eq!(ready("berth-node-1").await, "True");
    assert_eq!(ready("berth-node-3").await, "Unknown");
    cluster.deploy(6, "one").await;
    let all_on_one = |pods: &[Pod]| {
        pods.len() == 6 && pods.iter().all(|pod| node_of(pod) == Some("berth-node-1"))
    };
    cluster.pods_once(all_on_one).await;
    let cluster = cluster_on(cluster.stop().await, 3).await;
    let node = cluster.nodes().get("berth-node-3").await.unwrap();
    assert_eq!(node.spec.unwrap_or_default().taints, None);
}

#[tokio::test]
async fn a_second_start_goes_on_and_makes_nothing_twice() {
    let cluster = start(2).await;
    cluster.deploy(8, "one").await;
    let before = cluster
        .pods_once(|pods| pods.len() == 8 && pods.iter().all(waits_for_address))
        .await;
    let cluster = cluster_on(cluster.stop().await, 2).await;
    cluster.deploy(9, "one").await;
    let after = cluster
        .pods_once(|pods| pods.len() >= 9 && pods.iter().all(waits_for_address))
        .await;
    assert_eq!(after.len(), 9);
    let uids: BTreeSet<_> = after.iter().map(ResourceExt::uid).collect();
    assert!(before.iter().all(|pod| uids.contains(&pod.uid())));
}

#[tokio::test]
async fn a_replica_set_adopts_pods_that_its_deployment_left_behind() {
    let cluster = start(2).await;
    cluster.deploy(3, "one").await;
    let before = cluster
        .pods_once(|pods| pods.len() == 3 && pods.iter().all(waits_for_address))
        .await;
    let orphan = DeleteParams::orphan();
    cluster.deployments().delete("web", &orphan).await.unwrap();
    while cluster.deployments().get_opt("web").await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    cluster.deploy(3, "one").await;
    cluster
        .deployment_once(|d| d.status.as_ref().is_some_and(|s| s.updated_replicas == Some(3)))
        .await;
    let uids = |pods: &[Pod]| pods.iter().map(ResourceExt::uid).collect::<BTreeSet<_>>();
    let after = cluster.pods().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(uids(&after), uids(&before));
}
