//! `berth controller --controllers route` as a process: its memory with 5,000 nodes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use berth_testbed::{Figures, Process};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

use crate::nodes::Nodes;

const NODES: usize = 5000;

pub async fn measure(kubeconfig: &Path, nodes: &Nodes, figures: &mut Figures) {
    let Some(program) = std::env::var_os("BERTH_PROGRAM") else {
        return eprintln!("BERTH_PROGRAM is not set: memory is left out");
    };
    let mut command = Command::new(program);
    command.args(["controller", "--controllers", "route", "--cloud", "memory"]);
    command.args([
        "--cluster-cidr",
        "10.0.0.0/8",
        "--leader-elect=false",
        "--kubeconfig",
    ]);
    command
        .arg(kubeconfig)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    nodes.create_all(NODES).await;
    let api = Api::<Node>::all(nodes.client.clone());
    // Until the last condition is written.
    loop {
        let all = api.list(&ListParams::default()).await.unwrap().items;
        let routed = all.iter().filter(|node| {
            let status = node.status.as_ref();
            let conditions = status.and_then(|status| status.conditions.as_ref());
            conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "NetworkUnavailable"))
        });
        if routed.count() == NODES {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let process = Process::find(child.id()).unwrap();
    figures.mebibytes(
        "berth: resident with 5,000 nodes",
        process.resident().unwrap(),
    );
    figures.mebibytes("berth: most resident", process.most_resident().unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
}
