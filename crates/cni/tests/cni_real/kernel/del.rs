//! DEL.

use berth_testkit::Namespace;
use serde_json::json;

use super::node::{Node, done, grant};
use crate::server::Manner;

#[test]
fn nothing_is_left_in_the_kernel_and_the_agent_is_told() {
    let node = Node::new(&[grant(5), done()]);
    let pod = Namespace::new();
    node.add("c1", &pod);
    node.del("c1", &pod).silent();
    // At once, not after a while.
    assert_eq!(pod.link_names(), Vec::<String>::new());
    node.assert_empty();
    assert_eq!(node.asked(), ["/v1/request", "/v1/release"]);
}

#[test]
fn another_interface_of_the_container_stays() {
    let node = Node::new(&[grant(5), grant(6), done()]);
    let pod = Namespace::new();
    node.add("c1", &pod);
    // Its default route is in the way of a second one, as with any two networks of a pod.
    pod.ip("route delete default");
    pod.ip("-6 route delete default");
    node.call("ADD", "c1", &pod)
        .set("CNI_IFNAME", "net1")
        .run(&node.conf)
        .result();
    node.del("c1", &pod).silent();
    assert_eq!(pod.link_names(), ["net1"]);
}

#[test]
fn it_does_without_a_namespace_whether_it_is_not_named_or_gone() {
    let node = Node::new(&[grant(5), done(), grant(6), done()]);
    let pod = Namespace::new();
    node.add("c1", &pod);
    node.call_without_pod("DEL", "c1").run(&node.conf).silent();
    node.assert_empty();
    node.add("c1", &pod);
    let path = pod.path();
    drop(pod);
    let call = node.call_without_pod("DEL", "c1").set("CNI_NETNS", &path);
    call.run(&node.conf).silent();
    node.assert_empty();
}

#[test]
fn it_may_come_twice_or_for_what_never_was() {
    let node = Node::new(&[grant(5), done()]);
    let pod = Namespace::new();
    node.add("c1", &pod);
    for container in ["c1", "c1", "never"] {
        node.del(container, &pod).silent();
    }
    assert_eq!(
        node.asked(),
        ["/v1/request", "/v1/release", "/v1/release", "/v1/release"]
    );
}

#[test]
fn del_with_the_agent_down_removes_the_interface_and_is_queued() {
    let mut node = Node::new(&[grant(5)]);
    let pod = Namespace::new();
    node.add("c1", &pod);
    node.server = None;
    node.del("c1", &pod).silent();
    node.assert_empty();
    assert_eq!(node.queue(), ["c1:eth0"]);
}

#[test]
fn del_that_the_agent_refuses_removes_the_interface_and_fails() {
    let refusal = json!({"reason": "Storage", "message": "the disk is full"});
    let node = Node::new(&[grant(5), Manner::answers(507, &refusal)]);
    let pod = Namespace::new();
    node.add("c1", &pod);
    let (code, text) = node.del("c1", &pod).failure();
    assert!(code == 104 && text.contains("the disk is full"), "{text}");
    node.assert_empty();
    assert!(node.queue().is_empty());
}

#[test]
fn del_finds_an_interface_whose_host_end_was_renamed() {
    let node = Node::new(&[grant(5), done()]);
    let pod = Namespace::new();
    let result = node.add("c1", &pod);
    let name = result["interfaces"][0]["name"].as_str().unwrap();
    node.host.ip(&format!("link set {name} down"));
    node.host.ip(&format!("link set {name} name renamed"));
    node.del("c1", &pod).silent();
    node.assert_empty();
}

#[test]
fn an_interface_that_is_not_ours_is_left_alone() {
    let node = Node::new(&[done()]);
    let pod = Namespace::new();
    pod.ip("link add eth0 type bridge");
    node.del("c1", &pod).silent();
    assert_eq!(pod.link_names(), ["eth0"]);
    // The host's own namespace, named by mistake.
    node.host.ip("link add eth0 type bridge");
    node.call_without_pod("DEL", "c1")
        .set("CNI_NETNS", &node.host.path())
        .run(&node.conf)
        .silent();
    assert_eq!(node.host.link_names(), ["eth0"]);
}

#[test]
fn while_the_interface_can_not_be_removed_its_address_is_kept() {
    let node = Node::new(&[grant(5), done()]);
    let pod = Namespace::new();
    node.add("c1", &pod);
    // Without the right to change links.
    let call = node.call("DEL", "c1", &pod);
    let call = call.by(&["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"]);
    let (code, text) = call.run(&node.conf).failure();
    assert!(code == 105 && text.contains("removing berth"), "{text}");
    assert_eq!(node.asked(), ["/v1/request"]);
}
