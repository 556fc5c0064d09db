//! `berth controller`, as a user runs it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};

use berth_api::Subnet;
use berth_e2e::{Seen, wait_for};
use berth_testbed::Process;
use kube::Api;

use crate::server::Server;

#[derive(Clone, Copy, Debug)]
pub enum Store {
    Kubernetes,
    Etcd,
}

impl Store {
    pub fn label(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes store",
            Self::Etcd => "etcd store",
        }
    }

    fn flag(self, server: &Server) -> String {
        match self {
            Self::Kubernetes => "--store=kubernetes".to_owned(),
            Self::Etcd => format!("--store=etcd={}", server.scene.cluster.control_plane().etcd()),
        }
    }
}

/// Ends when it is dropped.
pub struct Controller {
    child: Child,
    metrics: SocketAddr,
}

impl Controller {
    /// Returns when the Subnet is Ready.
    pub async fn start(server: &Server, store: Store) -> Self {
        let program = std::env::var_os("BERTH_PROGRAM")
            .expect("BERTH_PROGRAM names the program: use `cargo xtask bench join`");
        // A port that was free a moment ago.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let metrics = listener.local_addr().unwrap();
        drop(listener);
        let log = File::create(server.scene.cluster.logs().join("controller.log")).unwrap();
        let child = Command::new(program)
            .arg("controller")
            .arg("--kubeconfig")
            .arg(server.scene.cluster.kubeconfig())
            .arg(store.flag(server))
            .arg(format!("--metrics-listen={metrics}"))
            .stderr(log)
            .spawn()
            .unwrap();
        let controller = Self { child, metrics };
        let api = Api::<Subnet>::all(server.client().clone());
        let ready = wait_for(&server.scene, "the Subnet is ready", async || {
            let status = api.get("pods").await?.status.unwrap_or_default();
            let is_ready = status
                .conditions
                .iter()
                .any(|one| one.type_ == "Ready" && one.status == "True");
            Ok(if is_ready {
                Seen::There
            } else {
                Seen::NotYet(format!("{status:?}"))
            })
        });
        ready.await.unwrap();
        controller
    }

    /// How many nodes got a network container, by the controller's own metrics. A watch of all
    /// nodes would be more work for the API server.
    pub fn containers(&self) -> usize {
        let mut stream = TcpStream::connect(self.metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("berth_node_container_seconds_count "));
        line.map_or(0, |count| count.trim().parse().unwrap())
    }

    pub fn process(&self) -> Process {
        Process::find(self.child.id()).unwrap()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
