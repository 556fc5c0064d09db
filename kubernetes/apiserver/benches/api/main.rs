//! `cargo xtask bench api`: the embedded API under load, and kube-apiserver with etcd beside it, in
//! one run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "a benchmark that can't measure ends with the reason"
)]

mod load;
mod remote;
mod watchers;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use berth_apiserver::{Options, Server};
use berth_testbed::{Figures, Programs};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use load::Load;
use remote::{Kind, Remote};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLIENTS: usize = 32;
const PODS: usize = 10_000;
const WATCHERS: usize = 100;
const WRITES_PER_SECOND: u64 = 1_000;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().position(|argument| argument == "--serve") {
        Some(at) => remote::serve(PathBuf::from(&arguments[at + 1])).await,
        None => {
            // cargo adds flags of its own (`--bench`).
            let parts: Vec<String> = arguments
                .iter()
                .filter(|argument| !argument.starts_with('-'))
                .cloned()
                .collect();
            measure(arguments.iter().any(|argument| argument == "--json"), &parts).await;
        }
    }
}

/// All parts, or those that are named: `memory`, `disk`, `watch`, `pods`, `up`.
async fn measure(json: bool, parts: &[String]) {
    let mut figures = Figures::default();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|named| named == part);
    if wanted("memory") {
        memory_store(&mut figures).await;
    }
    if wanted("watch") {
        watch_delivery(&mut figures).await;
    }
    let mut kinds = vec![Kind::Embedded];
    match Programs::find() {
        Ok(_) => kinds.push(Kind::Kubernetes),
        Err(error) => eprintln!("kube-apiserver is left out: {error:#}"),
    }
    for kind in kinds {
        if wanted("disk") {
            writes(&mut figures, kind).await;
        }
        if wanted("pods") {
            many_pods(&mut figures, kind).await;
        }
    }
    figures.compare(Kind::Embedded.label(), Kind::Kubernetes.label());
    match std::env::var_os("BERTH_PROGRAM") {
        Some(program) if wanted("up") => berth_up(&mut figures, &program).await,
        Some(_) => {}
        None => eprintln!("`berth up` is left out: BERTH_PROGRAM names no program"),
    }
    figures.print(json);
}

/// A first start on an empty directory, then a second one.
async fn berth_up(figures: &mut Figures, program: &OsStr) {
    let directory = tempfile::tempdir().unwrap();
    for name in ["`berth up` to ready, first start", "`berth up` to ready, second start"] {
        let start = Instant::now();
        let mut child = Command::new(program)
            .args([
                "up",
                "--api-listen",
                "127.0.0.1:0",
                "--dashboard-listen",
                "127.0.0.1:0",
                "--data-dir",
            ])
            .arg(directory.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let line = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .next_line()
            .await
            .unwrap();
        assert!(
            line.is_some_and(|line| line.starts_with("Berth is up")),
            "`berth up` did not start"
        );
        figures.millis(name, start.elapsed().as_secs_f64() * 1e3);
        child.kill().await.unwrap();
    }
}

async fn memory_store(figures: &mut Figures) {
    let server = Server::open(Options::default()).await.unwrap();
    let clients: Vec<kube::Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let load = Load::new(&clients, "memory").await;
    figures.rate("in process, memory: creates/s, 1 client", load.creates(1, 10_000).await);
    figures.rate(
        "in process, memory: creates/s, 32 clients",
        load.creates(CLIENTS, 30_000).await,
    );
    figures.rate("in process, memory: updates/s, 1 client", load.updates(1, 10_000).await);
    figures.rate(
        "in process, memory: updates/s, 32 clients",
        load.updates(CLIENTS, 30_000).await,
    );
    drop((load, clients));
    server.stop().await;
}

async fn writes(figures: &mut Figures, kind: Kind) {
    let remote = Remote::start(kind, "disk").await;
    let (load, label) = (&remote.load, kind.label());
    let rate = load.creates(1, 2_000).await;
    figures.rate(&format!("{label}: creates/s, 1 client"), rate);
    let rate = load.creates(CLIENTS, 20_000).await;
    figures.rate(&format!("{label}: creates/s, 32 clients"), rate);
    let rate = load.updates(1, 2_000).await;
    figures.rate(&format!("{label}: updates/s, 1 client"), rate);
    let rate = load.updates(CLIENTS, 20_000).await;
    figures.rate(&format!("{label}: updates/s, 32 clients"), rate);
}

/// Not on kube-apiserver: on two cores it does not do that many writes a second, and ends the
/// watches of those who wait.
async fn watch_delivery(figures: &mut Figures) {
    let remote = Remote::start(Kind::Embedded, "watch").await;
    remote.load.creates(CLIENTS, 1_000).await;
    let (p50, p99) =
        watchers::delivery(&remote.config, &remote.load, WATCHERS, WRITES_PER_SECOND).await;
    figures.millis("TLS, disk: watch delivery p50, 100 watchers, 1,000 writes/s", p50);
    figures.millis("TLS, disk: watch delivery p99, 100 watchers, 1,000 writes/s", p99);
}

/// A fresh server: memory and lists at 10,000 pods, not after a storm.
async fn many_pods(figures: &mut Figures, kind: Kind) {
    let remote = Remote::start(kind, "pods").await;
    let label = kind.label();
    remote.load.creates(CLIENTS, PODS).await;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        remote.load.list().await;
        best = best.min(start.elapsed().as_secs_f64());
    }
    figures.millis(&format!("{label}: list of 10,000 pods"), best * 1e3);
    figures.mebibytes(&format!("{label}: memory with 10,000 pods"), remote.memory());
    let start = Instant::now();
    if remote.start_again().await.is_some() {
        let name = "start with 10,000 pods on disk to the first answer";
        figures.millis(name, start.elapsed().as_secs_f64() * 1e3);
    }
}
