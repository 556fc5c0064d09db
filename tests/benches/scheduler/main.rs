//! `cargo xtask bench scheduler`: a real kube-scheduler on kube-apiserver and etcd places 10,000
//! pods on 5,000 nodes: alone, with the extender, and by the extended resource. Two more modes show
//! what each way costs by itself: an extender that does nothing, and the resource without our
//! controller. The modes take turns, and their medians are compared. Other parts measure the
//! extender's answers alone, the accounting, and memory.
//!
//! `cargo xtask bench scheduler -- --nodes 50 --pods 200 --runs 1 --many 1000` is a small one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that can't measure ends with the reason"
)]

mod answers;
mod passing;
mod server;

use std::collections::BTreeSet;
use std::time::Instant;

use berth_scheduler::{Accounting, CidrCapacity, NodeFacts, PodFacts};
use berth_testbed::{Figures, Programs};
use clap::{Parser, ValueEnum};

use server::{Mode, Pods, Run, Server};

#[derive(Debug, clap::Parser)]
pub struct Size {
    #[arg(long, default_value_t = 5_000)]
    pub nodes: usize,
    /// Pods of each run.
    #[arg(long, default_value_t = 10_000)]
    pub pods: usize,
    /// Runs of each mode, for each kind of pods.
    #[arg(long, default_value_t = 5)]
    pub runs: usize,
    /// Bound pods while memory is measured, and pods in the accounting.
    #[arg(long, default_value_t = 150_000)]
    pub many: usize,
    /// Only these parts, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Only these modes beside kube-scheduler alone, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    modes: Vec<Mode>,
    /// Print the figures once more, as one JSON object on the last line.
    #[arg(long)]
    json: bool,
    /// Cargo passes this flag to benchmarks.
    #[arg(long = "bench", hide = true)]
    _bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Accounting,
    Answers,
    Identical,
    Different,
    Memory,
}

impl Size {
    fn has(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

#[tokio::main]
async fn main() {
    let size = Size::parse();
    let mut figures = Figures::default();
    if size.has(Part::Accounting) {
        accounting(&mut figures, &size);
    }
    if size.only != [Part::Accounting] {
        on_server(&size, &mut figures).await;
    }
    figures.print(size.json);
}

async fn on_server(size: &Size, figures: &mut Figures) {
    if let Err(error) = Programs::find() {
        eprintln!(
            "kube-scheduler is not available here, and there is nothing to measure without \
             it: {error:#}"
        );
        return;
    }
    let server = Server::start(size).await;
    if size.has(Part::Answers) {
        answers::measure(&server, size, figures).await;
    }
    if size.has(Part::Identical) {
        compare(&server, size, Pods::Identical, figures).await;
    }
    if size.has(Part::Different) {
        compare(&server, size, Pods::Different, figures).await;
    }
    if size.has(Part::Memory) {
        server.memory(size, figures).await;
    }
}

/// Runs the modes in turns: other work of the machine then affects all of them.
async fn compare(server: &Server, size: &Size, pods: Pods, figures: &mut Figures) {
    let others = Mode::value_variants()
        .iter()
        .filter(|mode| !matches!(mode, Mode::Alone));
    let others = others.filter(|mode| size.modes.is_empty() || size.modes.contains(mode));
    let modes: Vec<Mode> = [Mode::Alone].into_iter().chain(others.copied()).collect();
    let mut all: Vec<Vec<Run>> = modes.iter().map(|_| Vec::new()).collect();
    for run in 0..size.runs {
        for (&mode, runs) in modes.iter().zip(&mut all) {
            let done = server.run(mode, pods, size).await;
            eprintln!("{pods:?}, run {run}, {mode:?}: {:.0} pods/s", done.rate);
            runs.push(done);
        }
    }
    let what = pods.label();
    let rate_of = |runs: &[Run]| median(runs.iter().map(|run| run.rate).collect());
    let alone = rate_of(&all[0]);
    for (mode, runs) in modes.into_iter().zip(&all) {
        let (rate, label) = (rate_of(runs), format!("{what}, {}", mode.label()));
        figures.rate(&format!("{label}: pods"), rate);
        if !matches!(mode, Mode::Alone) {
            figures.times(&format!("{label}: of alone"), rate / alone);
        }
        let names: BTreeSet<&str> = runs.iter().flat_map(|run| run.costs.keys().copied()).collect();
        for name in names {
            let costs = runs.iter().filter_map(|run| run.costs.get(name).copied());
            figures.millis(&format!("{label}: {name}, of a core a pod"), median(costs.collect()));
        }
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Pods are created, bound and deleted, all in this process.
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
