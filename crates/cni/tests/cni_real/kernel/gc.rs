//! GC.

use berth_testkit::Namespace;
use serde_json::{Value, json};

use super::node::{Node, done, grant};

fn valid(containers: &[&str]) -> Value {
    containers
        .iter()
        .map(|container| json!({"containerID": container, "ifname": "eth0"}))
        .collect()
}

#[test]
fn gc_removes_stale_interfaces_and_forwards_to_the_agent() {
    let node = Node::new(&[grant(5), grant(6), grant(7), done()]);
    let pods = [Namespace::new(), Namespace::new(), Namespace::new()];
    for (container, pod) in ["c1", "c2", "c3"].into_iter().zip(&pods) {
        node.add(container, pod);
    }
    let mut conf = node.conf.clone();
    conf["cni.dev/valid-attachments"] = valid(&["c2", "c9"]);
    node.call_without_pod("GC", "c1").run(&conf).silent();
    assert_eq!(pods.each_ref().map(|pod| pod.link_names().len()), [0, 1, 0]);
    let asked = node.server.as_ref().unwrap().asked();
    assert_eq!(asked[3].line, "POST /v1/gc HTTP/1.1");
    let expected =
        json!([{"container": "c2", "interface": "eth0"}, {"container": "c9", "interface": "eth0"}]);
    assert_eq!(asked[3].body["valid"], expected);
}

#[test]
fn what_is_of_another_network_or_not_ours_stays() {
    let mut node = Node::new(&[grant(5), grant(6), done()]);
    node.host.ip("link add berth0000000000 type bridge");
    node.host.ip("link add uplink type bridge");
    node.host.ip("link set uplink alias berth/1/pods");
    let (ours, others) = (Namespace::new(), Namespace::new());
    node.add("c1", &ours);
    node.conf["name"] = json!("another-network-with-a-long-name");
    node.add("c2", &others);
    node.conf["name"] = json!("pods");
    let mut conf = node.conf.clone();
    conf["cni.dev/valid-attachments"] = valid(&[]);
    node.call_without_pod("GC", "c1").run(&conf).silent();
    assert_eq!((ours.link_names().len(), others.link_names().len()), (0, 1));
    assert_eq!(node.host.link_names().len(), 3);
    conf["name"] = json!("another-network-with-a-long-name");
    node.call_without_pod("GC", "c1").run(&conf).silent();
    assert_eq!(others.link_names().len(), 0);
}

#[test]
fn gc_with_the_agent_down_removes_interfaces_and_asks_to_retry() {
    let mut node = Node::new(&[grant(5)]);
    let pod = Namespace::new();
    node.add("c1", &pod);
    node.server = None;
    let mut conf = node.conf.clone();
    conf["cni.dev/attachments"] = valid(&[]);
    assert_eq!(node.call_without_pod("GC", "c1").run(&conf).code(), 11);
    node.assert_empty();
    assert!(node.queue().is_empty());
}
