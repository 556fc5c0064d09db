//! The extender as `deploy/scheduler` installs it: two replicas in pods, behind a Service.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use berth_api::names::NAMESPACE;
use berth_e2e::{Scene, Seen, wait_for};
use berth_testbed::{Component, Node};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};

use crate::certificates::Authority;
use crate::relay::Relay;
use crate::site::{deploy, start_scheduler_over_tls};

const NAME: &str = "berth-scheduler";
const IMAGE: &str = "docker.io/library/berth:latest";
/// Where pods look for the API server.
const API_SERVICE: &str = "10.96.0.1";

/// Checks that the API server accepts every object of `deploy/scheduler` and `deploy/rbac`, and
/// knows each of its fields.
pub fn is_accepted(scene: &Scene) {
    let mut seen = 0;
    for directory in ["scheduler", "rbac"] {
        for file in std::fs::read_dir(deploy(directory)).unwrap() {
            let path = file.unwrap().path();
            let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
            // kube-scheduler itself reads the other files.
            let is_object = |path: &Path| {
                let text = std::fs::read_to_string(path).unwrap();
                !text.contains("kind: KubeSchedulerConfiguration")
            };
            if is_yaml && is_object(&path) {
                let flags = ["apply", "--dry-run=server", "--validate=strict", "--filename"];
                run(scene.cluster.kubectl().args(flags).arg(&path));
                seen += 1;
            }
        }
    }
    assert!(seen > 4, "{seen} files");
}

pub struct Deployed {
    relay: Relay,
    _api: Vec<Relay>,
    _scheduler: Component,
    _directory: tempfile::TempDir,
}

impl Deployed {
    /// Also starts a kube-scheduler of that name, which calls the extender.
    pub async fn start(scene: &Scene, scheduler: &str) -> Self {
        is_accepted(scene);
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let image = image(&at("image"));
        let mut api = Vec::new();
        for node in scene.cluster.nodes() {
            node.import(&image).unwrap();
            api.push(serve_api(scene, node));
            let label = ["node-role.kubernetes.io/control-plane="];
            run(scene.cluster.kubectl().args(["label", "node", node.name()]).args(label));
        }
        let authority = Authority::make("deployed");
        authority.write_server(&at("server"));
        authority.write_client(&at("client"));
        let mut secret = scene.cluster.kubectl();
        secret.args([
            "create",
            "secret",
            "generic",
            "berth-scheduler-tls",
            "--namespace=kube-system",
        ]);
        secret.arg(format!("--from-file={}", at("server").display()));
        run(&mut secret);
        for file in ["rbac/scheduler.yaml", "scheduler/berth-scheduler.yaml"] {
            scene.cluster.apply(&deploy(file)).unwrap();
        }
        let relay = Relay::start().await;
        let url = format!("https://127.0.0.1:{}", relay.port);
        let scheduler = start_scheduler_over_tls(scene, scheduler, &url, &at("client"));
        let deployed = Self {
            relay,
            _api: api,
            _scheduler: scheduler,
            _directory: directory,
        };
        deployed.follow(scene, None).await;
        deployed
    }

    /// Does what kube-proxy would: waits until the Service leads to one replica, which is not
    /// `before`, and lets the relay lead there.
    async fn follow(&self, scene: &Scene, before: Option<SocketAddr>) -> SocketAddr {
        let slices = Api::<EndpointSlice>::namespaced(scene.client.clone(), NAMESPACE);
        let of_service =
            ListParams::default().labels(&format!("kubernetes.io/service-name={NAME}"));
        let mut found = None;
        let look = async || {
            let slices = slices.list(&of_service).await?.items;
            let ready: Vec<SocketAddr> = slices.iter().flat_map(ready).collect();
            found = match ready[..] {
                [one] if Some(one) != before => Some(one),
                _ => None,
            };
            Ok(match found {
                Some(_) => Seen::There,
                None => Seen::NotYet(format!("{ready:?}")),
            })
        };
        wait_for(scene, "the Service leads to one replica", look).await.unwrap();
        let found = found.unwrap();
        self.relay.lead_to(found);
        self.relay.hang_up();
        found
    }

    /// Deletes the leader's pod, and waits until the other replica serves.
    pub async fn hands_over(&self, scene: &Scene) {
        let leader = self.follow(scene, None).await;
        let pods = Api::<Pod>::namespaced(scene.client.clone(), NAMESPACE);
        let own = ListParams::default().labels(&format!("app.kubernetes.io/name={NAME}"));
        let host = leader.ip().to_string();
        for pod in pods.list(&own).await.unwrap().items {
            let status = pod.status.clone().unwrap_or_default();
            if status.host_ip.as_deref() == Some(&host) {
                pods.delete(&pod.name_any(), &DeleteParams::default()).await.unwrap();
            }
        }
        self.follow(scene, Some(leader)).await;
    }

    pub fn delete(self, scene: &Scene) {
        let file = deploy("scheduler/berth-scheduler.yaml");
        let flags = ["delete", "--wait=true", "--filename"];
        run(scene.cluster.kubectl().args(flags).arg(file));
    }
}

fn ready(slice: &EndpointSlice) -> Vec<SocketAddr> {
    let port = slice.ports.iter().flatten().find_map(|port| port.port);
    let port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
    let ready = slice.endpoints.iter().flatten().filter(|endpoint| {
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(true)
    });
    let addresses = ready.flat_map(|endpoint| &endpoint.addresses);
    let addresses = addresses.filter_map(|address| address.parse::<IpAddr>().ok());
    addresses.map(|address| (address, port).into()).collect()
}

fn image(directory: &Path) -> PathBuf {
    std::fs::create_dir_all(directory).unwrap();
    let berth = berth_e2e::berth().unwrap();
    berth_testbed::image_of_program(directory, IMAGE, &berth).unwrap()
}

/// The nodes have no kube-proxy: a relay on each node serves the address where pods look for the
/// API server.
fn serve_api(scene: &Scene, node: &Node) -> Relay {
    let address = format!("{API_SERVICE}/32");
    run(node.command("ip").args(["address", "add", &address, "dev", "lo"]));
    let listener = node.on_network(|| {
        let listener = std::net::TcpListener::bind((API_SERVICE, 443))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let relay = Relay::on(tokio::net::TcpListener::from_std(listener.unwrap()).unwrap());
    let server = scene.cluster.control_plane().server();
    relay.lead_to(server.trim_start_matches("https://").parse().unwrap());
    relay
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}
