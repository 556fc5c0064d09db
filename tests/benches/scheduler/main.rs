//! `cargo xtask bench scheduler`: a real kube-scheduler on kube-apiserver and etcd places 10,000
//! pods on 5,000 nodes, alone, with the extender, and by the extended resource; in turns, and the
//! medians are compared. Then the extender's answers by themselves, the accounting, and memory.
//!
//! `BERTH_BENCH_NODES`, `BERTH_BENCH_PODS`, `BERTH_BENCH_RUNS` and `BERTH_BENCH_MANY` (pods for the
//! memory) make it smaller.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that can't measure ends with the reason"
)]

mod answers;
mod server;

use std::time::Instant;

use berth_scheduler::{Accounting, CidrCapacity, NodeFacts, PodFacts};
use berth_testbed::{Figures, Programs};

use server::{Mode, Pods, Server};

#[derive(Debug)]
pub struct Size {
    pub nodes: usize,
    pub pods: usize,
    pub runs: usize,
    /// Bound pods while the memory is looked at.
    pub many: usize,
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect(name))
}

#[tokio::main]
async fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    if let Err(error) = Programs::find() {
        eprintln!(
            "kube-scheduler can't be had here, and there is nothing to measure without \
             it: {error:#}"
        );
        return;
    }
    let size = Size {
        nodes: number("BERTH_BENCH_NODES", 5_000),
        pods: number("BERTH_BENCH_PODS", 10_000),
        runs: number("BERTH_BENCH_RUNS", 5),
        many: number("BERTH_BENCH_MANY", 150_000),
    };
    let mut figures = Figures::default();
    accounting(&mut figures, &size);
    let server = Server::start(&size).await;
    answers::measure(&server, &size, &mut figures).await;
    for pods in [Pods::Identical, Pods::Different] {
        compare(&server, &size, pods, &mut figures).await;
    }
    server.memory(&size, &mut figures).await;
    figures.print(json);
}

/// The modes in turns: whatever else the machine does meanwhile hits all of them.
async fn compare(server: &Server, size: &Size, pods: Pods, figures: &mut Figures) {
    let modes = [Mode::Alone, Mode::Extender, Mode::Resource];
    let mut rates: [Vec<f64>; 3] = Default::default();
    for run in 0..size.runs {
        for (mode, rates) in modes.into_iter().zip(&mut rates) {
            let rate = server.run(mode, pods, size).await;
            eprintln!("{pods:?}, run {run}, {mode:?}: {rate:.0} pods/s");
            rates.push(rate);
        }
    }
    let [alone, extender, resource] = rates.map(median);
    let what = pods.label();
    figures.rate(&format!("{what}: kube-scheduler alone, pods"), alone);
    figures.rate(&format!("{what}: with the extender, pods"), extender);
    figures.rate(&format!("{what}: with the extended resource, pods"), resource);
    figures.times(&format!("{what}: the extender's part of alone"), extender / alone);
    figures.times(&format!("{what}: the resource's part of alone"), resource / alone);
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Pods come, are bound, and go, in this process.
fn accounting(figures: &mut Figures, size: &Size) {
    let mut accounting = Accounting::default();
    for n in 0..size.nodes {
        let facts = NodeFacts {
            cidrs: CidrCapacity::Pods(254),
            ..NodeFacts::default()
        };
        accounting.apply_node(&format!("node-{n:04}"), facts);
    }
    let waiting = PodFacts {
        needs_ip: true,
        ..PodFacts::default()
    };
    let uids: Vec<String> = (0..size.many)
        .map(|n| format!("0b0e0c1a-55aa-4d4b-9c3e-{n:012}"))
        .collect();
    let begin = Instant::now();
    for (n, uid) in uids.iter().enumerate() {
        let node = format!("node-{:04}", n % size.nodes);
        accounting.apply_pod(uid, &waiting);
        accounting.reserve(uid, true, &node).unwrap();
        let bound = PodFacts {
            node: Some(node),
            ..waiting.clone()
        };
        accounting.apply_pod(uid, &bound);
    }
    uids.iter().for_each(|uid| accounting.delete_pod(uid));
    let events = (4 * uids.len()) as f64;
    figures.rate("accounting, pod events", events / begin.elapsed().as_secs_f64());
}
