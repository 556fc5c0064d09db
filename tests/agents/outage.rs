//! No API server at all: pods come and go, with the addresses that the node already has.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

use berth_e2e::{Seen, wait_for};
use berth_testbed::Node;
use serde_json::{Value, json};

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn without_an_api_server_addresses_are_given_and_taken_back() {
    let stage =
        Stage::open("agents-outage", 1, json!({"cidrs": ["10.64.0.0/16", "fd64::/64"]})).await;
    let node = &stage.nodes()[0];
    stage.start_agent(node).await;
    let look = async || {
        let free = stage.status(node)?.pool.free;
        Ok(if free == 16 {
            Seen::There
        } else {
            Seen::NotYet(format!("{free} are free"))
        })
    };
    wait_for(&stage.scene, "the agent has a batch", look).await.unwrap();

    let server = stage.scene.cluster.control_plane().process("kube-apiserver").unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    for round in 0..3 {
        let mut given = BTreeSet::new();
        for n in 0..16 {
            let answer = plugin(node, "ADD", &format!("c{round}-{n}"));
            let ips = answer["ips"].as_array().unwrap();
            assert_eq!(ips.len(), 2, "one of each family: {answer}");
            given.extend(ips.iter().map(|ip| ip["address"].as_str().unwrap().to_owned()));
        }
        assert_eq!(given.len(), 32, "each address once");
        let refused = plugin(node, "ADD", "one-too-many");
        assert_eq!(refused["code"], 11, "{refused}");
        assert_eq!(plugin(node, "STATUS", ""), Value::Null, "full is not broken");
        for n in 0..16 {
            assert_eq!(plugin(node, "DEL", &format!("c{round}-{n}")), Value::Null);
        }
        assert_eq!(stage.status(node).unwrap().pool.assigned, 0);
        assert_eq!(plugin(node, "STATUS", ""), Value::Null);
    }
}

/// Calls the plugin as a runtime does. The network namespace is the node's own: this plugin only
/// looks at its name.
fn plugin(node: &Node, command: &str, container: &str) -> Value {
    let conf = json!({"cniVersion": "1.1.0", "name": "pods", "type": "berth-ipam", "ipam": {"type": "berth-ipam"}});
    let mut call = node.command("env");
    call.arg(format!("CNI_COMMAND={command}"));
    if !container.is_empty() {
        call.arg(format!("CNI_CONTAINERID={container}"));
        call.args(["CNI_NETNS=/proc/self/ns/net", "CNI_IFNAME=eth0"]);
    }
    call.args(["CNI_PATH=/opt/cni/bin", "/opt/cni/bin/berth-ipam"]);
    let mut child = call.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(conf.to_string().as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    if text.trim().is_empty() {
        assert!(output.status.success(), "{command}: no answer, and it failed");
        return Value::Null;
    }
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{command}: {error}: {text}"))
}
