//! The network of the virtual nodes' pods: `berth-ipam`, executed for every pod as a container
//! runtime does it.
//!
//! This program is also the plugin, so nothing else has to be installed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use berth_api::cni::{Outcome, Version};
use berth_cluster::{PodNetwork, PodNetworkError, Sandbox};
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::{Semaphore, watch};

use super::nodes::NodeDirectories;

pub const IPAM: &str = "berth-ipam";

/// The name of the network in the plugin's conf.
const NETWORK: &str = "berth";
const INTERFACE: &str = "eth0";

/// How many DELs and GCs run at a time. The kubelets limit ADDs, which may wait for an address.
const CONCURRENCY: usize = 8;
/// A plugin that runs longer is killed: its own limits are shorter.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// More than any answer needs.
const MAX_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
pub struct Plugin {
    program: PathBuf,
    directories: NodeDirectories,
    /// For each node, whether its agent serves.
    ready: BTreeMap<String, watch::Receiver<bool>>,
    permits: Semaphore,
}

impl Plugin {
    pub fn new(
        directories: NodeDirectories,
        ready: BTreeMap<String, watch::Receiver<bool>>,
    ) -> Self {
        Self {
            // Not the path of the program: another build may be there by now.
            program: "/proc/self/exe".into(),
            directories,
            ready,
            permits: Semaphore::new(CONCURRENCY),
        }
    }

    /// Never returns for a node without an agent.
    async fn wait_until_serving(&self, node: &str) {
        if let Some(ready) = self.ready.get(node)
            && ready.clone().wait_for(|ready| *ready).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    fn conf(&self, node: &str) -> Value {
        let directory = self.directories.of(node);
        json!({
            "cniVersion": Version::LATEST.as_str(),
            "name": NETWORK,
            "type": IPAM,
            "ipam": {"type": IPAM, "socket": directory.socket(), "queueDir": directory.queue()},
        })
    }

    async fn add(&self, sandbox: &Sandbox, wait: Duration) -> Result<Vec<IpAddr>, PodNetworkError> {
        let mut conf = self.conf(&sandbox.node);
        conf["ipam"]["wait"] = format!("{}ms", wait.as_millis()).into();
        let answer = self.call("ADD", Some(sandbox), &conf).await?;
        let document = serde_json::from_slice(&answer).map_err(|error| {
            PodNetworkError(format!("{IPAM} answered what is not JSON: {error}"))
        })?;
        Ok(Outcome::read(&document)
            .addresses
            .into_iter()
            .map(|address| address.address)
            .collect())
    }

    async fn del(&self, sandbox: &Sandbox) -> Result<(), PodNetworkError> {
        let _permit = self.permits.acquire().await;
        let conf = self.conf(&sandbox.node);
        self.call("DEL", Some(sandbox), &conf).await.map(drop)
    }

    async fn gc(&self, node: &str, sandboxes: &[String]) -> Result<(), PodNetworkError> {
        let _permit = self.permits.acquire().await;
        let valid = sandboxes
            .iter()
            .map(|id| json!({"containerID": id, "ifname": INTERFACE}));
        let mut conf = self.conf(node);
        conf["cni.dev/valid-attachments"] = valid.collect();
        self.call("GC", None, &conf).await.map(drop)
    }

    /// Returns what the plugin wrote to stdout.
    async fn call(
        &self,
        what: &'static str,
        sandbox: Option<&Sandbox>,
        conf: &Value,
    ) -> Result<Vec<u8>, PodNetworkError> {
        let mut command = Command::new(&self.program);
        command
            .arg0(IPAM)
            .env_clear()
            .envs(environment(what, sandbox))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let ended = tokio::time::timeout(CALL_TIMEOUT, run(command, conf.to_string().into_bytes()));
        let Ok(ended) = ended.await else {
            return Err(PodNetworkError(format!(
                "{IPAM} {what} has not ended after {CALL_TIMEOUT:?}"
            )));
        };
        let ended = ended
            .map_err(|error| PodNetworkError(format!("{IPAM} {what} cannot be run: {error}")))?;
        if ended.status.success() {
            Ok(ended.stdout)
        } else {
            Err(PodNetworkError(format!("{IPAM} {what}: {ended}")))
        }
    }
}

fn environment(what: &str, sandbox: Option<&Sandbox>) -> Vec<(&'static str, OsString)> {
    // The specification requires one, although this plugin delegates to no other.
    let path = Path::new("/opt/cni/bin").into();
    let mut environment = vec![("CNI_COMMAND", what.into()), ("CNI_PATH", path)];
    if let Some(Sandbox {
        id,
        namespace,
        name,
        uid,
        ..
    }) = sandbox
    {
        let pod = format!("K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};K8S_POD_UID={uid}");
        environment.extend([
            ("CNI_CONTAINERID", id.into()),
            ("CNI_IFNAME", INTERFACE.into()),
            // A virtual node has no network namespaces, and an IPAM plugin needs none.
            ("CNI_NETNS", format!("virtual/{id}").into()),
            (
                "CNI_ARGS",
                format!("IgnoreUnknown=1;{pod};K8S_POD_INFRA_CONTAINER_ID={id}").into(),
            ),
        ]);
    }
    environment
}

/// The result of a plugin's process.
#[derive(Debug)]
struct PluginOutput {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

async fn run(mut command: Command, stdin: Vec<u8>) -> std::io::Result<PluginOutput> {
    let mut child = command.spawn()?;
    let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut input) = input {
            // A plugin that ends without reading reports the reason itself.
            drop(input.write_all(&stdin).await);
        }
    };
    let ((), stdout, stderr) = tokio::join!(write, read(output), read(errors));
    let (stdout, stderr) = (stdout?, stderr?);
    let status = child.wait().await?;
    Ok(PluginOutput {
        status,
        stdout,
        stderr,
    })
}

/// Reads at most [`MAX_BYTES`] and then closes the pipe, which ends a plugin that goes on writing.
async fn read(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(MAX_BYTES).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

/// Why the plugin failed: from stdout, as the specification says, else from stderr or the exit
/// status.
impl fmt::Display for PluginOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let document: Value = serde_json::from_slice(&self.stdout).unwrap_or_default();
        let text = |field: &str| document[field].as_str().filter(|text| !text.is_empty());
        match (text("msg"), text("details")) {
            (Some(msg), Some(details)) => write!(f, "{msg}: {details}"),
            (Some(msg), None) => f.write_str(msg),
            (None, _) => match String::from_utf8_lossy(&self.stderr).trim() {
                "" => write!(f, "it ended with {} and did not say why", self.status),
                stderr => f.write_str(stderr),
            },
        }
    }
}

impl PodNetwork for Plugin {
    fn ready<'a>(&'a self, node: &'a str) -> BoxFuture<'a, ()> {
        self.wait_until_serving(node).boxed()
    }

    fn attach<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<IpAddr>, PodNetworkError>> {
        self.add(sandbox, wait).boxed()
    }

    fn detach<'a>(&'a self, sandbox: &'a Sandbox) -> BoxFuture<'a, Result<(), PodNetworkError>> {
        self.del(sandbox).boxed()
    }

    fn keep_only<'a>(
        &'a self,
        node: &'a str,
        sandboxes: &'a [String],
    ) -> BoxFuture<'a, Result<(), PodNetworkError>> {
        self.gc(node, sandboxes).boxed()
    }
}

#[cfg(test)]
mod tests;
