//! Azure CNS, unmodified: it finds its network container, asks for addresses by its own rules,
//! hands them to pods and gives them back.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result};
use berth_api::{NodeNetworkConfig, Subnet};
use berth_e2e::{Seen, wait_for};
use berth_testbed::{Component, peers};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::host::{self, Host};
use crate::stage::{NODE, Stage, addresses, container, sorted, text};

/// What CNS counts to know how many addresses it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Monitor {
    /// The addresses that it has handed out.
    V1,
    /// The pods that are bound to the node.
    V2,
}

struct Cns {
    stage: Stage,
    host: Host,
    program: Component,
}

impl Cns {
    async fn start(test: &str, monitor: Monitor) -> Self {
        let stage = Stage::open(test).await;
        let node = stage.node();
        let host = Host::start(node);
        let v2 = monitor == Monitor::V2;
        let configuration = json!({
            "TelemetrySettings": {"DisableAll": true},
            "ChannelMode": "CRD",
            "WireserverIP": host::AGENT,
            "ManageEndpointState": true,
            "SyncHostNCVersionIntervalMs": 500,
            "EnableIPAMv2": v2,
            "WatchPods": v2,
        });
        std::fs::write(node.path("/etc/cns.json"), configuration.to_string()).unwrap();
        let mut command = node.command("env");
        command.args(["-C", "/", "CNS_CONFIGURATION_PATH=/etc/cns.json"]);
        command
            .arg(format!("NODENAME={NODE}"))
            .arg(format!("NODE_IP={}", node.address()));
        command.arg(format!("KUBECONFIG={}", stage.scene.cluster.kubeconfig().display()));
        command.arg(peers::cns().unwrap()).args(["--log-target", "stdout"]);
        let program = node.start_component("azure-cns", command).unwrap();
        Self { stage, host, program }
    }

    /// Waits until CNS has requested `count` addresses, the NNC lists them, and CNS can hand out
    /// all of them.
    async fn settles(&mut self, count: usize) -> NodeNetworkConfig {
        let what = format!("CNS has asked for {count} and got them");
        let asked = i64::try_from(count).unwrap();
        let as_asked = |nnc: &NodeNetworkConfig| {
            nnc.spec.requested_ip_count == asked && addresses(nnc).len() == count
        };
        let nnc = self.stage.until(&what, as_asked).await;
        let container = container(&nnc).unwrap();
        self.host.program(&container.id, container.version);
        let (expected, program, node) =
            (sorted(addresses(&nnc)), &mut self.program, self.stage.node());
        let seen = wait_for(&self.stage.scene, "CNS can use all of them", async || {
            program.check()?;
            let usable = sorted(usable(&post_on(
                node,
                "/debug/ipaddresses",
                &json!({
                    "IPConfigStateFilter": ["Available", "Assigned"],
                }),
            )));
            Ok(if usable == expected {
                Seen::There
            } else {
                Seen::NotYet(format!("{usable:?} of {expected:?}"))
            })
        });
        seen.await.unwrap();
        nnc
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        post_on(self.stage.node(), path, body)
    }

    /// Requests a pod's address, as the CNI plugin of CNS does.
    fn request(&self, n: usize) -> String {
        let answer = self.post("/network/requestipconfigs", &interface(n));
        assert_eq!(answer["response"]["ReturnCode"], 0, "{answer}");
        text(&answer["podIPInfo"][0]["PodIPConfig"]["IPAddress"])
    }

    fn release(&self, n: usize) {
        let answer = self.post("/network/releaseipconfigs", &interface(n));
        assert_eq!(answer["response"]["ReturnCode"], 0, "{answer}");
    }

    async fn reserved(&self) -> u64 {
        let subnet = Api::<Subnet>::all(self.stage.scene.client.clone())
            .get("pods")
            .await
            .unwrap();
        let status = serde_json::to_value(subnet.status).unwrap();
        status["reserved"].as_u64().unwrap_or_else(|| panic!("{status}"))
    }

    async fn reserves(&self, count: u64) {
        let seen = wait_for(&self.stage.scene, "the Subnet counts what is out", async || {
            let reserved = self.reserved().await;
            Ok(if reserved == count {
                Seen::There
            } else {
                Seen::NotYet(format!("{reserved}"))
            })
        });
        seen.await.unwrap();
    }
}

fn interface(n: usize) -> Value {
    json!({
        "podInterfaceID": format!("{n:08x}-eth0"),
        "infraContainerID": format!("{n:064x}"),
        "orchestratorContext": {"PodName": format!("web-{n}"), "PodNamespace": "default"},
        "ifname": "eth0",
    })
}

fn usable(answer: &Value) -> Vec<String> {
    let found = answer["IPConfigurationStatus"].as_array();
    found.into_iter().flatten().map(|one| text(&one["IPAddress"])).collect()
}

/// `null` while CNS does not answer.
fn post_on(node: &berth_testbed::Node, path: &str, body: &Value) -> Value {
    let post = || -> Result<Value> {
        let mut stream = TcpStream::connect("127.0.0.1:10090")?;
        let body = body.to_string();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: \
             {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
        Ok(serde_json::from_str(body)?)
    };
    node.on_network(post).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn cns_that_counts_addresses_grows_and_shrinks() {
    let mut cns = Cns::start("cns-v1", Monitor::V1).await;
    let nnc = cns.settles(16).await;
    let container = container(&nnc).unwrap();
    assert_eq!((container.version, container.primary_ip.as_str()), (1, "10.64.0.2"));
    cns.reserves(17).await;

    let given: Vec<String> = (0..9).map(|n| cns.request(n)).collect();
    let held = addresses(&nnc);
    assert!(
        given.iter().all(|address| held.contains(address)),
        "{given:?} of {held:?}"
    );
    let grown = cns.settles(32).await;
    assert!(held.iter().all(|address| addresses(&grown).contains(address)));
    cns.reserves(33).await;

    (0..9).for_each(|n| cns.release(n));
    let shrunk = cns.settles(16).await;
    assert!(
        addresses(&shrunk)
            .iter()
            .all(|address| addresses(&grown).contains(address))
    );
    cns.reserves(17).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cns_that_counts_pods_grows_and_shrinks() {
    let mut cns = Cns::start("cns-v2", Monitor::V2).await;
    cns.settles(16).await;
    let pods = Api::<Pod>::default_namespaced(cns.stage.scene.client.clone());
    for n in 0..9 {
        let pod = json!({
            "metadata": {"name": format!("web-{n}"), "labels": {"app": "web"}},
            "spec": {
                "nodeName": NODE,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "web", "image": berth_testbed::POD_IMAGE, "imagePullPolicy": "Never"}],
            },
        });
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let grown = cns.settles(32).await;
    assert_eq!(container(&grown).unwrap().version, 2);
    let all = ListParams::default();
    pods.delete_collection(&DeleteParams::default().grace_period(0), &all)
        .await
        .unwrap();
    let shrunk = cns.settles(16).await;
    // CNS leaves the names of the addresses that it gave back in its spec: they mean nothing any
    // more.
    assert_eq!(shrunk.spec.ips_not_in_use.len(), 16);
    cns.reserves(17).await;
}
