//! Debian's Prometheus beside all components, with our alerts: each of them fires once its cause is
//! there, and not before. In the end every query of the Grafana dashboard has data.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_api::Subnet;
use berth_api::agent::{MAX_QUEUE_ENTRIES, entry_name, overflow_of};
use berth_api::cni::Attachment;
use berth_e2e::prometheus::{Job, PendingPeriod, Prometheus, alerts, queries};
use berth_e2e::rights::{Asked, Audit};
use berth_e2e::{Seen, wait_for};
use berth_testbed::{Builder, Component, Node, POD_IMAGE, free_port};
use k8s_openapi::api::core::v1::{Node as KubernetesNode, Pod};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::stage::{CRI, METRICS_PORT, Stage, address_of, phase};

const CONTROLLER_PORT: u16 = 10360;
/// Of 16 addresses, 14 can be assigned.
const MACHINES: &str = "10.70.0.0/28";
const CLAIMS_THAT_FIT: usize = 14;
const QUEUE: &str = "/var/lib/berth/release-queue";

struct Watched {
    stage: Stage,
    prometheus: Prometheus,
    /// The alerts whose causes were made so far.
    caused: BTreeSet<String>,
    audit: Audit,
    _audit_directory: tempfile::TempDir,
    _scheduler: [Component; 2],
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alert_fires_when_its_cause_is_there() {
    let mut watched = Watched::open().await;
    watched.fires(&[]).await;

    watched.lose_an_agent().await;
    watched.fill_a_queue().await;
    // Taken now, because later the controller is refused.
    let asked = watched.audit.asked().unwrap();
    watched.take_rights_away().await;
    watched.fill_the_machines_subnet().await;
    watched.fill_the_pods_subnet().await;
    watched.put_a_node_out_of_reach().await;
    watched.every_query_has_data().await;
    watched.double_an_address().await;

    assert_eq!(watched.caused, alerts().unwrap(), "each has had its cause");
    watched.rights_of_the_route_controller_are_least(&asked).await;
}

impl Watched {
    async fn open() -> Self {
        let spec = json!({"cidrs": ["10.64.0.0/24"], "reuseDelay": "1s"});
        let audit_directory = tempfile::tempdir().unwrap();
        let audit = Audit::of(audit_directory.path()).unwrap();
        let audited = |cluster: Builder<'static>| audit.on(cluster);
        let stage = Stage::open_with("agents-alerts", 2, spec, audited).await;
        let scene = &stage.scene;
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let roles = ["route.yaml", "claim.yaml", "scheduler.yaml"];
        for role in roles {
            scene.cluster.apply(&repository.join("deploy/rbac").join(role)).unwrap();
        }
        let cluster_api = repository.join("tests/machines/cluster-api.yaml");
        scene.cluster.apply(&cluster_api).unwrap();
        create_subnet(
            &stage,
            "routed",
            json!({"use": "node-cidrs", "cidrs": ["10.244.0.0/16"]}),
        )
        .await;
        stage.stop_controller();
        start_controller(&stage);
        for node in stage.nodes() {
            stage.start_agent(node).await;
        }
        let near = neighbour(&stage.nodes()[0]);
        create_node(&stage, "near", "10.244.1.0/24", &near).await;
        let (scheduler, metrics) = start_scheduler(&stage).await;
        let agents = stage.nodes().iter();
        let agents = agents.map(|node| format!("{}:{METRICS_PORT}", node.address()));
        let controller = format!("{}:{CONTROLLER_PORT}", stage.nodes()[0].address());
        let jobs = [
            ("agent", agents.collect()),
            ("controller", vec![controller]),
            ("scheduler", vec![metrics]),
        ];
        let jobs = jobs.map(|(component, targets)| Job { component, targets });
        // A pod that the extender is asked about, and one for each agent.
        for (name, more) in [
            ("asked", json!({"schedulerName": "berth"})),
            ("on-node-1", json!({"nodeName": "node-1"})),
            ("on-node-2", json!({"nodeName": "node-2"})),
        ] {
            create_pod(&stage, name, more).await;
        }
        stage.run(3).await;
        let prometheus = Prometheus::start(scene, &jobs, PendingPeriod::OneSecond).unwrap();
        // Before the first scrape of the controller, the alert about a missing leader fires.
        let quiet = ["count(up == 1) == 4", "absent(ALERTS{alertstate=\"firing\"})"];
        let quiet = quiet.map(str::to_owned);
        let look = async || {
            Ok(match prometheus.without_data(&quiet) {
                Ok(without) if without.is_empty() => Seen::There,
                Ok(without) => Seen::NotYet(format!("{without:?}")),
                Err(error) => Seen::NotYet(error.to_string()),
            })
        };
        wait_for(scene, "all components are scraped", look).await.unwrap();
        Self {
            stage,
            prometheus,
            caused: BTreeSet::new(),
            audit,
            _audit_directory: audit_directory,
            _scheduler: scheduler,
        }
    }

    /// Waits until these alerts fire. No alert may fire whose cause was not made.
    async fn fires(&mut self, alerts: &[&str]) {
        self.caused.extend(alerts.iter().map(ToString::to_string));
        let mut left: BTreeSet<String> = alerts.iter().map(ToString::to_string).collect();
        let caused = &self.caused;
        let look = async || {
            let firing = self.prometheus.firing()?;
            let early: Vec<&String> = firing.difference(caused).collect();
            assert!(early.is_empty(), "without a cause: {early:?}");
            left.retain(|alert| !firing.contains(alert));
            Ok(if left.is_empty() {
                Seen::There
            } else {
                Seen::NotYet(format!("{left:?} do not fire"))
            })
        };
        wait_for(&self.stage.scene, "alerts fire", look).await.unwrap();
        println!("fired: {alerts:?}");
    }

    /// The agent is down while a pod is deleted. Then its journal is lost, an entry of the queue
    /// can't be removed, and the queue has a file that is no entry.
    async fn lose_an_agent(&mut self) {
        let node = &self.stage.nodes()[1];
        self.stage.kill_agent(node);
        self.fires(&["BerthAgentDown"]).await;
        let node = &self.stage.nodes()[1];
        let queue = node.path(QUEUE);
        let pods = self.stage.pods();
        pods.delete("on-node-2", &DeleteParams::default()).await.unwrap();
        let look = async || {
            let queued = self.stage.queued(node)?.len();
            Ok(match queued {
                0 => Seen::NotYet("nothing is queued".to_owned()),
                _ => Seen::There,
            })
        };
        wait_for(&self.stage.scene, "the release is queued", look)
            .await
            .unwrap();
        let entry = entries(&queue).into_iter().next().unwrap();
        run(Command::new("touch").args(["--date", "10 minutes ago"]).arg(&entry));
        let kept = Kept::new(entry);
        std::fs::write(queue.join("notes.txt"), "to be looked at").unwrap();
        for file in std::fs::read_dir(node.path("/var/lib/berth")).unwrap() {
            let path = file.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("journal") {
                std::fs::remove_file(path).unwrap();
            }
        }
        // Without the runtime's socket the agent can't know which pods are gone.
        self.stage.start_agent_with(node, &[]).await;
        self.fires(&["BerthReleaseQueueBroken", "BerthReleaseQueueStuck", "BerthQuarantine"])
            .await;
        drop(kept);
        self.start_as_it_should_be().await;
    }

    /// The agent is down for so long that a release no longer fits into the queue.
    async fn fill_a_queue(&mut self) {
        create_pod(&self.stage, "left-out", json!({"nodeName": "node-2"})).await;
        let pods = self.stage.pods();
        let look = async || {
            let pod = pods.get("left-out").await?;
            Ok(match phase(&pod) {
                "Running" => Seen::There,
                other => Seen::NotYet(other.to_owned()),
            })
        };
        wait_for(&self.stage.scene, "the pod runs", look).await.unwrap();
        let node = &self.stage.nodes()[1];
        self.stage.kill_agent(node);
        let queue = node.path(QUEUE);
        for n in 0..MAX_QUEUE_ENTRIES {
            let attachment = Attachment::new(&format!("failed{n}"), "eth0").unwrap();
            let name = entry_name(&attachment);
            let release = json!({"attachment": attachment, "started": 1}).to_string();
            std::fs::write(queue.join(name), release).unwrap();
        }
        pods.delete("left-out", &DeleteParams::default()).await.unwrap();
        let look = async || {
            let is_mark = |path: &PathBuf| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                overflow_of(&name).is_some()
            };
            Ok(match entries(&queue).iter().any(is_mark) {
                true => Seen::There,
                false => Seen::NotYet("there is no mark".to_owned()),
            })
        };
        wait_for(&self.stage.scene, "a release does not fit", look)
            .await
            .unwrap();
        // Without the runtime's socket the agent can't know which release did not fit.
        self.stage.start_agent_with(node, &[]).await;
        self.fires(&["BerthReleaseQueueOverflowed"]).await;
        self.start_as_it_should_be().await;
    }

    /// Restarts the agent, now with the runtime's socket.
    async fn start_as_it_should_be(&self) {
        let node = &self.stage.nodes()[1];
        self.stage.kill_agent(node);
        self.stage.start_agent_with(node, &CRI).await;
    }

    /// Fills the Subnet of machines with claims of Cluster API.
    async fn fill_the_machines_subnet(&mut self) {
        let spec = json!({"use": "machines", "cidrs": [MACHINES]});
        create_subnet(&self.stage, "machines", spec).await;
        // The alert about a Subnet that will be full needs some samples before the number falls.
        let free =
            vec!["count_over_time(berth_subnet_free{subnet=\"machines\"}[1m]) > 2".to_owned()];
        self.has(&free).await;
        self.claim(0..CLAIMS_THAT_FIT - 1).await;
        self.fires(&["BerthSubnetAlmostFull", "BerthSubnetFullSoon"]).await;
        self.claim(CLAIMS_THAT_FIT - 1..CLAIMS_THAT_FIT + 2).await;
        self.fires(&["BerthSubnetFull", "BerthMachinesWait"]).await;
    }

    async fn claim(&self, numbers: std::ops::Range<usize>) {
        let group = "ipam.cluster.x-k8s.io";
        let kind = GroupVersionKind::gvk(group, "v1beta2", "IPAddressClaim");
        let resource = ApiResource::from_gvk_with_plural(&kind, "ipaddressclaims");
        let client = self.stage.scene.client.clone();
        let claims = Api::<DynamicObject>::default_namespaced_with(client, &resource);
        for number in numbers {
            let pool = json!({"apiGroup": "berth.dev", "kind": "Subnet", "name": "machines"});
            let claim = DynamicObject::new(&format!("claim-{number}"), &resource)
                .data(json!({"spec": {"poolRef": pool}}));
            claims.create(&PostParams::default(), &claim).await.unwrap();
        }
    }

    /// Most of the Subnet is excluded, and then there are more pods than addresses.
    async fn fill_the_pods_subnet(&mut self) {
        let subnets = Api::<Subnet>::all(self.stage.scene.client.clone());
        let smaller = json!({"spec": {"excludes": ["10.64.0.64/26", "10.64.0.128/25"]}});
        let params = PatchParams::default();
        subnets.patch("pods", &params, &Patch::Merge(smaller)).await.unwrap();
        self.stage.deploy("node-1", 80).await;
        self.fires(&["BerthNodesWait", "BerthAddRefused"]).await;
    }

    /// The new Node's address is on no network of the node that makes the routes.
    async fn put_a_node_out_of_reach(&mut self) {
        create_node(&self.stage, "far", "10.244.2.0/24", "203.0.113.9").await;
        self.fires(&["BerthRoutesFail"]).await;
    }

    async fn every_query_has_data(&self) {
        self.has(&queries().unwrap()).await;
    }

    async fn has(&self, queries: &[String]) {
        let look = async || {
            let without = self.prometheus.without_data(queries)?;
            Ok(if without.is_empty() {
                Seen::There
            } else {
                Seen::NotYet(format!("{without:#?}"))
            })
        };
        wait_for(&self.stage.scene, "every query has data", look).await.unwrap();
    }

    async fn take_rights_away(&mut self) {
        let bindings = Api::<ClusterRoleBinding>::all(self.stage.scene.client.clone());
        let binding = bindings.get("berth-controller").await.unwrap();
        bindings
            .delete("berth-controller", &DeleteParams::default())
            .await
            .unwrap();
        let look = async || {
            let mut kubectl = self.stage.scene.cluster.kubectl();
            kubectl.args(["auth", "can-i", "update", "addressblocks.berth.dev"]);
            kubectl.arg("--as");
            let output = kubectl
                .arg("system:serviceaccount:kube-system:berth-controller")
                .output()?;
            Ok(match output.status.success() {
                true => Seen::NotYet("it may".to_owned()),
                false => Seen::There,
            })
        };
        let what = "the controller may write no AddressBlock";
        wait_for(&self.stage.scene, what, look).await.unwrap();
        create_node(&self.stage, "late", "10.244.3.0/24", &neighbour(&self.stage.nodes()[1])).await;
        self.fires(&["BerthReconcilesFail"]).await;
        let mut again = ClusterRoleBinding {
            metadata: kube::core::ObjectMeta::default(),
            ..binding
        };
        again.metadata.name = Some("berth-controller".to_owned());
        bindings.create(&PostParams::default(), &again).await.unwrap();
    }

    /// The status of a pod on another node has the address of a running pod. The next leader sees
    /// both.
    async fn double_an_address(&mut self) {
        self.stage.stop_controller();
        self.fires(&["BerthNoLeader"]).await;
        let pods = self.stage.pods();
        let address = address_of(&pods.get("on-node-1").await.unwrap()).to_owned();
        create_pod(&self.stage, "double", json!({"nodeName": "near"})).await;
        let status = json!({"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
        }});
        let (params, patch) = (PatchParams::default(), Patch::Merge(status));
        pods.patch_status("double", &params, &patch).await.unwrap();
        start_controller(&self.stage);
        self.fires(&["BerthAddressConflict"]).await;
    }

    async fn rights_of_the_route_controller_are_least(&self, asked: &Asked) {
        self.stage.stop_controller();
        let scene = &self.stage.scene;
        let role = Some("berth-controller-route");
        let superfluous = asked.superfluous_of(scene, "berth-controller", role).await.unwrap();
        // The kernel marks routes, so the controller needs no ConfigMap to know which are its own.
        let elsewhere = ["/configmaps get", "/configmaps update", "/configmaps create"];
        let known: BTreeSet<String> = elsewhere.map(str::to_owned).into();
        assert_eq!(superfluous, known);
    }
}

/// A file that can't be removed, until this is dropped.
struct Kept {
    path: PathBuf,
}

impl Kept {
    fn new(path: PathBuf) -> Self {
        run(Command::new("chattr").arg("+i").arg(&path));
        Self { path }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = Command::new("chattr").arg("-i").arg(&self.path).status();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

fn entries(queue: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(queue).unwrap().map(|file| file.unwrap());
    let named = files.filter(|file| !file.file_name().to_string_lossy().starts_with('.'));
    named.map(|file| file.path()).filter(|path| path.is_file()).collect()
}

fn start_controller(stage: &Stage) {
    let metrics = format!("--metrics-listen=0.0.0.0:{CONTROLLER_PORT}");
    stage.start_controller(&["--controllers=*,route,claim", "--cloud=linux", &metrics]);
}

/// Our extender, a kube-scheduler that asks it, and where the extender's metrics are.
async fn start_scheduler(stage: &Stage) -> ([Component; 2], String) {
    let scene = &stage.scene;
    let account = ("kube-system", "berth-scheduler");
    let kubeconfig = scene.cluster.kubeconfig_of_account(account.0, account.1, None).unwrap();
    let [port, metrics] = [free_port().unwrap(), free_port().unwrap()];
    let flags = [
        "scheduler".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--listen=127.0.0.1:{port}"),
        format!("--metrics-listen=127.0.0.1:{metrics}"),
    ];
    let berth = berth_e2e::berth().unwrap();
    let extender = scene
        .cluster
        .start_component("berth-scheduler", &berth, &flags)
        .unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let file = repository.join("deploy/scheduler/extender.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let own = scene.cluster.control_plane().kubeconfig_of_scheduler();
    let text = text
        .replace("/etc/kubernetes/scheduler.conf", &own.display().to_string())
        .replace("leaderElect: true", "leaderElect: false")
        .replace("127.0.0.1:10361", &format!("127.0.0.1:{port}"));
    let text = format!("{text}profiles:\n  - schedulerName: berth\n");
    let scheduler = scene.cluster.start_scheduler("with-extender", &text).unwrap();
    ([extender, scheduler], format!("127.0.0.1:{metrics}"))
}

async fn create_subnet(stage: &Stage, name: &str, spec: Value) {
    let subnets = Api::<Subnet>::all(stage.scene.client.clone());
    let subnet = json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
        "metadata": {"name": name}, "spec": spec,
    });
    let subnet = serde_json::from_value(subnet).unwrap();
    subnets.create(&PostParams::default(), &subnet).await.unwrap();
}

/// An unused address in the network of the node.
fn neighbour(node: &Node) -> String {
    let [a, b, c, d] = node.address().octets();
    format!("{a}.{b}.{c}.{}", d.wrapping_add(100))
}

/// A Node without a machine.
async fn create_node(stage: &Stage, name: &str, cidr: &str, address: &str) {
    let nodes = Api::<KubernetesNode>::all(stage.scene.client.clone());
    let node = json!({
        "metadata": {"name": name},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    });
    let node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
}

async fn create_pod(stage: &Stage, name: &str, more: Value) {
    let container = json!({"name": "web", "image": POD_IMAGE, "imagePullPolicy": "Never"});
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1, "containers": [container],
            "automountServiceAccountToken": false, "enableServiceLinks": false,
        },
    });
    pod["spec"]
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let pod: Pod = serde_json::from_value(pod).unwrap();
    stage.pods().create(&PostParams::default(), &pod).await.unwrap();
}
