//! The cluster itself, with Debian's own CNI plugins: all other suites depend on it.

#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use berth_e2e::{Scene, Seen, wait_for};
use berth_testbed::{Node, POD_IMAGE};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, PropagationPolicy};
use serde_json::json;

const PODS: usize = 60;

fn deployment() -> Deployment {
    let container = json!({"name": "web", "image": POD_IMAGE, "imagePullPolicy": "Never"});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
        },
    });
    serde_json::from_value(deployment).unwrap()
}

fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("none")
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().node_name.as_deref().unwrap()
}

fn address_of(pod: &Pod) -> &str {
    pod.status.as_ref().unwrap().pod_ip.as_deref().unwrap()
}

/// How many pods there are in each phase.
fn phases(pods: &[Pod]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for pod in pods {
        *counts.entry(phase(pod)).or_default() += 1;
    }
    counts
}

fn on_node(node: &Node, line: &str) -> String {
    let mut words = line.split(' ');
    let mut command = node.command(words.next().unwrap());
    let output = command.args(words).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

async fn all_run(scene: &Scene) -> Vec<Pod> {
    let pods = Api::<Pod>::default_namespaced(scene.client.clone());
    let mut found = Vec::new();
    let look = async || {
        found = pods.list(&ListParams::default()).await?.items;
        let counts = phases(&found);
        Ok(if counts == BTreeMap::from([("Running", PODS)]) {
            Seen::There
        } else {
            Seen::NotYet(format!("{counts:?}"))
        })
    };
    wait_for(scene, "60 pods are Running", look).await.unwrap();
    found
}

/// Every pod has an address of its own, from its node's block.
fn addresses_are_right(scene: &Scene, pods: &[Pod]) {
    let addresses: BTreeSet<&str> = pods.iter().map(address_of).collect();
    assert_eq!(addresses.len(), PODS, "{addresses:?}");
    for pod in pods {
        let block = &scene.node(node_of(pod)).unwrap().seat().pods;
        let prefix = block.strip_suffix(".0/24").unwrap();
        assert!(
            address_of(pod).starts_with(prefix),
            "{} on {}",
            address_of(pod),
            node_of(pod)
        );
    }
}

/// Each node's first pod asks the first pod of every node for its name.
fn pods_talk(scene: &Scene, pods: &[Pod]) {
    let first_of_each: BTreeMap<&str, &Pod> =
        pods.iter().rev().map(|pod| (node_of(pod), pod)).collect();
    assert_eq!(first_of_each.len(), 3, "the scheduler left a node out");
    for from in first_of_each.values() {
        for to in first_of_each.values() {
            let mut kubectl = scene.cluster.kubectl();
            let url = format!("http://{}:8080/", address_of(to));
            kubectl.args([
                "exec",
                from.metadata.name.as_ref().unwrap(),
                "--",
                "wget",
                "-q",
                "-O",
                "-",
                &url,
            ]);
            let output = kubectl.output().unwrap();
            let answer = String::from_utf8_lossy(&output.stdout);
            assert_eq!(answer.trim(), to.metadata.name.as_ref().unwrap(), "{output:?}");
        }
    }
}

async fn all_go(scene: &Scene) {
    let background = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    let deployments = Api::<Deployment>::default_namespaced(scene.client.clone());
    deployments.delete("web", &background).await.unwrap();
    let pods = Api::<Pod>::default_namespaced(scene.client.clone());
    let look = async || {
        let left = pods.list(&ListParams::default()).await?.items;
        Ok(match phases(&left) {
            none if none.is_empty() => Seen::There,
            some => Seen::NotYet(format!("{some:?}")),
        })
    };
    wait_for(scene, "all pods are gone", look).await.unwrap();
    for node in scene.cluster.nodes() {
        let look = async || {
            // Tasks, not containers: the kubelet removes ended containers only once a minute.
            let running = on_node(node, "ctr --namespace=k8s.io tasks list --quiet");
            let links = on_node(node, "ip -o link show type veth");
            let leases = std::fs::read_dir(node.path("/var/lib/cni/networks/pods"))?
                .map(|item| Ok(item?.file_name().into_string().unwrap()))
                .filter(|name| name.as_ref().is_ok_and(|name: &String| name.starts_with("10.")))
                .collect::<anyhow::Result<Vec<String>>>()?;
            Ok(
                if running.is_empty() && links.lines().count() == 1 && leases.is_empty() {
                    Seen::There
                } else {
                    Seen::NotYet(format!("{running}{links}{leases:?}"))
                },
            )
        };
        let what = format!(
            "{} runs no container, has no link but its own and no address in use",
            node.name()
        );
        wait_for(scene, &what, look).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_on_three_nodes_run_and_talk_and_nothing_is_left_of_them() {
    let start = Instant::now();
    let seconds = || start.elapsed().as_secs_f64();
    let scene = Scene::open("smoke", |cluster| cluster.nodes(3)).await.unwrap();
    println!("three nodes are Ready after {:.1} s", seconds());
    scene.cluster.route_pods().unwrap();

    let deployments = Api::<Deployment>::default_namespaced(scene.client.clone());
    let applied = seconds();
    deployments.create(&PostParams::default(), &deployment()).await.unwrap();
    let pods = all_run(&scene).await;
    println!("{PODS} pods are Running {:.1} s after the create", seconds() - applied);
    addresses_are_right(&scene, &pods);
    pods_talk(&scene, &pods);

    let deleted = seconds();
    all_go(&scene).await;
    println!("all are gone {:.1} s after the delete", seconds() - deleted);
    let down = seconds();
    scene.cluster.down().unwrap();
    println!("the cluster is down after {:.1} s", seconds() - down);
}
