//! `cargo xtask bench machines`: claims on one pool, served by us and by Cluster API's in-cluster
//! provider on the same kube-apiserver; pools of several sizes; machines that are given their
//! networks and deleted again. `BERTH_BENCH_COUNT` makes the benchmark smaller.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark that can't measure ends with the reason"
)]

mod bound;
mod claims;
mod machines;
mod program;
mod server;
#[path = "../join/writes.rs"]
mod writes;

use std::time::Duration;

use berth_testbed::{Figures, Programs, peers};

use claims::Provider;
use program::Program;
use server::Server;

/// The number of claims, and of machines.
const COUNT: usize = 1_000;
/// The number of claims on each pool, where pools are compared. A /24 has 254 addresses.
const OF_POOL: usize = 200;

#[tokio::main]
async fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    if let Err(error) = Programs::find() {
        return eprintln!("kube-apiserver is not available here: {error:#}");
    }
    let count = std::env::var("BERTH_BENCH_COUNT").ok();
    let count = count.map_or(COUNT, |count| count.parse().expect("BERTH_BENCH_COUNT: a number"));
    let mut figures = Figures::default();
    let server = Server::start().await;
    let theirs = match peers::in_cluster() {
        Ok((program, definitions)) if program.exists() => {
            server.apply_all(&definitions.join("bases"));
            server.apply_all(&definitions.join("test"));
            Some(program)
        }
        _ => {
            eprintln!("the in-cluster provider is not built: it is left out");
            server.apply_ours();
            None
        }
    };
    server.established();

    let berth = Program::berth(&server, &["--controllers=subnet,claim"]);
    let rate = Provider::Berth
        .measure(&server, "10.60.0.0/16", count, &mut figures)
        .await;
    for cidr in ["10.61.0.0/24", "11.0.0.0/8", "fd61::/64"] {
        let took = Provider::Berth.time(&server, cidr, OF_POOL.min(count)).await;
        let name = format!("berth: claims of {}", length(cidr));
        figures.rate(&name, OF_POOL.min(count) as f64 / took.as_secs_f64());
    }
    memory(&mut figures, "berth", &berth);
    drop(berth);
    let alone = count as f64 / bound::claims_alone(&server, count).await.as_secs_f64();
    figures.rate("the clients alone, the same writes: claims", alone);
    figures.times("claims: of the speed that the API server has", rate / alone);
    if let Some(program) = theirs {
        let running = Program::in_cluster(&server, &program);
        Provider::InCluster
            .measure(&server, "10.70.0.0/16", count, &mut figures)
            .await;
        memory(&mut figures, "in-cluster", &running);
        figures.compare("berth", "in-cluster");
    }
    machines::measure(&server, count, &mut figures).await;
    figures.print(json);
}

fn memory(figures: &mut Figures, who: &str, program: &Program) {
    let bytes = program.process().most_resident().unwrap();
    figures.mebibytes(&format!("{who}: memory at most"), bytes);
}

/// `/24` of `10.61.0.0/24`.
fn length(cidr: &str) -> &str {
    cidr.find('/').map_or(cidr, |at| &cidr[at..])
}

fn percentile(figures: &mut Figures, name: &str, waits: &mut [Duration]) {
    waits.sort();
    let at = |share: f64| waits[((waits.len() as f64 * share) as usize).min(waits.len() - 1)];
    figures.millis(&format!("{name}, p50"), at(0.5).as_secs_f64() * 1e3);
    figures.millis(&format!("{name}, p99"), at(0.99).as_secs_f64() * 1e3);
}
