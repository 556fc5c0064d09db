//! `cargo xtask bench join`: 5,000 nodes join at once, on a real kube-apiserver and etcd, with the
//! ledger in each of the two stores; and then a client that only makes the same writes, in the same
//! run. Then 150,000 pods on these nodes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that can't measure ends with the reason"
)]

mod bare;
mod controller;
mod pods;
mod server;
mod writes;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use berth_api::NodeNetworkConfig;
use berth_testbed::{Figures, Process, Programs};
use clap::Parser;
use kube::ResourceExt;
use serde_json::json;

use bare::Script;
use controller::{Controller, Store};
use server::Server;
use writes::Writes;

const NODES: usize = 5_000;

#[derive(Debug, clap::Parser)]
struct Options {
    /// Leave out the 150,000 pods: creating them takes longer than all the rest.
    #[arg(long)]
    without_pods: bool,
    /// Print the figures once more, as one JSON object on the last line.
    #[arg(long)]
    json: bool,
    /// Cargo passes this flag to benchmarks.
    #[arg(long = "bench", hide = true)]
    _bench: bool,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    if let Err(error) = Programs::find() {
        eprintln!(
            "kube-apiserver is not available here, and there is nothing to measure without \
             it: {error:#}"
        );
        return;
    }
    let mut figures = Figures::default();
    for store in [Store::Kubernetes, Store::Etcd] {
        let joined = join(store, &options, &mut figures).await;
        let bare = replay(&joined.script).await;
        let label = store.label();
        figures.rate(&format!("{label}: the same writes by a bare client"), bare);
        figures.times(&format!("{label}: of the bare client's rate"), joined.rate / bare);
    }
    figures.print(options.json);
}

struct Joined {
    /// All writes a second, including those of the Nodes: one API server did all of them.
    rate: f64,
    script: Script,
}

async fn join(store: Store, options: &Options, figures: &mut Figures) -> Joined {
    let label = store.label();
    let server = Server::start().await;
    let controller = Controller::start(&server, store).await;
    let before = Writes::of(&server).await;
    let processes = server.processes().chain([("controller", controller.process())]);
    let processes: Vec<(&str, Process)> = processes.collect();
    let times: Vec<Duration> = processes.iter().map(|(_, process)| time(process)).collect();
    let start = Instant::now();
    server.create_all("/api/v1/nodes", nodes()).await;
    let created = start.elapsed();
    while controller.containers() < NODES {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = start.elapsed();
    for ((name, process), before) in processes.iter().zip(times) {
        let share = (time(process) - before).as_secs_f64() / took.as_secs_f64();
        figures.count(&format!("{label}: cores used by {name}"), share);
    }
    let nncs = server.nncs().await;
    check(&nncs);
    let written = Writes::of(&server).await.since(&before);
    let controllers_own = written.total() - NODES;
    let rate = written.total() as f64 / took.as_secs_f64();
    for (what, count) in written.by_kind() {
        eprintln!("{label}: {count} x {what}");
    }
    figures.millis(&format!("{label}: 5,000 Nodes created"), created.as_secs_f64() * 1e3);
    figures.millis(
        &format!("{label}: all have their container after"),
        took.as_secs_f64() * 1e3,
    );
    figures.count(
        &format!("{label}: API writes per node"),
        controllers_own as f64 / NODES as f64,
    );
    figures.rate(&format!("{label}: API writes, with those of the Nodes"), rate);
    figures.mebibytes(
        &format!("{label}: the controller's memory at most"),
        controller.process().most_resident().unwrap(),
    );
    let script = Script::of(&server, &nncs, controllers_own).await;
    if matches!(store, Store::Kubernetes) && !options.without_pods {
        pods::measure(&server, controller, store, figures).await;
    }
    Joined { rate, script }
}

fn time(process: &Process) -> Duration {
    process.processor_time().unwrap()
}

/// Plays the script on a fresh server, where no object of the first run is in the way. Returns the
/// writes a second.
async fn replay(script: &Script) -> f64 {
    let server = Server::start().await;
    let start = Instant::now();
    script.play(&server).await;
    script.writes() as f64 / start.elapsed().as_secs_f64()
}

fn nodes() -> Vec<String> {
    let node = |n| {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": format!("node-{n:04}"),
                "labels": {"kubernetes.io/hostname": format!("node-{n:04}"), "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m8"},
            },
            "status": {"addresses": [{"type": "InternalIP", "address": format!("192.168.{}.{}", n / 250, n % 250 + 1)}]},
        })
    };
    (0..NODES).map(|n| node(n).to_string()).collect()
}

/// Checks that every node has a network container, and that no two have the same primary address.
fn check(nncs: &[NodeNetworkConfig]) {
    let primary = |nnc: &NodeNetworkConfig| {
        let status = nnc.status.as_ref();
        let container = status.and_then(|status| status.network_containers.first());
        let name = nnc.name_any();
        container
            .unwrap_or_else(|| panic!("{name} has no container"))
            .primary_ip
            .clone()
    };
    let primaries: BTreeSet<String> = nncs.iter().map(primary).collect();
    assert_eq!((nncs.len(), primaries.len()), (NODES, NODES));
}
