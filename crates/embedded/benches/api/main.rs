//! `cargo xtask bench api`: the embedded API under load, in one run. Each figure is measured the same way whatever serves it, so that another
//! server can stand beside it.

mod load;
mod memory;
mod report;
mod watchers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use berth_embedded::{Options, Server};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use load::Load;
use report::Report;

const CLIENTS: usize = 32;
const PODS: usize = 10_000;
const WATCHERS: usize = 100;
const WRITES_PER_SECOND: u64 = 1_000;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().position(|argument| argument == "--serve") {
        Some(at) => serve(PathBuf::from(&arguments[at + 1])).await,
        None => measure(arguments.iter().any(|argument| argument == "--json")).await,
    }
}

/// The other process: the server alone, so that its memory is its own.
async fn serve(directory: PathBuf) {
    let options = Options { data_dir: Some(directory.clone()), ..Options::default() };
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
    let line = lines.next_line().await.unwrap().expect("the server ended before it was ready");
    let text: String = serde_json::from_str(&line).unwrap();
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    let client = kube::Client::try_from(config.clone()).unwrap();
    (child, client, config)
}

async fn measure(json: bool) {
    let mut report = Report::default();

    let server = Server::open(Options::default()).await.unwrap();
    let clients: Vec<kube::Client> = (0..CLIENTS).map(|_| server.client()).collect();
    let load = Load::new(&clients, "memory").await;
    report.rate("in process, memory: creates/s, 1 client", load.creates(1, 10_000).await);
    report.rate("in process, memory: creates/s, 32 clients", load.creates(CLIENTS, 30_000).await);
    report.rate("in process, memory: updates/s, 1 client", load.updates(1, 10_000).await);
    report.rate("in process, memory: updates/s, 32 clients", load.updates(CLIENTS, 30_000).await);
    drop((load, clients));
    server.stop().await;

    let directory = tempfile::tempdir().unwrap();
    let (child, _, config) = start_server(directory.path()).await;
    // One connection a client, as 32 programs would have.
    let clients: Vec<kube::Client> = (0..CLIENTS).map(|_| kube::Client::try_from(config.clone()).unwrap()).collect();
    let load = Load::new(&clients, "disk").await;
    report.rate("TLS, disk: creates/s, 1 client", load.creates(1, 2_000).await);
    report.rate("TLS, disk: creates/s, 32 clients", load.creates(CLIENTS, 20_000).await);
    report.rate("TLS, disk: updates/s, 1 client", load.updates(1, 2_000).await);
    report.rate("TLS, disk: updates/s, 32 clients", load.updates(CLIENTS, 20_000).await);
    let (p50, p99) = watchers::delivery(&config, &load, WATCHERS, WRITES_PER_SECOND).await;
    report.millis("TLS, disk: watch delivery p50, 100 watchers, 1,000 writes/s", p50);
    report.millis("TLS, disk: watch delivery p99, 100 watchers, 1,000 writes/s", p99);
    drop((load, clients, child));

    // A fresh server: memory and lists at 10,000 pods, not after a storm.
    let directory = tempfile::tempdir().unwrap();
    let (child, _, config) = start_server(directory.path()).await;
    let clients: Vec<kube::Client> = (0..CLIENTS).map(|_| kube::Client::try_from(config.clone()).unwrap()).collect();
    let load = Load::new(&clients, "pods").await;
    load.creates(CLIENTS, PODS).await;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        load.list().await;
        best = best.min(start.elapsed().as_secs_f64());
    }
    report.millis("TLS, disk: list of 10,000 pods", best * 1e3);
    let pid = child.id().unwrap();
    report.mebibytes("server's resident memory with 10,000 pods", memory::resident(pid));
    drop((load, clients, child));

    report.millis("start with 10,000 pods on disk to the first answer", start_again(directory.path()).await);
    report.print(json);
}

async fn start_again(directory: &std::path::Path) -> f64 {
    let start = Instant::now();
    let (_child, client, _) = start_server(directory).await;
    client.apiserver_version().await.unwrap();
    start.elapsed().as_secs_f64() * 1e3
}
