//! What is reached from outside the cluster: a pod's port on its node, and the dashboard.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;

use anyhow::Context;
use berth_e2e::Seen;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::site::{Site, is_ready, phase, pod};

const HOST_PORT: u16 = 8099;

/// Copies `portmap`, the plugin that opens ports on a node, to each node.
pub fn install_portmap(site: &Site) {
    for node in site.nodes() {
        std::fs::copy("/usr/lib/cni/portmap", node.path("/opt/cni/bin/portmap")).unwrap();
    }
}

/// A pod with a hostPort is reached through its node, and the port is closed when it has gone.
pub async fn host_port_opens_and_closes(site: &Site) {
    let mut object = pod("outside");
    object["spec"]["containers"][0]["ports"] =
        json!([{"containerPort": 8080, "hostPort": HOST_PORT}]);
    let object = serde_json::from_value(object).unwrap();
    site.pods().create(&PostParams::default(), &object).await.unwrap();
    let mut node = None;
    site.until("the pod with a hostPort runs", async || {
        let pod = site.pods().get("outside").await?;
        let name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        node = site.nodes().iter().find(|node| Some(node.name()) == name.as_deref());
        Ok(match phase(&pod) {
            "Running" => Seen::There,
            other => Seen::NotYet(other.to_owned()),
        })
    })
    .await;
    let node = node.expect("a pod that runs has a node");
    let at = SocketAddr::new(node.address().into(), HOST_PORT);
    site.until("the port of the node leads to the pod", async || {
        Ok(match get(at, "/") {
            Ok(page) if page.ends_with("outside\n") => Seen::There,
            Ok(page) => Seen::NotYet(page),
            Err(error) => Seen::NotYet(error.to_string()),
        })
    })
    .await;
    site.pods().delete("outside", &DeleteParams::default()).await.unwrap();
    site.until("the port of the node is closed", async || {
        Ok(match TcpStream::connect(at) {
            Err(_) => Seen::There,
            Ok(_) => Seen::NotYet("somebody answers".to_owned()),
        })
    })
    .await;
}

/// As `NOTES.txt` says: a port is forwarded to its pod, and the page shows this cluster.
pub async fn dashboard_shows_the_cluster(site: &Site) {
    let pods = Api::<Pod>::namespaced(site.scene.client.clone(), "kube-system");
    let own = ListParams::default().labels("app.kubernetes.io/name=berth-dashboard");
    site.until("the dashboard is ready", async || {
        let found = pods.list(&own).await?.items;
        let ready = found.iter().filter(|pod| is_ready(pod)).count();
        Ok(match ready {
            1 => Seen::There,
            _ => Seen::NotYet(format!("{ready} of {} pods", found.len())),
        })
    })
    .await;
    let mut forward = site.scene.cluster.control_plane().kubectl();
    forward.args(["port-forward", "--namespace", "kube-system"]);
    forward.args(["deployment/berth-dashboard", ":7480"]);
    let mut child = forward.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    // "Forwarding from 127.0.0.1:PORT -> 7480"
    let at = line.split_whitespace().find_map(|word| word.parse::<SocketAddr>().ok());
    let at = at.expect(&line);
    assert!(get(at, "/").unwrap().contains("<title>Berth"), "the page");
    site.until("the dashboard shows all nodes", async || {
        let shown = get(at, "/api/nodes")?;
        let missing = site.nodes().iter().find(|node| !shown.contains(node.name()));
        Ok(match missing {
            None => Seen::There,
            Some(node) => Seen::NotYet(format!("{} is not in {shown}", node.name())),
        })
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}

fn get(at: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
    anyhow::ensure!(head.contains(" 200 "), "{head}");
    Ok(body.to_owned())
}
