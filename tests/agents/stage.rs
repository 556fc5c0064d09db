//! Nodes whose only network is ours, the controllers, and an agent on each node.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;
use berth_api::agent::{AddressLine, AddressState, entry_of};
use berth_api::cni::Attachment;
use berth_e2e::{Scene, Seen, install, roles, socket, wait_for};
use berth_testbed::{Builder, Component, Network, Node, POD_IMAGE};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, PropagationPolicy};
use serde_json::{Value, json};

/// The port of every agent's metrics: each node has a network of its own.
pub const METRICS_PORT: u16 = 10363;
/// The node's own runtime.
pub const CRI: [&str; 2] = ["--cri-socket", "/run/containerd/containerd.sock"];

pub struct Stage {
    pub scene: Scene,
    agents: RefCell<BTreeMap<String, Component>>,
    controller: RefCell<Option<Component>>,
    /// Has one plugin of others, `loopback`: containerd calls it for every pod, whatever the
    /// network is.
    _plugins: tempfile::TempDir,
}

impl Stage {
    /// The nodes have no network before [`Stage::start_agent`].
    pub async fn open(test: &str, nodes: u8, spec: Value) -> Self {
        Self::open_with(test, nodes, spec, |cluster| cluster).await
    }

    /// `special` changes the cluster before it starts.
    pub async fn open_with(
        test: &str,
        nodes: u8,
        spec: Value,
        special: impl FnOnce(Builder<'static>) -> Builder<'static>,
    ) -> Self {
        let plugins = tempfile::tempdir().unwrap();
        let directory = PathBuf::from(plugins.path());
        std::os::unix::fs::symlink("/usr/lib/cni/loopback", directory.join("loopback")).unwrap();
        let bare = move |_: &berth_testbed::Seat| Network {
            configuration: None,
            plugins: directory.clone(),
        };
        let scene = Scene::open(test, |cluster| special(cluster.nodes(nodes).network(bare)))
            .await
            .unwrap();
        install(&scene, &spec).await.unwrap();
        let stage = Self {
            scene,
            agents: RefCell::default(),
            controller: RefCell::default(),
            _plugins: plugins,
        };
        stage.start_controller(&[]);
        stage
    }

    /// Starts the controllers on the first node.
    pub fn start_controller(&self, flags: &[&str]) {
        let node = self.scene.node("node-1").unwrap();
        let mut command = node.command(berth_e2e::berth().unwrap());
        command
            .args(["controller", "--kubeconfig"])
            .arg(roles::of_controller(&self.scene).unwrap())
            .args(flags);
        let controller = node.start_component("berth-controller", command).unwrap();
        *self.controller.borrow_mut() = Some(controller);
    }

    pub fn stop_controller(&self) {
        let controller = self.controller.borrow_mut().take().unwrap();
        let process = controller.process().unwrap();
        process.terminate().unwrap();
        process.wait().unwrap();
    }

    pub fn nodes(&self) -> &[Node] {
        self.scene.cluster.nodes()
    }

    /// Returns when the agent serves. The node becomes Ready only after that.
    pub async fn start_agent(&self, node: &Node) {
        self.start_agent_with(node, &CRI).await;
    }

    pub async fn start_agent_with(&self, node: &Node, flags: &[&str]) {
        let mut command = node.command(berth_e2e::berth().unwrap());
        let kubeconfig = roles::of_agent(&self.scene, node.name()).await.unwrap();
        command.arg("agent").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--node-name", node.name(), "--install-cni"]);
        command
            .arg(format!("--metrics-listen=0.0.0.0:{METRICS_PORT}"))
            .args(flags);
        let agent = node.start_component("berth-agent", command).unwrap();
        self.agents.borrow_mut().insert(node.name().to_owned(), agent);
        let look = async || {
            self.agents.borrow_mut().get_mut(node.name()).unwrap().check()?;
            Ok(match self.status(node) {
                Ok(_) => Seen::There,
                Err(error) => Seen::NotYet(error.to_string()),
            })
        };
        wait_for(&self.scene, "the agent serves", look).await.unwrap();
    }

    /// With SIGKILL, as when the machine's memory has run out.
    pub fn kill_agent(&self, node: &Node) {
        let agent = self.agents.borrow_mut().remove(node.name()).unwrap();
        let process = agent.process().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    pub fn stop_agent(&self, node: &Node) {
        let agent = self.agents.borrow_mut().remove(node.name()).unwrap();
        let process = agent.process().unwrap();
        process.terminate().unwrap();
        process.wait().unwrap();
    }

    pub fn agent_memory(&self, node: &Node) -> u64 {
        let agents = self.agents.borrow();
        agents[node.name()].process().unwrap().resident().unwrap()
    }

    pub fn status(&self, node: &Node) -> Result<berth_api::agent::Status> {
        socket::status(&node.path("/run/berth"))
    }

    pub fn addresses(&self, node: &Node) -> Vec<AddressLine> {
        socket::addresses(&node.path("/run/berth")).unwrap()
    }

    pub fn assigned(&self, node: &Node) -> Vec<AddressLine> {
        let all = self.addresses(node).into_iter();
        all.filter(|line| line.state == AddressState::Assigned).collect()
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.scene.client.clone())
    }

    pub async fn listed(&self) -> Vec<Pod> {
        self.pods().list(&ListParams::default()).await.unwrap().items
    }

    /// Creates `replicas` pods, all on one node.
    pub async fn deploy(&self, node: &str, replicas: usize) {
        let container = json!({"name": "web", "image": POD_IMAGE, "imagePullPolicy": "Never"});
        let labels = json!({"app": node});
        let deployment = json!({
            "metadata": {"name": node},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container],
                        "automountServiceAccountToken": false, "enableServiceLinks": false,
                    },
                },
            },
        });
        let deployments = Api::<Deployment>::default_namespaced(self.scene.client.clone());
        let deployment = serde_json::from_value(deployment).unwrap();
        deployments.create(&PostParams::default(), &deployment).await.unwrap();
    }

    pub async fn undeploy(&self, node: &str) {
        let deployments = Api::<Deployment>::default_namespaced(self.scene.client.clone());
        let background = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        deployments.delete(node, &background).await.unwrap();
    }

    /// Waits until at least `count` pods run, and returns them.
    pub async fn run(&self, count: usize) -> Vec<Pod> {
        let mut found = Vec::new();
        let look = async || {
            found = self.pods().list(&ListParams::default()).await?.items;
            found.retain(|pod| phase(pod) == "Running");
            Ok(if found.len() >= count {
                Seen::There
            } else {
                Seen::NotYet(format!("{} run", found.len()))
            })
        };
        wait_for(&self.scene, &format!("{count} pods run"), look).await.unwrap();
        found
    }

    /// Waits until no pod is left, not even a terminating one.
    pub async fn gone(&self) {
        let look = async || {
            let left = self.pods().list(&ListParams::default()).await?.items;
            Ok(if left.is_empty() {
                Seen::There
            } else {
                Seen::NotYet(format!("{} are left", left.len()))
            })
        };
        wait_for(&self.scene, "all pods are gone", look).await.unwrap();
    }

    /// The releases in the node's queue, by attachment.
    pub fn queued(&self, node: &Node) -> std::io::Result<BTreeSet<Attachment>> {
        let found = std::fs::read_dir(node.path("/var/lib/berth/release-queue"))?;
        let names = found.map(|found| found.map(|found| found.file_name()));
        let names: Vec<_> = names.collect::<Result<_, _>>()?;
        Ok(names.iter().filter_map(|name| entry_of(name.to_str()?)).collect())
    }

    /// Waits until no address is assigned on the node, no release is queued, and the kernel has no
    /// link or route of a pod.
    pub async fn cleared(&self, node: &Node) {
        let look = async || {
            let status = self.status(node)?;
            let links = on_node(node, "ip -o link show type veth");
            let routes = on_node(node, "ip route show") + &on_node(node, "ip -6 route show");
            let routes: Vec<&str> = routes
                .lines()
                .filter(|line| line.starts_with("10.64.") || line.starts_with("fd64"))
                .collect();
            let queued = self.queued(node)?.len();
            // The link that is left is the node's own.
            let clear = status.pool.assigned == 0
                && links.lines().count() == 1
                && routes.is_empty()
                && queued == 0;
            Ok(if clear {
                Seen::There
            } else {
                Seen::NotYet(format!("{:?}, {queued} queued, {routes:?}\n{links}", status.pool))
            })
        };
        wait_for(&self.scene, "nothing is left of the pods", look)
            .await
            .unwrap();
    }
}

pub fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()).unwrap_or("none")
}

pub fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap()
}

pub fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().node_name.as_deref().unwrap()
}

pub fn address_of(pod: &Pod) -> &str {
    pod.status.as_ref().unwrap().pod_ip.as_deref().unwrap()
}

pub fn on_node(node: &Node, line: &str) -> String {
    let mut words = line.split(' ');
    let mut command = node.command(words.next().unwrap());
    let output = command.args(words).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
