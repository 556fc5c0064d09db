//! A node's agent, as a user runs it, on an API that `berth up` serves.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_api::Subnet;
use berth_api::agent::{RELEASE, REQUEST, Release, Request};
use berth_api::cni::{Attachment, PodRef};
use berth_testbed::Process;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::load::Caller;

const NODE: &str = "bench";
/// The pool grows by this many addresses, so this many are free on an idle node.
const BATCH: u32 = 250;

pub struct Site {
    directory: PathBuf,
    agent: Ended,
    _up: Ended,
}

/// Ends when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Site {
    /// Returns when the agent has its first addresses.
    pub fn start(directory: &Path) -> Self {
        let program = berth_e2e::berth().unwrap();
        let mut up = Command::new(&program);
        up.args([
            "up",
            "--nodes",
            "1",
            "--in-memory",
            "--subnet",
            "10.64.0.0/16",
            "--data-dir",
        ]);
        up.arg(directory.join("up")).args([
            "--api-listen",
            "127.0.0.1:0",
            "--dashboard-listen",
            "127.0.0.1:0",
        ]);
        let mut up = Ended(up.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        let lines = BufReader::new(up.0.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        lines
            .find(|line| line.starts_with("Berth is up"))
            .expect("`berth up` comes up");
        // Reads on, so that `berth up` can go on writing.
        std::thread::spawn(move || lines.for_each(drop));
        let kubeconfig = directory.join("up/kubeconfig");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(prepare(&kubeconfig));

        let mut agent = Command::new(program);
        agent
            .args(["agent", "--node-name", NODE, "--kubeconfig"])
            .arg(kubeconfig);
        agent.arg("--socket").arg(directory.join("agent.sock"));
        agent
            .arg("--state-dir")
            .arg(directory.join("state"))
            .arg("--queue-dir")
            .arg(directory.join("queue"))
            .arg("--lock-dir")
            .arg(directory.join("locks"));
        let log = std::fs::File::create(directory.join("agent.log")).unwrap();
        let agent = Ended(agent.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let mut site = Self {
            directory: directory.to_owned(),
            agent,
            _up: up,
        };
        while site.free() < u64::from(BATCH) {
            if let Some(status) = site.agent.0.try_wait().unwrap() {
                let log = std::fs::read_to_string(directory.join("agent.log")).unwrap();
                panic!("the agent ended with {status}: {log}");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        site
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.join("agent.sock")
    }

    pub fn resident(&self) -> u64 {
        Process::find(self.agent.0.id()).unwrap().resident().unwrap()
    }

    pub fn ipam_conf(&self) -> Value {
        let (socket, queue) = (self.socket(), self.directory.join("queue"));
        json!({
            "cniVersion": "1.0.0", "name": "bench", "type": "ptp",
            "ipam": {"type": "berth-ipam", "socket": socket, "queueDir": queue},
        })
    }

    pub fn cni_conf(&self) -> Value {
        let (socket, queue) = (self.socket(), self.directory.join("queue"));
        json!({"cniVersion": "1.0.0", "name": "bench", "type": "berth-cni", "socket": socket, "queueDir": queue})
    }

    /// Makes `count` attachments that stay.
    pub fn hold(&self, count: usize) {
        let mut caller = Caller::connect(&self.socket());
        for n in 0..count {
            let request = Request {
                attachment: attachment(&format!("held-{n}")),
                network: "bench".to_owned(),
                pod: PodRef::default(),
                started: 0,
                desired: Vec::new(),
                // The request may have to wait until the pool has grown.
                wait_ms: 60_000,
            };
            caller.call(REQUEST, &request);
        }
        // The callers need free addresses on top of that.
        while self.free() < 32 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn let_go(&self, count: usize) {
        let mut caller = Caller::connect(&self.socket());
        for n in 0..count {
            let attachment = attachment(&format!("held-{n}"));
            caller.call(
                RELEASE,
                &Release {
                    attachment,
                    started: 0,
                },
            );
        }
    }

    /// The free addresses of the pool; 0 while the agent does not answer.
    fn free(&self) -> u64 {
        let asked = std::os::unix::net::UnixStream::connect(self.socket());
        let Ok(stream) = asked else {
            return 0;
        };
        let status = Caller::on(stream).status();
        let count = |state: &str| status["pool"][state].as_u64().unwrap_or(0);
        count("free") + count("coolingDown")
    }
}

pub fn attachment(container: &str) -> Attachment {
    Attachment::new(container, "eth0").unwrap()
}

/// Lets the pool of a node grow as large as the benchmark needs it, and creates the Node.
async fn prepare(kubeconfig: &Path) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = Client::try_from(config).unwrap();
    let scaler = json!({
        "batchSize": BATCH, "requestThresholdPercent": 50, "releaseThresholdPercent": 150, "maxIPCount": 2000,
    });
    let patch = json!({"spec": {"scaler": scaler}});
    let subnets = Api::<Subnet>::all(client.clone());
    subnets
        .patch("pods", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
    });
    let nodes = Api::<Node>::all(client);
    nodes
        .create(&PostParams::default(), &serde_json::from_value(node).unwrap())
        .await
        .unwrap();
}
