//! Servers in processes of their own, reached over TLS: the embedded one on redb, and
//! kube-apiserver with etcd. Both write to disk before they answer, and both do the same work for
//! the same clients.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use berth_apiserver::{Options, Server};
use berth_testbed::{Cluster, Process, Storage};
use kube::config::Kubeconfig;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::CLIENTS;
use crate::load::Load;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Embedded,
    Kubernetes,
}

impl Kind {
    /// What figures of this server start with.
    pub fn label(self) -> &'static str {
        match self {
            Self::Embedded => "TLS, disk",
            Self::Kubernetes => "kube-apiserver and etcd",
        }
    }
}

#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
enum Running {
    // Dropped in this order: the server ends before its directory goes.
    Embedded(Child, tempfile::TempDir),
    Kubernetes(Cluster),
}

/// A running server, and 32 clients with a connection each, as 32 programs would have.
pub struct Remote {
    running: Running,
    pub config: kube::Config,
    pub load: Load,
}

impl Remote {
    pub async fn start(kind: Kind, namespace: &str) -> Self {
        let (running, kubeconfig) = match kind {
            Kind::Embedded => {
                let directory = tempfile::tempdir().unwrap();
                let (child, kubeconfig) = start_embedded(directory.path()).await;
                (Running::Embedded(child, directory), kubeconfig)
            }
            Kind::Kubernetes => {
                let start = || {
                    let cluster = Cluster::named("bench").without_controllers();
                    cluster.storage(Storage::Durable).start().unwrap()
                };
                let cluster = tokio::task::block_in_place(start);
                let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
                (Running::Kubernetes(cluster), kubeconfig)
            }
        };
        let config = config(kubeconfig).await;
        let client = |_| kube::Client::try_from(config.clone()).unwrap();
        let clients: Vec<kube::Client> = (0..CLIENTS).map(client).collect();
        let load = Load::new(&clients, namespace).await;
        Self { running, config, load }
    }

    /// Of the embedded server all that is resident; of the other two, which share their program,
    /// their proportional part.
    pub fn memory(&self) -> u64 {
        match &self.running {
            Running::Embedded(child, _) => {
                Process::find(child.id().unwrap()).unwrap().resident().unwrap()
            }
            Running::Kubernetes(cluster) => ["kube-apiserver", "etcd"]
                .map(|name| cluster.control_plane().process(name).unwrap().memory().unwrap())
                .iter()
                .sum(),
        }
    }

    /// Ends an embedded server and starts it again on what it left.
    pub async fn start_again(self) -> Option<kube::Client> {
        let Running::Embedded(mut child, directory) = self.running else {
            return None;
        };
        child.kill().await.unwrap();
        let (_child, kubeconfig) = start_embedded(directory.path()).await;
        let client = kube::Client::try_from(config(kubeconfig).await).unwrap();
        client.apiserver_version().await.unwrap();
        Some(client)
    }
}

async fn config(kubeconfig: Kubeconfig) -> kube::Config {
    let options = kube::config::KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap()
}

async fn start_embedded(directory: &Path) -> (Child, Kubeconfig) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("--serve")
        .arg(directory)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap();
    let line = line.expect("the server ended before it was ready");
    let text: String = serde_json::from_str(&line).unwrap();
    (child, Kubeconfig::from_yaml(&text).unwrap())
}

/// The other process: the server alone, so that its memory is its own.
pub async fn serve(directory: PathBuf) {
    let options = Options {
        data_dir: Some(directory),
        ..Options::default()
    };
    let server = Server::open(options).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let serving = server.serve(listener).unwrap();
    println!("{}", serde_json::json!(server.kubeconfig(address)));
    serving.await.unwrap();
}
