//! `berth agent` that comes back: what it finds out of what happened while it was away, or before
//! it lost its journal.

#[path = "../crash/agent/node.rs"]
mod node;
#[path = "../crash/agent/runtime.rs"]
mod runtime;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::agent::{ADDRESSES, MAX_QUEUE_ENTRIES, overflow_of};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use node::Node;
use runtime::Living;
use serde_json::{Value, json};

/// Who has which address, as the agent says it.
fn assigned(node: &Node) -> BTreeMap<String, String> {
    let lines = loop {
        if let Some(Value::Array(lines)) = node.get(ADDRESSES) {
            break lines;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let of_line = |line: Value| {
        let attachment = &line["attachment"];
        let container = attachment["container"].as_str()?;
        let interface = attachment["interface"].as_str()?;
        let address = line["address"].as_str()?.to_owned();
        Some((format!("{container}:{interface}"), address))
    };
    lines.into_iter().filter_map(of_line).collect()
}

fn queued(node: &Node) -> Vec<String> {
    let found = std::fs::read_dir(node.path("queue")).unwrap();
    let names = found.map(|found| found.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with('.')).collect()
}

fn marks(node: &Node) -> usize {
    queued(node).iter().filter(|name| overflow_of(name).is_some()).count()
}

/// Of an ADD's result.
fn addresses(result: &Value) -> Vec<String> {
    let ips = result["ips"].as_array().unwrap();
    ips.iter()
        .map(|ip| ip["address"].as_str().unwrap().to_owned())
        .collect()
}

/// Once it serves.
fn add(node: &Node, living: &Living, container: &str) {
    loop {
        match node.plugin("ADD", container, &[]) {
            Ok(result) => return living.add(container, &addresses(&result)),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// While the API server has it, nobody but the runtime can say that its sandbox is gone.
async fn make_pod(node: &Node, name: &str) {
    let pods = Api::<Pod>::default_namespaced(node.client());
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "x"}]},
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_that_overflow_the_queue_are_found_via_the_runtime() {
    let living = Living::default();
    let node = Node::start(&living).await;
    let mut agent = node.start_agent();
    for container in ["stays", "goes", "goes-too"] {
        make_pod(&node, container).await;
        add(&node, &living, container);
    }
    agent.kill();
    // A long outage: failing ADDs of pods that never had an address, each with its DEL.
    for n in 0..MAX_QUEUE_ENTRIES {
        let file = node.path("queue").join(format!("failed{n}:eth0"));
        let attachment = json!({"container": format!("failed{n}"), "interface": "eth0"});
        std::fs::write(file, json!({"attachment": attachment, "started": 1}).to_string()).unwrap();
    }
    for container in ["goes", "goes-too"] {
        living.remove(container);
        node.plugin("DEL", container, &[]).unwrap();
    }
    assert_eq!((queued(&node).len(), marks(&node)), (MAX_QUEUE_ENTRIES + 1, 1));

    let _agent = node.start_agent();
    // Attached after the mark, and never listed: whatever becomes of it, it is not by the mark.
    make_pod(&node, "later").await;
    add(&node, &living, "later");
    living.remove("later");
    while marks(&node) > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left: Vec<String> = assigned(&node).into_keys().collect();
    assert_eq!(left, ["later:eth0", "stays:eth0"]);
    assert_eq!(queued(&node), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pod_interface_keeps_its_address_without_the_journal() {
    let living = Living::default();
    let node = Node::start(&living).await;
    let mut agent = node.start_agent();
    add(&node, &living, "pod");
    let result = node.plugin_on("ADD", "pod", "eth1", &[]).unwrap();
    living.add_interface("pod", "eth1", &addresses(&result));
    let before = assigned(&node);
    assert_eq!(before.len(), 2);
    agent.kill();
    node.put_journal(None);
    let _agent = node.start_agent();
    // Until it is certain again who has what.
    while node.pool()["quarantined"] != 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(assigned(&node), before);
}
