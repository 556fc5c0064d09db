//! `cargo xtask bench routes`: how fast a node is routed on a real kube-apiserver, by our
//! controller and by upstream's, with a cloud in memory whose every call takes 50 ms; and what it
//! costs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark that can't measure ends with the reason"
)]

mod agent;
mod idle;
mod kernel;
#[path = "../../tests/linux/namespace.rs"]
mod namespace;
mod nodes;
mod ours;
mod process;
mod upstream;

use std::time::Duration;

use berth_testbed::{Cluster, Figures, Programs, Storage};
use nodes::Nodes;

/// How long each call of the cloud takes.
pub const LATENCY: Duration = Duration::from_millis(50);
const BURST: usize = 1000;
/// 200 calls at a time.
const FLOOR: Duration = Duration::from_millis(50 * (BURST as u64) / 200);

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    let mut figures = Figures::default();
    idle::measure(&mut figures);
    if berth_testbed::is_root() {
        kernel::measure(&mut figures);
    }
    match Programs::find() {
        Ok(_) => {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(on_server(&mut figures));
        }
        Err(error) => eprintln!("kube-apiserver is not available here: {error:#}"),
    }
    figures.print(json);
}

async fn on_server(figures: &mut Figures) {
    let cluster = Cluster::named("bench-routes")
        .nodes(0)
        .without_controllers();
    let cluster = cluster.storage(Storage::Durable).start().unwrap();
    let nodes = Nodes::connect(&cluster.kubeconfig()).await;
    ours(&nodes, figures).await;
    nodes.clear().await;
    for watch in [false, true] {
        upstream::measure(&cluster.kubeconfig(), &nodes, watch, figures).await;
        nodes.clear().await;
    }
    process::measure(&cluster.kubeconfig(), &nodes, figures).await;
    nodes.clear().await;
    agent::measure(&cluster.kubeconfig(), &nodes, figures).await;
    cluster.down().unwrap();
}

async fn ours(nodes: &Nodes, figures: &mut Figures) {
    let controller = ours::Ours::start(nodes.client.clone());
    let mut waits = Vec::new();
    for number in 0..100 {
        let start = nodes.join(number).await;
        waits.push(controller.made(&nodes::cidr(number)).await - start);
    }
    percentiles(figures, "berth: new node, podCIDR 0.1 s later", waits);
    controller.stop().await;
    nodes.clear().await;

    nodes.create_all(BURST).await;
    let controller = ours::Ours::start(nodes.client.clone());
    let took = controller.burst(BURST).await;
    figures.millis("berth: 1,000 nodes at once", took.as_secs_f64() * 1e3);
    figures.times(
        "berth: of the backend's own time",
        took.as_secs_f64() / FLOOR.as_secs_f64(),
    );
    let start = nodes.move_to(7, "10.250.250.250").await;
    let after = controller.leads_to(&nodes::cidr(7), "10.250.250.250").await - start;
    figures.millis(
        "berth: an update right after them",
        after.as_secs_f64() * 1e3,
    );
    controller.stop().await;
}

pub fn percentiles(figures: &mut Figures, name: &str, mut waits: Vec<Duration>) {
    waits.sort();
    let at = |share: f64| waits[((waits.len() as f64 * share) as usize).min(waits.len() - 1)];
    figures.millis(&format!("{name}, p50"), at(0.5).as_secs_f64() * 1e3);
    figures.millis(&format!("{name}, p99"), at(0.99).as_secs_f64() * 1e3);
}
