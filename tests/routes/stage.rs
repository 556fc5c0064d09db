//! Nodes with podCIDRs from a Subnet, and an agent on each that makes routes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use berth_e2e::{Scene, Seen, install, roles, wait_for};
use berth_testbed::{Builder, Component, Network, Node, POD_IMAGE};
use k8s_openapi::api::core::v1::{Node as KubernetesNode, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

pub struct Stage {
    pub scene: Scene,
    agents: RefCell<BTreeMap<String, Component>>,
    kubeconfigs: BTreeMap<String, PathBuf>,
    _controller: Component,
    /// Has one plugin, `loopback`: containerd calls it for every pod, whatever the network is.
    _plugins: tempfile::TempDir,
}

impl Stage {
    pub async fn open(test: &str, nodes: u8) -> Self {
        Self::open_with(test, nodes, |cluster| cluster).await
    }

    /// `special` changes the cluster before it starts.
    pub async fn open_with(
        test: &str,
        nodes: u8,
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
        let spec = json!({"use": "node-cidrs", "cidrs": ["10.244.0.0/16"]});
        install(&scene, &spec).await.unwrap();
        let rbac = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/rbac");
        for file in ["nodeipam.yaml", "agent-routes.yaml"] {
            scene.cluster.apply(&rbac.join(file)).unwrap();
        }
        let node = scene.node("node-1").unwrap();
        let mut command = node.command(berth_e2e::berth().unwrap());
        command.args(["controller", "--controllers", "*,nodeipam", "--kubeconfig"]);
        command.arg(roles::of_controller(&scene).unwrap());
        let controller = node.start_component("berth-controller", command).unwrap();
        let mut kubeconfigs = BTreeMap::new();
        for node in scene.cluster.nodes() {
            let kubeconfig = roles::of_agent(&scene, node.name()).await.unwrap();
            kubeconfigs.insert(node.name().to_owned(), kubeconfig);
        }
        Self {
            scene,
            agents: RefCell::default(),
            kubeconfigs,
            _controller: controller,
            _plugins: plugins,
        }
    }

    pub fn nodes(&self) -> &[Node] {
        self.scene.cluster.nodes()
    }

    pub fn start_agent(&self, node: &Node) {
        let mut command = node.command(berth_e2e::berth().unwrap());
        command
            .arg("agent")
            .arg("--kubeconfig")
            .arg(&self.kubeconfigs[node.name()]);
        command.args(["--node-name", node.name(), "--install-cni", "--routes", "linux"]);
        command.args(["--cri-socket", "/run/containerd/containerd.sock"]);
        let agent = node.start_component("berth-agent", command).unwrap();
        self.agents.borrow_mut().insert(node.name().to_owned(), agent);
    }

    /// With SIGKILL, as when the machine's memory has run out.
    pub fn kill_agent(&self, node: &Node) {
        let agent = self.agents.borrow_mut().remove(node.name()).unwrap();
        let process = agent.process().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Waits until every node has `count` routes of ours.
    pub async fn routed(&self, count: usize) {
        let look = async || {
            let mut seen = Vec::new();
            for node in self.nodes() {
                self.agents.borrow_mut().get_mut(node.name()).unwrap().check()?;
                seen.push(on_node(node, "ip route show proto 77"));
            }
            let all = seen.iter().all(|routes| routes.lines().count() == count);
            Ok(if all {
                Seen::There
            } else {
                Seen::NotYet(seen.join("--\n"))
            })
        };
        wait_for(&self.scene, "all nodes have their routes", look)
            .await
            .unwrap();
    }

    pub async fn cidr(&self, node: &str) -> String {
        let node = Api::<KubernetesNode>::all(self.scene.client.clone())
            .get(node)
            .await
            .unwrap();
        node.spec.unwrap().pod_cidr.unwrap()
    }

    pub async fn condition_is(&self, name: &str, status: &str, reason: &str) {
        let nodes = Api::<KubernetesNode>::all(self.scene.client.clone());
        let look = async || {
            let conditions = nodes.get(name).await?.status.and_then(|status| status.conditions);
            let mut conditions = conditions.unwrap_or_default().into_iter();
            let found = conditions.find(|one| one.type_ == "NetworkUnavailable");
            let found = found.map(|one| (one.status, one.reason.unwrap_or_default()));
            Ok(match found {
                Some((is, why)) if is == status && why == reason => Seen::There,
                found => Seen::NotYet(format!("{found:?}")),
            })
        };
        wait_for(&self.scene, &format!("{name}: {status}, {reason}"), look)
            .await
            .unwrap();
    }

    /// Creates a Node without a machine. Its address is an unused one of the wire.
    pub async fn ghost(&self, name: &str, cidr: &str) {
        let nodes = Api::<KubernetesNode>::all(self.scene.client.clone());
        let node =
            json!({"metadata": {"name": name}, "spec": {"podCIDR": cidr, "podCIDRs": [cidr]}});
        let node = serde_json::from_value(node).unwrap();
        let first = self.nodes()[0].address().octets();
        let address = format!("{}.{}.{}.200", first[0], first[1], first[2]);
        let look = async || match nodes.create(&PostParams::default(), &node).await {
            Ok(_) => Ok(Seen::There),
            Err(error) => Ok(Seen::NotYet(error.to_string())),
        };
        wait_for(&self.scene, "the ghost is there", look).await.unwrap();
        let addresses = json!([{"type": "InternalIP", "address": address}]);
        let patch = Patch::Merge(json!({"status": {"addresses": addresses}}));
        nodes.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Runs a pod with a web server on each node.
    pub async fn run_pods(&self) -> Vec<Pod> {
        let pods = Api::<Pod>::default_namespaced(self.scene.client.clone());
        for node in self.nodes() {
            let container = json!({"name": "web", "image": POD_IMAGE, "imagePullPolicy": "Never"});
            let pod = json!({
                "metadata": {"name": node.name()},
                "spec": {
                    "nodeName": node.name(), "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                    "automountServiceAccountToken": false, "enableServiceLinks": false,
                    "tolerations": [{"operator": "Exists"}],
                },
            });
            let pod = serde_json::from_value(pod).unwrap();
            // Another controller makes the ServiceAccount of pods: until then, this fails.
            let look = async || match pods.create(&PostParams::default(), &pod).await {
                Ok(_) => Ok(Seen::There),
                Err(error) => Ok(Seen::NotYet(error.to_string())),
            };
            wait_for(&self.scene, "the pod is created", look).await.unwrap();
        }
        let mut found = Vec::new();
        let look = async || {
            found = pods.list(&ListParams::default()).await?.items;
            found.retain(|pod| {
                pod.status.as_ref().is_some_and(|status| {
                    status.phase.as_deref() == Some("Running") && status.pod_ip.is_some()
                })
            });
            Ok(if found.len() == self.nodes().len() {
                Seen::There
            } else {
                Seen::NotYet(format!("{} run", found.len()))
            })
        };
        wait_for(&self.scene, "a pod runs on each node", look).await.unwrap();
        found
    }

    /// Waits until a process in the pod gets an answer from the server at `address`.
    pub async fn reach(&self, from: &Pod, address: &str) {
        let node = self.scene.node(node_of(from)).unwrap();
        let look = async || {
            let ctr = "ctr -n k8s.io tasks ls -q";
            let mut seen = String::new();
            for task in on_node(node, ctr).lines() {
                let mut exec = node.command("ctr");
                exec.args(["-n", "k8s.io", "tasks", "exec", "--exec-id"]);
                exec.arg(format!("reach-{}", std::process::id()));
                exec.args([task, "wget", "-q", "-O", "-", &format!("http://{address}:8080/")]);
                let output = exec.output()?;
                if output.status.success() {
                    return Ok(Seen::There);
                }
                seen.push_str(&String::from_utf8_lossy(&output.stderr));
            }
            Ok(Seen::NotYet(seen))
        };
        let what = format!("{} reaches {address}", node_of(from));
        wait_for(&self.scene, &what, look).await.unwrap();
    }
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
