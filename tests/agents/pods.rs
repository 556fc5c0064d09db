//! As many pods as a kubelet takes by default, on three nodes at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use berth_e2e::{Seen, wait_for};
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::Api;
use serde_json::json;

use crate::stage::{Stage, address_of, name, node_of, on_node};

const PODS: usize = 110;

#[tokio::test(flavor = "multi_thread")]
async fn pods_on_three_full_nodes_connect_and_leave_nothing_behind() {
    let start = Instant::now();
    let seconds = || start.elapsed().as_secs_f64();
    let stage = Stage::open("agents-pods", 3, json!({"cidrs": ["10.64.0.0/16"]})).await;
    assert!(ready(&stage).await.is_empty(), "a node is ready before its agent is");
    for node in stage.nodes() {
        stage.start_agent(node).await;
    }
    let look = async || {
        let ready = ready(&stage).await;
        Ok(if ready.len() == 3 {
            Seen::There
        } else {
            Seen::NotYet(format!("{ready:?}"))
        })
    };
    wait_for(&stage.scene, "all nodes are ready", look).await.unwrap();
    println!("three nodes are Ready after {:.1} s", seconds());

    let deployed = seconds();
    for node in stage.nodes() {
        stage.deploy(node.name(), PODS).await;
    }
    let pods = stage.run(3 * PODS).await;
    println!(
        "{} pods run {:.1} s after they were made",
        pods.len(),
        seconds() - deployed
    );
    let addresses: BTreeSet<&str> = pods.iter().map(address_of).collect();
    assert_eq!(addresses.len(), 3 * PODS, "every pod has an address of its own");
    for node in stage.nodes() {
        let there: BTreeMap<String, &Pod> = pods
            .iter()
            .filter(|pod| node_of(pod) == node.name())
            .map(|pod| (address_of(pod).to_owned(), pod))
            .collect();
        assert_eq!(there.len(), PODS);
        let traced: BTreeMap<String, String> = stage
            .assigned(node)
            .into_iter()
            .map(|line| (line.address.to_string(), line.pod.unwrap().name))
            .collect();
        let expected: BTreeMap<String, String> = there
            .iter()
            .map(|(address, pod)| (address.clone(), name(pod).to_owned()))
            .collect();
        assert_eq!(
            traced,
            expected,
            "the agent of {} knows each pod by its address",
            node.name()
        );
        println!(
            "the agent of {} has {} KiB in memory",
            node.name(),
            stage.agent_memory(node) / 1024
        );
    }
    talk(&stage, &pods);

    let deleted = seconds();
    for node in stage.nodes() {
        stage.undeploy(node.name()).await;
    }
    stage.gone().await;
    println!("all are gone {:.1} s after the delete", seconds() - deleted);
    for node in stage.nodes() {
        stage.cleared(node).await;
    }
    for node in stage.nodes() {
        let look = async || {
            let status = stage.status(node)?;
            let settled = status.requested == 16
                && status.pool.free + status.pool.cooling_down == 16
                && status.pool.releasing == 0;
            Ok(if settled {
                Seen::There
            } else {
                Seen::NotYet(format!("{status:?}"))
            })
        };
        wait_for(&stage.scene, "the pool is what it is for no pods", look)
            .await
            .unwrap();
    }
}

async fn ready(stage: &Stage) -> Vec<String> {
    let nodes = Api::<NodeObject>::all(stage.scene.client.clone());
    let nodes = nodes.list(&kube::api::ListParams::default()).await.unwrap().items;
    let is_ready = |node: &NodeObject| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let ready = nodes.into_iter().filter(is_ready);
    ready.filter_map(|node| node.metadata.name).collect()
}

/// A pod of each node asks one of every node for its name. Nothing here makes routes between nodes,
/// so the test does.
fn talk(stage: &Stage, pods: &[Pod]) {
    let one_of_each: BTreeMap<&str, &Pod> = pods.iter().map(|pod| (node_of(pod), pod)).collect();
    for (to, pod) in &one_of_each {
        let at = stage.scene.node(to).unwrap().address();
        for from in stage.nodes().iter().filter(|from| from.name() != *to) {
            on_node(from, &format!("ip route replace {}/32 via {at}", address_of(pod)));
        }
    }
    for from in one_of_each.values() {
        for to in one_of_each.values() {
            let mut kubectl = stage.scene.cluster.kubectl();
            let url = format!("http://{}:8080/", address_of(to));
            kubectl.args(["exec", name(from), "--", "wget", "-q", "-O", "-", &url]);
            let output = kubectl.output().unwrap();
            let answer = String::from_utf8_lossy(&output.stdout);
            assert_eq!(answer.trim(), name(to), "{output:?}");
        }
    }
    for (to, pod) in &one_of_each {
        let others = stage.nodes().iter().filter(|from| from.name() != *to);
        for from in others {
            on_node(from, &format!("ip route del {}/32", address_of(pod)));
        }
    }
}
