//! A node whose agent can be killed: its files, the API server that feeds it, and its plugin.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_api::NodeNetworkConfig;
use berth_api::names::NAMESPACE;
use berth_apiserver::{Options, Server};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use uuid::Uuid;

use super::runtime::{Living, serve};

/// How many the node has.
pub const ADDRESSES: u64 = 64;

pub struct Node {
    directory: TempDir,
    plugin: PathBuf,
    client: Client,
}

/// Ended with the test, however that ends.
pub struct Process(Child);

impl Process {
    /// SIGKILL: no handler runs, no buffer is flushed.
    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Node {
    pub async fn start(living: &Living) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::open(Options::default()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubeconfig = server.kubeconfig(listener.local_addr().unwrap());
        std::fs::write(directory.path().join("kubeconfig"), kubeconfig).unwrap();
        let client = server.client();
        tokio::spawn(server.serve(listener).unwrap());
        let crds = Api::<CustomResourceDefinition>::all(client.clone());
        for crd in berth_api::crds::all() {
            crds.create(&PostParams::default(), &crd).await.unwrap();
            await_condition(crds.clone(), &crd.name_any(), conditions::is_crd_established())
                .await
                .unwrap();
        }
        let nncs = Api::<NodeNetworkConfig>::namespaced(client.clone(), NAMESPACE);
        let nnc = json!({"metadata": {"name": "n1"}, "spec": {"requestedIPCount": ADDRESSES}});
        nncs.create(&PostParams::default(), &serde_json::from_value(nnc).unwrap())
            .await
            .unwrap();
        let listed: Vec<Value> = (0..ADDRESSES)
            .map(|n| json!({"name": Uuid::from_u128(u128::from(n) + 1), "ip": format!("10.64.1.{n}")}))
            .collect();
        let status = json!({"status": {
            "scaler": {"batchSize": 64, "requestThresholdPercent": 50, "releaseThresholdPercent": 150, "maxIPCount": 64},
            "networkContainers": [{
                "id": "c1", "primaryIP": "10.64.0.4", "subnetName": "pods", "subnetAddressSpace": "10.64.0.0/16", "ipAssignments": listed,
            }],
        }});
        nncs.patch_status("n1", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
        serve(&directory.path().join("cri.sock"), living.clone());
        let berth = Path::new(env!("CARGO_BIN_EXE_berth"));
        // Its own program where the whole workspace was built, for it is quicker to start.
        let own = berth.with_file_name("berth-ipam");
        let plugin = if own.is_file() { own } else { berth.to_owned() };
        Self {
            directory,
            plugin,
            client,
        }
    }

    #[allow(dead_code, reason = "one of two programs needs it")]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// It may take a moment until it serves.
    pub fn start_agent(&self) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_berth"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("BERTH_") || name == "KUBECONFIG" {
                command.env_remove(name);
            }
        }
        command.args([
            "agent",
            "--node-name",
            "n1",
            "--reclaim-grace",
            "2s",
            "--log-level",
            "error",
        ]);
        let paths = [
            ("--kubeconfig", "kubeconfig"),
            ("--socket", "agent.sock"),
            ("--state-dir", "state"),
            ("--queue-dir", "queue"),
            ("--lock-dir", "locks"),
            ("--cri-socket", "cri.sock"),
        ];
        for (flag, name) in paths {
            command.arg(flag).arg(self.path(name));
        }
        Process(command.stdin(Stdio::null()).spawn().unwrap())
    }

    #[allow(dead_code, reason = "one of two programs needs it")]
    pub fn journal(&self) -> Vec<u8> {
        std::fs::read(self.path("state/journal")).unwrap_or_default()
    }

    pub fn put_journal(&self, content: Option<&[u8]>) {
        match content {
            Some(content) => std::fs::write(self.path("state/journal"), content).unwrap(),
            None => drop(std::fs::remove_file(self.path("state/journal"))),
        }
    }

    /// The plugin's answer, or why it failed.
    pub fn plugin(
        &self,
        command: &str,
        container: &str,
        valid: &[String],
    ) -> Result<Value, String> {
        self.plugin_on(command, container, "eth0", valid)
    }

    /// For an interface of that name.
    pub fn plugin_on(
        &self,
        command: &str,
        container: &str,
        interface: &str,
        valid: &[String],
    ) -> Result<Value, String> {
        let valid: Vec<Value> = valid
            .iter()
            .map(|container| json!({"containerID": container, "ifname": "eth0"}))
            .collect();
        let mut conf = json!({
            "cniVersion": "1.1.0", "name": "pods", "type": "berth-ipam",
            "ipam": {"type": "berth-ipam", "socket": self.path("agent.sock"), "queueDir": self.path("queue")},
        });
        if command == "GC" {
            conf["cni.dev/valid-attachments"] = valid.into();
        }
        let mut call = Command::new(&self.plugin);
        call.arg0("berth-ipam")
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_PATH", "/opt/cni/bin");
        if !container.is_empty() {
            call.env("CNI_CONTAINERID", container)
                .env("CNI_IFNAME", interface)
                .env("CNI_NETNS", "/proc/self/ns/net");
            call.env(
                "CNI_ARGS",
                format!("IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={container}"),
            );
        }
        let mut child = call.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(conf.to_string().as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if output.status.success() {
            Ok(serde_json::from_str(&text).unwrap_or_default())
        } else {
            Err(text)
        }
    }

    /// Once the agent says something.
    pub fn pool(&self) -> Value {
        loop {
            if let Some(status) = self.status() {
                return status["pool"].clone();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn status(&self) -> Option<Value> {
        self.get("/v1/status")
    }

    /// What the agent says, if it says anything.
    pub fn get(&self, path: &str) -> Option<Value> {
        let mut stream = UnixStream::connect(self.path("agent.sock")).ok()?;
        let head = format!("GET {path} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }
}
