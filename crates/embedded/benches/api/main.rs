//! `cargo xtask bench api`: the embedded API under load, in one run. Each figure is measured the same way whatever serves it, so that another
//! server can stand beside it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    reason = "a benchmark that can't measure ends with the reason"
)]

mod load;
mod memory;
mod report;
mod watchers;

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use berth_embedded::{Options, Server};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use load::Load;
use report::Report;

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
        Some(at) => serve(PathBuf::from(&arguments[at + 1])).await,
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

/// The other process: the server alone, so that its memory is its own.
async fn serve(directory: PathBuf) {
    let options = Options {
        data_dir: Some(directory.clone()),
        ..Options::default()
    };
    let server = Server::open(options).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let serving = server.serve(listener).unwrap();
    println!("{}", serde_json::json!(server.kubeconfig(address)));
    serving.await.unwrap();
}

async fn start_server(directory: &std::path::Path) -> (Child, kube::Client, kube::Config) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("--serve")
        .arg(directory)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines
        .next_line()
        .await
        .unwrap()
        .expect("the server ended before it was ready");
    let text: String = serde_json::from_str(&line).unwrap();
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default())
        .await
        .unwrap();
    let client = kube::Client::try_from(config.clone()).unwrap();
    (child, client, config)
}

/// All parts, or those that are named: `memory`, `disk`, `watch`, `pods`, `up`.
async fn measure(json: bool, parts: &[String]) {
    let mut report = Report::default();
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|named| named == part);
    if wanted("memory") {
        memory_store(&mut report).await;
    }
    if wanted("disk") {
        disk_store(&mut report).await;
    }
    if wanted("watch") {
        watch_delivery(&mut report).await;
    }
    if wanted("pods") {
        many_pods(&mut report).await;
    }
    match std::env::var_os("BERTH_PROGRAM") {
        Some(program) if wanted("up") => berth_up(&mut report, &program).await,
        Some(_) => {}
        None => eprintln!("`berth up` is left out: BERTH_PROGRAM names no program"),
    }
    report.print(json);
}

/// A first start on an empty directory, then a second one.
async fn berth_up(report: &mut Report, program: &OsStr) {
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
        report.millis(name, start.elapsed().as_secs_f64() * 1e3);
        child.kill().await.unwrap();
    }
}

async fn memory_store(report: &mut Report) {
    let server = Server::open(Options::default()).await.unwrap();
    let clients: Vec<kube::Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let load = Load::new(&clients, "memory").await;
    report.rate("in process, memory: creates/s, 1 client", load.creates(1, 10_000).await);
    report.rate(
        "in process, memory: creates/s, 32 clients",
        load.creates(CLIENTS, 30_000).await,
    );
    report.rate("in process, memory: updates/s, 1 client", load.updates(1, 10_000).await);
    report.rate(
        "in process, memory: updates/s, 32 clients",
        load.updates(CLIENTS, 30_000).await,
    );
    drop((load, clients));
    server.stop().await;
}

/// A server in a process of its own, and 32 clients with a connection each, as 32 programs would have.
struct Remote {
    // Dropped first: the server ends before its directory goes.
    child: Child,
    config: kube::Config,
    load: Load,
    directory: tempfile::TempDir,
}

impl Remote {
    async fn start(namespace: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (child, _, config) = start_server(directory.path()).await;
        let clients: Vec<kube::Client> = (0..CLIENTS)
            .map(|_| kube::Client::try_from(config.clone()).unwrap())
            .collect();
        let load = Load::new(&clients, namespace).await;
        Self {
            child,
            config,
            load,
            directory,
        }
    }
}

async fn disk_store(report: &mut Report) {
    let remote = Remote::start("disk").await;
    let load = &remote.load;
    report.rate("TLS, disk: creates/s, 1 client", load.creates(1, 2_000).await);
    report.rate("TLS, disk: creates/s, 32 clients", load.creates(CLIENTS, 20_000).await);
    report.rate("TLS, disk: updates/s, 1 client", load.updates(1, 2_000).await);
    report.rate("TLS, disk: updates/s, 32 clients", load.updates(CLIENTS, 20_000).await);
}

async fn watch_delivery(report: &mut Report) {
    let remote = Remote::start("watch").await;
    remote.load.creates(CLIENTS, 1_000).await;
    let (p50, p99) = watchers::delivery(&remote.config, &remote.load, WATCHERS, WRITES_PER_SECOND).await;
    report.millis("TLS, disk: watch delivery p50, 100 watchers, 1,000 writes/s", p50);
    report.millis("TLS, disk: watch delivery p99, 100 watchers, 1,000 writes/s", p99);
}

/// A fresh server: memory and lists at 10,000 pods, not after a storm.
async fn many_pods(report: &mut Report) {
    let mut remote = Remote::start("pods").await;
    remote.load.creates(CLIENTS, PODS).await;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        remote.load.list().await;
        best = best.min(start.elapsed().as_secs_f64());
    }
    report.millis("TLS, disk: list of 10,000 pods", best * 1e3);
    let pid = remote.child.id().unwrap();
    report.mebibytes("server's resident memory with 10,000 pods", memory::resident(pid));
    remote.child.kill().await.unwrap();
    let again = start_again(remote.directory.path()).await;
    report.millis("start with 10,000 pods on disk to the first answer", again);
}

async fn start_again(directory: &std::path::Path) -> f64 {
    let start = Instant::now();
    let (_child, client, _) = start_server(directory).await;
    client.apiserver_version().await.unwrap();
    start.elapsed().as_secs_f64() * 1e3
}
