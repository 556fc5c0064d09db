//! The control plane, its nodes, and what schedules on it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use berth_e2e::{Scene, roles};
use berth_testbed::{Component, Figures, Process};
use futures::{AsyncBufRead, AsyncBufReadExt, StreamExt};
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::Size;
use crate::passing::Passing;

const CLIENTS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    Alone,
    Extender,
    Resource,
    /// With an extender that passes every node.
    Passing,
    /// Pods ask for the extended resource, and no controller publishes it: nodes were created with
    /// it.
    Asking,
}

impl Mode {
    pub fn label(self) -> &'static str {
        match self {
            Self::Alone => "kube-scheduler alone",
            Self::Extender => "the extender",
            Self::Resource => "the extended resource",
            Self::Passing => "an extender that passes every node",
            Self::Asking => "the extended resource without our controller",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Pods {
    /// kube-scheduler places them in batches, unless there is an extender.
    Identical,
    /// Each asks for another amount of memory.
    Different,
}

impl Pods {
    pub fn label(self) -> &'static str {
        match self {
            Self::Identical => "identical pods",
            Self::Different => "pods that differ",
        }
    }
}

/// How fast it went, and what it cost.
pub struct Run {
    /// Pods a second, from the first that is bound to the last.
    pub rate: f64,
    /// Milliseconds of a core for each pod, by process.
    pub costs: BTreeMap<&'static str, f64>,
}

pub struct Server {
    pub scene: Scene,
    clients: Vec<Client>,
}

impl Server {
    pub async fn start(size: &Size) -> Self {
        let scene = Scene::open("bench-scheduler", |cluster| {
            cluster
                .without_controllers()
                .api_flag("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
                .api_flag("--delete-collection-workers=16")
        });
        let scene = scene.await.unwrap();
        let kubeconfig = Kubeconfig::read_from(scene.cluster.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let clients = (0..CLIENTS)
            .map(|_| Client::try_from(config.clone()).unwrap())
            .collect();
        for file in ["rbac/scheduler.yaml", "rbac/controller.yaml", "rbac/pod-ips.yaml"] {
            scene.cluster.apply(&deploy(file)).unwrap();
        }
        let server = Self { scene, clients };
        let nodes = (0..size.nodes).map(|n| node(n).to_string()).collect();
        server.post_all("/api/v1/nodes", nodes).await;
        server
    }

    pub async fn run(&self, mode: Mode, pods: Pods, size: &Size) -> Run {
        let bodies = (0..size.pods).map(|n| pod(n, mode, pods).to_string()).collect();
        self.post_all("/api/v1/namespaces/default/pods", bodies).await;
        let (mut extender, mut controller, mut passing) = (None, None, None);
        match mode {
            Mode::Alone | Mode::Asking => {}
            Mode::Extender => extender = Some(Extender::start(self).await),
            Mode::Resource => controller = Some(self.start_pod_ips()),
            Mode::Passing => passing = Some(Passing::start(&self.clients[0]).await),
        }
        let ports = [
            extender.as_ref().map(|one| one.port),
            passing.as_ref().map(|one| one.port),
        ];
        let scheduler = self.start_scheduler(ports.into_iter().flatten().next());
        let ours = extender.as_ref().map(|one| &one.component).or(controller.as_ref());
        let control_plane = self.scene.cluster.control_plane();
        let named = |name: &'static str| (name, control_plane.process(name).unwrap());
        // Found only once pods are bound: a process that was just started may not be in its
        // namespace yet.
        let processes = || {
            let mut processes = vec![named("kube-apiserver"), named("etcd")];
            processes.push(("kube-scheduler", scheduler.process().unwrap()));
            processes.extend(ours.map(|ours| ("berth", ours.process().unwrap())));
            processes
        };
        let run = self.measure(size.pods, processes).await;
        end(scheduler);
        if let Some(extender) = extender {
            extender.stop();
        }
        if let Some(controller) = controller {
            end(controller);
        }
        self.delete_pods().await;
        run
    }

    /// Measures the extender's memory with `size.many` bound pods.
    pub async fn memory(&self, size: &Size, figures: &mut Figures) {
        if size.many == 0 {
            return;
        }
        let bound = |n: usize| {
            let mut pod = pod(n, Mode::Alone, Pods::Identical);
            pod["spec"]["nodeName"] = json!(node_name(n % size.nodes));
            pod.to_string()
        };
        let bodies = (0..size.many).map(bound).collect();
        self.post_all("/api/v1/namespaces/default/pods", bodies).await;
        let extender = Extender::start(self).await;
        let process = extender.component.process().unwrap();
        let label = format!("{} nodes, {} pods: the extender's memory", size.nodes, size.many);
        figures.mebibytes(&label, process.resident().unwrap());
        figures.mebibytes(&format!("{label} at most"), process.most_resident().unwrap());
        extender.stop();
    }

    fn start_pod_ips(&self) -> Component {
        let kubeconfig = roles::of_controller(&self.scene).unwrap();
        let flags = [
            "controller".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            "--controllers=pod-ips".to_owned(),
            "--leader-elect=false".to_owned(),
        ];
        let berth = berth_e2e::berth().unwrap();
        self.scene
            .cluster
            .start_component("berth-pod-ips", &berth, &flags)
            .unwrap()
    }

    fn start_scheduler(&self, extender: Option<u16>) -> Component {
        let text = std::fs::read_to_string(deploy("scheduler/extender.yaml")).unwrap();
        let kubeconfig = self.scene.cluster.control_plane().kubeconfig_of_scheduler();
        let text = text
            .replace("/etc/kubernetes/scheduler.conf", &kubeconfig.display().to_string())
            .replace("leaderElect: true", "leaderElect: false")
            // With the default of 50 requests a second, only this limit would be measured.
            .replace("clientConnection:", "clientConnection:\n  qps: 5000\n  burst: 5000");
        let text = match extender {
            Some(port) => text.replace("127.0.0.1:10361", &format!("127.0.0.1:{port}")),
            None => text.split("extenders:").next().unwrap().to_owned(),
        };
        self.scene.cluster.start_scheduler("bench", &text).unwrap()
    }

    /// Watches pods that have a node, as metadata only, so that watching costs the server next to
    /// nothing.
    async fn follow(&self) -> impl AsyncBufRead + Unpin {
        let path = "/api/v1/namespaces/default/pods?watch=1&fieldSelector=spec.nodeName!%3D";
        let request = Request::get(path)
            .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
            .body(Vec::new());
        Box::pin(self.clients[0].request_stream(request.unwrap()).await.unwrap())
    }

    async fn measure(
        &self,
        count: usize,
        processes: impl Fn() -> Vec<(&'static str, Process)>,
    ) -> Run {
        let times = || {
            let time = |(name, process): (_, Process)| (name, process.processor_time().unwrap());
            processes()
                .into_iter()
                .map(time)
                .collect::<BTreeMap<&'static str, Duration>>()
        };
        let mut first = None;
        loop {
            // A server may end a watch. The next one begins with all pods that have a node by then.
            let mut lines = self.follow().await.lines();
            let mut bound = 0;
            while let Some(Ok(line)) = lines.next().await {
                if !line.starts_with("{\"type\":\"ADDED\"") {
                    continue;
                }
                let (begin, before) = first.get_or_insert_with(|| (Instant::now(), times()));
                bound += 1;
                if bound == count {
                    let pods = count.saturating_sub(1) as f64;
                    let rate = pods / begin.elapsed().as_secs_f64();
                    let cost = |(name, now): (&'static str, Duration)| {
                        (name, (now - before[name]).as_secs_f64() * 1e3 / pods)
                    };
                    let costs = times().into_iter().map(cost).collect();
                    return Run { rate, costs };
                }
            }
        }
    }

    async fn delete_pods(&self) {
        let path = "/api/v1/namespaces/default/pods?gracePeriodSeconds=0";
        let request = Request::delete(path).body(Vec::new()).unwrap();
        self.clients[0].request_text(request).await.unwrap();
    }

    async fn post_all(&self, path: &str, bodies: Vec<String>) {
        let (bodies, next) = (Arc::new(bodies), Arc::new(AtomicUsize::new(0)));
        let each = self.clients.iter().map(|client| {
            let (client, bodies, next) = (client.clone(), Arc::clone(&bodies), Arc::clone(&next));
            let path = path.to_owned();
            tokio::spawn(async move {
                while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let request = Request::post(&path).header("content-type", "application/json");
                    let request = request.body(body.clone().into_bytes()).unwrap();
                    client.request_text(request).await.unwrap();
                }
            })
        });
        for task in each.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }
}

pub struct Extender {
    component: Component,
    pub port: u16,
}

impl Extender {
    pub async fn start(server: &Server) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let scene = &server.scene;
        let kubeconfig =
            scene
                .cluster
                .kubeconfig_of_account("kube-system", "berth-scheduler", None);
        let flags = [
            "scheduler".to_owned(),
            format!("--kubeconfig={}", kubeconfig.unwrap().display()),
            format!("--listen=127.0.0.1:{port}"),
            "--leader-elect=false".to_owned(),
        ];
        let berth = berth_e2e::berth().unwrap();
        let mut component = scene
            .cluster
            .start_component("berth-scheduler", &berth, &flags)
            .unwrap();
        component.wait_until(|| is_ready(port)).unwrap();
        Self { component, port }
    }

    pub fn stop(self) {
        end(self.component);
    }
}

fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

fn end(component: Component) {
    let process = component.process().unwrap();
    process.terminate().unwrap();
    process.wait().unwrap();
}

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file)
}

pub fn node_name(n: usize) -> String {
    format!("node-{n:04}")
}

fn node(n: usize) -> Value {
    let cidr = format!("10.{}.{}.0/24", n / 250, n % 250);
    let resources =
        json!({"cpu": "64", "memory": "256Gi", "pods": "250", "berth.dev/pod-ips": "254"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node_name(n), "labels": {"kubernetes.io/hostname": node_name(n)}},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "bench", "message": "bench"}],
        },
    })
}

fn pod(n: usize, mode: Mode, pods: Pods) -> Value {
    let memory = match pods {
        Pods::Identical => 1000,
        Pods::Different => 1000 + n,
    };
    let mut asks = json!({"cpu": "1m", "memory": format!("{memory}Ki")});
    let asks_for_ip = matches!(mode, Mode::Resource | Mode::Asking);
    if asks_for_ip {
        asks["berth.dev/pod-ips"] = json!("1");
    }
    let limits = match asks_for_ip {
        true => json!({"berth.dev/pod-ips": "1"}),
        false => json!({}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("pod-{n}"), "labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "web", "image": "nginx", "resources": {"requests": asks, "limits": limits}}],
            "automountServiceAccountToken": false,
        },
    })
}
