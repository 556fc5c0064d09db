//! Our own agents and plugins: nodes that share a subnet, and nodes with a podCIDR of their own.

use std::time::Instant;

use berth_api::Subnet;
use berth_e2e::rights::Audit;
use berth_e2e::{Scene, Seen, install_subnet, roles, wait_for};
use berth_testbed::{Component, Network, Seat};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::deployed::Deployed;
use crate::resource;
use crate::site::{
    Count, Extender, clear, create_many, delete_running, deploy, start_scheduler, until,
};

const NODES: u8 = 3;

/// Nodes whose pod network comes from our agents.
struct Stage {
    scene: Scene,
    audit: Audit,
    _processes: Vec<Component>,
    _plugins: tempfile::TempDir,
    _audit_directory: tempfile::TempDir,
}

impl Stage {
    async fn open(test: &str, subnet: &str, spec: Value, controllers: &str) -> Self {
        let plugins = tempfile::tempdir().unwrap();
        let directory = plugins.path().to_path_buf();
        std::os::unix::fs::symlink("/usr/lib/cni/loopback", directory.join("loopback")).unwrap();
        let bare = move |_: &Seat| Network {
            configuration: None,
            plugins: directory.clone(),
        };
        let audit_directory = tempfile::tempdir().unwrap();
        let audit = Audit::of(audit_directory.path()).unwrap();
        let scene = Scene::open(test, |cluster| audit.on(cluster.nodes(NODES).network(bare)))
            .await
            .unwrap();
        install_subnet(&scene, subnet, &spec).await.unwrap();
        scene.cluster.apply(&deploy("rbac/nodeipam.yaml")).unwrap();
        let berth = berth_e2e::berth().unwrap();
        let kubeconfig = roles::of_controller(&scene).unwrap();
        let flags = [
            "controller".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--controllers={controllers}"),
        ];
        let mut processes = vec![
            scene
                .cluster
                .start_component("berth-controller", &berth, &flags)
                .unwrap(),
        ];
        for node in scene.cluster.nodes() {
            let kubeconfig = roles::of_agent(&scene, node.name()).await.unwrap();
            let mut command = node.command(&berth);
            command.arg("agent").arg("--kubeconfig").arg(kubeconfig);
            command.args(["--node-name", node.name(), "--install-cni"]);
            command.args(["--cri-socket", "/run/containerd/containerd.sock"]);
            processes.push(node.start_component("berth-agent", command).unwrap());
        }
        let stage = Self {
            scene,
            audit,
            _processes: processes,
            _plugins: plugins,
            _audit_directory: audit_directory,
        };
        stage.ready().await;
        stage
    }

    /// Checks that some request needed each right of these roles, except the rights in `elsewhere`:
    /// they are for cases that do not occur here.
    async fn rights_are_least(&self, roles: &[(&str, &str)], elsewhere: &[&str]) {
        let asked = self.audit.asked().unwrap();
        let mut unknown = Vec::new();
        for (account, role) in roles {
            let superfluous = asked.superfluous_of(&self.scene, account, Some(role)).await.unwrap();
            let more = superfluous
                .into_iter()
                .filter(|right| !elsewhere.contains(&right.as_str()));
            unknown.extend(more.map(|right| format!("{role}: {right}")));
        }
        assert!(unknown.is_empty(), "{unknown:#?}");
    }

    async fn ready(&self) {
        let nodes = Api::<Node>::all(self.scene.client.clone());
        let look = async || {
            let mut waiting = Vec::new();
            for node in nodes.list(&Default::default()).await?.items {
                let conditions =
                    node.status.iter().flat_map(|status| status.conditions.iter().flatten());
                let is_ready =
                    conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
                let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).count();
                if !is_ready || taints > 0 {
                    waiting.push(node.name_any());
                }
            }
            Ok(if waiting.is_empty() {
                Seen::There
            } else {
                Seen::NotYet(format!("{waiting:?}"))
            })
        };
        wait_for(&self.scene, "all nodes are ready", look).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_in_a_subnet_get_as_many_pods_as_it_has_addresses() {
    // 16, less network and broadcast, less one for the network container of each of three nodes.
    let spec = json!({"cidrs": ["10.64.0.0/28"], "reuseDelay": "1s", "scaler": {"batchSize": 4}});
    let stage = Stage::open("scheduling-dynamic", "pods", spec, "*").await;
    let scene = &stage.scene;
    let subnets = Api::<Subnet>::all(scene.client.clone());
    let capacity = subnets.get("pods").await.unwrap().status.unwrap().capacity.unwrap();
    let room = usize::try_from(capacity.0).unwrap() - usize::from(NODES);

    let mut extender = Extender::start(scene, "berth-scheduler", &[]);
    extender.ready(scene).await;
    let _scheduler = start_scheduler(scene, "berth", extender.port);

    // Fills the subnet up to five addresses, then creates ten more pods.
    create_many(scene, room - 5, "berth").await;
    until(scene, "all but five have an address", |count| count.running == room - 5).await;
    for n in 0..10 {
        crate::site::create(scene, crate::site::pod(&format!("more-{n}"), "berth")).await;
    }
    let full = |count: &Count| count.running == room && count.refused == 5 && count.creating == 0;
    let count = until(scene, "five more run, and five wait with the reason", full).await;
    let reason = "no pod IP left in subnet pods";
    assert!(count.reasons.keys().all(|said| said.contains(reason)), "{count:?}");
    let look = async || {
        let status = subnets.get("pods").await?.status.unwrap_or_default();
        Ok(match status.pods_that_fit {
            Some(fit) if fit.0 == 0 => Seen::There,
            other => Seen::NotYet(format!("{other:?}")),
        })
    };
    wait_for(scene, "the Subnet says that no pod fits", look).await.unwrap();

    let grown = json!({"spec": {"cidrs": ["10.64.0.0/28", "10.64.1.0/24"]}});
    let begin = Instant::now();
    subnets
        .patch("pods", &PatchParams::default(), &Patch::Merge(grown))
        .await
        .unwrap();
    until(scene, "those that waited run", |count| count.running == room + 5).await;
    println!(
        "five pods that waited run {:.2?} after a CIDR was added",
        begin.elapsed()
    );
    extender.stop();
    // The extender reads a pod only when its binding failed or got no answer.
    let role = ("berth-scheduler", "berth-scheduler");
    stage.rights_are_least(&[role], &["/pods get"]).await;
}

/// Fills nodes that have room for `each` pods each, by a scheduler named `berth`. Then two pods are
/// deleted, and two that waited run.
async fn fills(scene: &Scene, test: &str, each: usize) {
    let room = each * usize::from(NODES);
    create_many(scene, room + 6, "berth").await;
    let full = |count: &Count| count.running == room && count.refused == 6 && count.creating == 0;
    let count = until(scene, "as many run as there are addresses", full).await;
    assert!(count.by_node.values().all(|pods| *pods == each), "{count:?}");
    delete_running(scene, 2).await;
    let gone = Instant::now();
    let after = |count: &Count| count.running == room && count.refused == 4 && count.creating == 0;
    until(scene, "two more run", after).await;
    println!("{test}: two more run {:.2?} after two were gone", gone.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overlay_node_gets_as_many_pods_as_its_agent_has_ips() {
    let spec =
        json!({"use": "node-cidrs", "cidrs": ["10.244.0.0/16"], "unitLengths": {"ipv4": 29}});
    let stage = Stage::open("scheduling-overlay", "nodes", spec, "*,nodeipam").await;
    let scene = &stage.scene;
    let deployed = Deployed::start(scene, "berth").await;
    fills(scene, "scheduling-overlay", 8).await;
    deployed.hands_over(scene).await;
    delete_running(scene, 2).await;
    let after = |count: &Count| count.running == 24 && count.refused == 2 && count.creating == 0;
    until(scene, "the other replica places two", after).await;
    deployed.delete(scene);
    clear(scene, None).await;
    resource::filling_phase(scene, 24, 30).await;
    let roles = ["nodeipam", "pod-ips"].map(|name| format!("berth-controller-{name}"));
    let roles: Vec<(&str, &str)> = roles.iter().map(|role| ("berth-controller", &**role)).collect();
    stage.rights_are_least(&roles, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dual_stack_node_is_limited_by_its_smaller_pod_cidr() {
    let spec = json!({
        "use": "node-cidrs", "cidrs": ["10.244.0.0/16", "fd44::/112"], "unitLengths": {"ipv4": 28, "ipv6": 125},
    });
    let stage = Stage::open("scheduling-dual-stack", "nodes", spec, "*,nodeipam").await;
    let scene = &stage.scene;
    let mut extender = Extender::start(scene, "berth-scheduler", &[]);
    extender.ready(scene).await;
    let _scheduler = start_scheduler(scene, "berth", extender.port);
    fills(scene, "scheduling-dual-stack", 8).await;
    extender.stop();
}
