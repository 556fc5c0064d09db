//! The extended resource, on the nodes of `pod_cidr`: kube-scheduler subtracts, queues and preempts
//! by itself.

use std::collections::BTreeSet;
use std::time::Instant;

use berth_api::names::POD_IPS;
use berth_e2e::{Scene, Seen, roles, wait_for};
use berth_testbed::Component;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::pod_cidr::{PODS, ROOM};
use crate::site::{Count, clear, create, create_many, delete_running, deploy, pod, pods, until};

const DEFAULT: &str = "default-scheduler";

/// On a cluster without pods.
pub async fn phase(scene: &mut Scene) {
    let controller = begin(scene, ROOM, &["--reserved-per-cidr=3"]).await;
    fills(scene, ROOM, PODS).await;
    preempts(scene).await;
    survives_restarts(scene).await;
    stop(&controller);
}

/// On a cluster without pods whose nodes have `room` addresses together. Leaves the cluster as it
/// was.
pub async fn filling_phase(scene: &Scene, room: usize, pods: usize) {
    let controller = begin(scene, room, &[]).await;
    fills(scene, room, pods).await;
    stop(&controller);
    let policy = deploy("scheduler/pod-ips.yaml");
    let deleted = scene
        .cluster
        .kubectl()
        .args(["delete", "--filename"])
        .arg(policy)
        .status();
    assert!(deleted.unwrap().success());
    clear(scene, None).await;
}

async fn begin(scene: &Scene, room: usize, flags: &[&str]) -> Component {
    let controller = start_controller(scene, flags);
    published(scene, room).await;
    scene.cluster.apply(&deploy("scheduler/pod-ips.yaml")).unwrap();
    policy_holds(scene).await;
    controller
}

fn stop(controller: &Component) {
    let process = controller.process().unwrap();
    process.terminate().unwrap();
    process.wait().unwrap();
}

/// As many run as there are addresses, and the others say what they wait for.
async fn fills(scene: &Scene, room: usize, pods: usize) {
    create_many(scene, pods, DEFAULT).await;
    let full = |count: &Count| {
        count.running == room && count.refused == pods - room && count.creating == 0
    };
    let count = until(scene, "as many run as there are addresses", full).await;
    let reason = format!("Insufficient {POD_IPS}");
    assert!(count.reasons.keys().all(|said| said.contains(&reason)), "{count:?}");
    delete_running(scene, 2).await;
    let gone = Instant::now();
    let after = |count: &Count| {
        count.running == room && count.creating == 0 && count.refused == pods - room - 2
    };
    until(scene, "two more run", after).await;
    println!("resource: two more run {:.2?} after two were gone", gone.elapsed());
}

fn start_controller(scene: &Scene, flags: &[&str]) -> Component {
    for file in ["rbac/controller.yaml", "rbac/pod-ips.yaml"] {
        scene.cluster.apply(&deploy(file)).unwrap();
    }
    let mut all = vec![
        "controller".to_owned(),
        format!("--kubeconfig={}", roles::of_controller(scene).unwrap().display()),
        "--controllers=pod-ips".to_owned(),
    ];
    all.extend(flags.iter().map(ToString::to_string));
    let berth = berth_e2e::berth().unwrap();
    scene.cluster.start_component("berth-pod-ips", &berth, &all).unwrap()
}

/// Waits until the nodes publish `room` of the resource together.
async fn published(scene: &Scene, room: usize) {
    let nodes = Api::<Node>::all(scene.client.clone());
    let look = async || {
        let mut said = Vec::new();
        for node in nodes.list(&ListParams::default()).await?.items {
            let status = node.status.clone().unwrap_or_default();
            let amount = |resources: &Option<std::collections::BTreeMap<String, _>>| {
                let found: Option<&k8s_openapi::apimachinery::pkg::api::resource::Quantity> =
                    resources.as_ref().and_then(|resources| resources.get(POD_IPS));
                found.map(|quantity| quantity.0.clone()).unwrap_or_default()
            };
            said.push((node.name_any(), amount(&status.capacity), amount(&status.allocatable)));
        }
        let all_say_it = said.iter().all(|(_, capacity, allocatable)| capacity == allocatable);
        let counts = said
            .iter()
            .map(|(_, capacity, _)| capacity.parse::<usize>().unwrap_or(0));
        Ok(if all_say_it && said.len() == 3 && counts.sum::<usize>() == room {
            Seen::There
        } else {
            Seen::NotYet(format!("{said:?}"))
        })
    };
    wait_for(scene, "all nodes publish the resource", look).await.unwrap();
}

/// Waits until the policy holds: the server takes a moment to know a policy that was just created.
async fn policy_holds(scene: &Scene) {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let probe: Pod = serde_json::from_value(pod("probe", DEFAULT)).unwrap();
    let look = async || {
        let made = pods(scene).create(&dry, &probe).await?;
        let asks = asks(&made);
        Ok(match asks {
            (1, 1) => Seen::There,
            other => Seen::NotYet(format!("{other:?}")),
        })
    };
    wait_for(scene, "pods ask for the resource", look).await.unwrap();
    // The policy leaves alone a pod on the host network, and one that asks for the resource
    // already.
    let mut on_host = pod("probe", DEFAULT);
    on_host["spec"]["hostNetwork"] = json!(true);
    let made = pods(scene)
        .create(&dry, &serde_json::from_value(on_host).unwrap())
        .await
        .unwrap();
    assert_eq!(asks(&made), (0, 0));
    let mut asking = pod("probe", DEFAULT);
    asking["spec"]["containers"][0]["resources"] =
        json!({"limits": {POD_IPS: "2"}, "requests": {"cpu": "1m"}});
    let made = pods(scene)
        .create(&dry, &serde_json::from_value(asking).unwrap())
        .await
        .unwrap();
    assert_eq!(asks(&made), (2, 2));
}

/// What the first container requests, and its limit.
fn asks(pod: &Pod) -> (u64, u64) {
    let resources = pod.spec.as_ref().unwrap().containers[0]
        .resources
        .clone()
        .unwrap_or_default();
    let amount = |amounts: Option<std::collections::BTreeMap<String, _>>| -> u64 {
        let found: Option<k8s_openapi::apimachinery::pkg::api::resource::Quantity> =
            amounts.and_then(|mut amounts| amounts.remove(POD_IPS));
        found.map_or(0, |quantity| quantity.0.parse().unwrap())
    };
    (amount(resources.requests), amount(resources.limits))
}

/// On a full cluster, one pod makes room for a pod of higher priority.
async fn preempts(scene: &Scene) {
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    let classes = Api::<PriorityClass>::all(scene.client.clone());
    let class = serde_json::from_value(class).unwrap();
    classes.create(&PostParams::default(), &class).await.unwrap();
    let before = running(scene).await;
    let mut high = pod("high", DEFAULT);
    high["spec"]["priorityClassName"] = json!("high");
    create(scene, high).await;
    let look = async || {
        let high = pods(scene).get("high").await?;
        let phase = high.status.and_then(|status| status.phase).unwrap_or_default();
        Ok(if phase == "Running" {
            Seen::There
        } else {
            Seen::NotYet(phase)
        })
    };
    wait_for(scene, "the pod of high priority runs", look).await.unwrap();
    let still = |count: &Count| count.running == ROOM && count.creating == 0 && count.other == 0;
    until(scene, "one victim has left", still).await;
    let after = running(scene).await;
    assert_eq!(before.difference(&after).count(), 1, "one victim left");
}

/// The UIDs of the running pods.
async fn running(scene: &Scene) -> BTreeSet<String> {
    let all = pods(scene)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter();
    let runs = |pod: &Pod| {
        pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    all.filter(|pod| runs(pod)).filter_map(|pod| pod.uid()).collect()
}

/// A kubelet that restarts, and a Node that is recreated: no pod dies, and the resource is back.
async fn survives_restarts(scene: &mut Scene) {
    let before = running(scene).await;
    scene.cluster.nodes_mut()[0].restart_kubelet().unwrap();
    reports(scene, "node-1").await;
    published(scene, ROOM).await;
    assert_eq!(running(scene).await, before, "a kubelet that restarts ends no pod");

    let begin = Instant::now();
    recreated(scene).await;
    println!("the Node is there again after {:.2?}", begin.elapsed());
    published(scene, ROOM).await;
    println!("the resource is back after {:.2?}", begin.elapsed());
    assert_eq!(running(scene).await, before, "a Node that is created again ends no pod");
}

/// Deletes a Node, and waits until its kubelet has recreated it.
pub async fn recreated(scene: &mut Scene) {
    let nodes = Api::<Node>::all(scene.client.clone());
    nodes.delete("node-2", &DeleteParams::default()).await.unwrap();
    scene.cluster.nodes_mut()[1].restart_kubelet().unwrap();
    reports(scene, "node-2").await;
    let look = async || {
        let cidr = nodes.get("node-2").await?.spec.and_then(|spec| spec.pod_cidr);
        Ok(match cidr {
            Some(_) => Seen::There,
            None => Seen::NotYet("no podCIDR".to_owned()),
        })
    };
    wait_for(scene, "the Node has a podCIDR again", look).await.unwrap();
}

/// Waits until the kubelet has reported on its Node again.
async fn reports(scene: &Scene, node: &str) {
    let nodes = Api::<Node>::all(scene.client.clone());
    let heartbeat = |node: Option<Node>| {
        let conditions = node.and_then(|node| node.status).and_then(|status| status.conditions);
        let ready = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "Ready");
        ready
            .filter(|ready| ready.status == "True")
            .and_then(|ready| ready.last_heartbeat_time)
    };
    let first = heartbeat(nodes.get_opt(node).await.unwrap());
    let look = async || {
        let now = heartbeat(nodes.get_opt(node).await?);
        Ok(if now.is_some() && now != first {
            Seen::There
        } else {
            Seen::NotYet(format!("{now:?}"))
        })
    };
    wait_for(scene, "the kubelet reports", look).await.unwrap();
}
