//! The deadlock that the release queue prevents: the node has as many pods as it takes, and the
//! agent, which is a pod, is gone. It can come back only when another pod goes without an agent.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::agent::AddressState;
use berth_e2e::{Seen, socket};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::site::{Site, phase, pod};

const MAX_PODS: u32 = 10;
/// Beside them run the agent and the controller.
const LOW: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_node_a_pod_makes_room_for_its_agent_without_it() {
    let full = |cluster: berth_testbed::Builder<'static>| cluster.nodes(1).max_pods(MAX_PODS);
    let site = Site::open("chart-full", &["v1"], full).await;
    let node = &site.nodes()[0];
    let values = ["controller.replicas=1"];
    site.helm("install", "v1", &values);
    site.create_subnet(json!({"cidrs": ["10.64.0.0/24"], "reuseDelay": "1s"}))
        .await;
    site.until_agents("v1").await;
    site.deploy("low", LOW).await;
    let low = site.run(LOW).await;
    let held: BTreeMap<String, String> = low
        .iter()
        .filter_map(|pod| Some((pod.name_any(), pod.status.as_ref()?.pod_ip.clone()?)))
        .collect();
    assert_eq!(held.values().collect::<BTreeSet<_>>().len(), LOW);

    // The agent's pod goes, and another pod takes its place. That pod has a higher priority than
    // the others, so that it is not the one that makes room again.
    let classes = Api::<PriorityClass>::all(site.scene.client.clone());
    let middle =
        json!({"metadata": {"name": "middle"}, "value": 1000, "preemptionPolicy": "Never"});
    let middle = serde_json::from_value(middle).unwrap();
    classes.create(&PostParams::default(), &middle).await.unwrap();
    site.helm("upgrade", "v1", &[values[0], "agent.nodeSelector.agent=none"]);
    site.until("the agent's pod is gone", async || {
        let left = site.agents("v1").await?.len() + usize::from(system_pods(&site).await? > 1);
        Ok(match left {
            0 => Seen::There,
            _ => Seen::NotYet(format!("{left} are left")),
        })
    })
    .await;
    let mut late = pod("late");
    late["spec"]["priorityClassName"] = json!("middle");
    let late = serde_json::from_value(late).unwrap();
    site.pods().create(&PostParams::default(), &late).await.unwrap();
    site.until("the node is full without an agent", async || {
        let bound = site.listed().await?.iter().filter(|pod| node_of(pod).is_some()).count();
        Ok(if bound == LOW + 1 {
            Seen::There
        } else {
            Seen::NotYet(format!("{bound} pods are bound"))
        })
    })
    .await;
    assert!(socket::status(&node.path("/run/berth")).is_err(), "nobody serves");

    // The agent comes back: only a pod that goes can make room for it.
    let nodes = Api::<Node>::all(site.scene.client.clone());
    let selected = Patch::Merge(json!({"metadata": {"labels": {"agent": "none"}}}));
    nodes
        .patch(node.name(), &PatchParams::default(), &selected)
        .await
        .unwrap();
    site.until_agents("v1").await;
    let preempted = site.events("Preempted").await;
    let victims: BTreeSet<String> = preempted
        .iter()
        .filter_map(|event| event.involved_object.name.clone())
        .collect();
    println!("preempted: {victims:?}");
    assert!(!victims.is_empty(), "somebody made room");
    assert!(
        victims.iter().all(|name| held.contains_key(name)),
        "{victims:?} of {held:?}"
    );

    // Each address is listed once, and belongs to the pod that has it in its status. The victim's
    // address is free or another pod's.
    site.until("addresses and pods agree", async || {
        let lines = socket::addresses(&node.path("/run/berth"))?;
        let mut counts = BTreeMap::<String, usize>::new();
        for line in &lines {
            *counts.entry(line.address.to_string()).or_default() += 1;
        }
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
        let assigned = lines.iter().filter(|line| line.state == AddressState::Assigned);
        let assigned: BTreeMap<String, String> = assigned
            .map(|line| {
                let pod = line.pod.as_ref().map(|pod| pod.name.clone());
                (line.address.to_string(), pod.unwrap_or_default())
            })
            .collect();
        let pods = site.listed().await?;
        let running = pods.iter().filter(|pod| phase(pod) == "Running");
        let shown: BTreeMap<String, String> = running
            .filter_map(|pod| Some((pod.status.as_ref()?.pod_ip.clone()?, pod.name_any())))
            .collect();
        let left: Vec<&String> = victims
            .iter()
            .filter(|name| pods.iter().any(|pod| pod.name_any() == **name))
            .collect();
        Ok(
            if left.is_empty() && assigned == shown && shown.values().any(|name| name == "late") {
                Seen::There
            } else {
                Seen::NotYet(format!("{left:?} are left, {assigned:?}, pods show {shown:?}"))
            },
        )
    })
    .await;
    let queue = std::fs::read_dir(node.path("/var/lib/berth/release-queue")).unwrap();
    let entries: Vec<_> = queue
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != berth_api::agent::RESERVE)
        .collect();
    assert!(entries.is_empty(), "{entries:?}");
}

/// The number of pods in kube-system, in any state.
async fn system_pods(site: &Site) -> anyhow::Result<usize> {
    let pods = Api::<Pod>::namespaced(site.scene.client.clone(), "kube-system");
    Ok(pods.list(&ListParams::default()).await?.items.len())
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}
