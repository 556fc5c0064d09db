//! kube-apiserver with etcd on disk, and clients with a connection each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_api::{NodeNetworkConfig, names};
use berth_e2e::{Scene, install};
use berth_testbed::{Builder, Process, Storage};
use http::Request;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

const CLIENTS: usize = 32;

pub struct Server {
    pub scene: Scene,
    clients: Vec<Client>,
}

impl Server {
    /// Without the cluster's own controllers: they would write to nodes that have no kubelet.
    pub async fn start() -> Self {
        let durable = |cluster: Builder<'static>| {
            cluster
                .without_controllers()
                .storage(Storage::Durable)
                // No controller makes the ServiceAccount that pods would need.
                .api_flag("--disable-admission-plugins=ServiceAccount")
        };
        let scene = Scene::open("join", durable).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(scene.cluster.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = |_| Client::try_from(config.clone()).unwrap();
        install(&scene, &json!({"cidrs": ["10.64.0.0/14"]})).await.unwrap();
        Self {
            scene,
            clients: (0..CLIENTS).map(client).collect(),
        }
    }

    pub fn client(&self) -> &Client {
        &self.scene.client
    }

    pub fn processes(&self) -> impl Iterator<Item = (&'static str, Process)> {
        let control_plane = self.scene.cluster.control_plane();
        let process = |name| (name, control_plane.process(name).unwrap());
        ["kube-apiserver", "etcd"].map(process).into_iter()
    }

    pub async fn nncs(&self) -> Vec<NodeNetworkConfig> {
        let api = Api::<NodeNetworkConfig>::namespaced(self.client().clone(), names::NAMESPACE);
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub async fn create_all(&self, path: &str, bodies: Vec<String>) {
        let path: Arc<str> = path.into();
        let requests = bodies.into_iter().map(|body| vec![Send::post(&path, body)]);
        self.send_all(requests.collect()).await;
    }

    /// A client that has sent its group takes the next one. It sends the requests of a group in
    /// order. A client parses only what the next request needs of an answer, so that it costs as
    /// little as possible.
    pub async fn send_all(&self, groups: Vec<Vec<Send>>) {
        let (groups, next) = (Arc::new(groups), Arc::new(AtomicUsize::new(0)));
        let each = self.clients.iter().map(|client| {
            let (client, groups, next) = (client.clone(), Arc::clone(&groups), Arc::clone(&next));
            tokio::spawn(async move {
                while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut answer = String::new();
                    for send in group {
                        answer = client.request_text(send.request(&answer)).await.unwrap();
                    }
                }
            })
        });
        for task in each.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }
}

/// A request that is ready to go.
pub struct Send {
    method: &'static str,
    path: Arc<str>,
    kind: &'static str,
    body: String,
}

/// Stands in a body for the resourceVersion of the previous answer.
pub const VERSION: &str = "RESOURCE-VERSION";

impl Send {
    pub fn post(path: &Arc<str>, body: String) -> Self {
        Self::new("POST", Arc::clone(path), "application/json", body)
    }

    pub fn put(path: String, body: String) -> Self {
        Self::new("PUT", path.into(), "application/json", body)
    }

    pub fn patch(path: String, body: String) -> Self {
        Self::new("PATCH", path.into(), "application/merge-patch+json", body)
    }

    fn new(method: &'static str, path: Arc<str>, kind: &'static str, body: String) -> Self {
        Self {
            method,
            path,
            kind,
            body,
        }
    }

    fn request(&self, before: &str) -> Request<Vec<u8>> {
        let body = match version(before) {
            Some(version) => self.body.replacen(VERSION, version, 1),
            None => self.body.clone(),
        };
        let request = Request::builder().method(self.method).uri(&*self.path);
        let request = request.header("content-type", self.kind);
        request.body(body.into_bytes()).unwrap()
    }
}

fn version(answer: &str) -> Option<&str> {
    let (_, rest) = answer.split_once("\"resourceVersion\":\"")?;
    rest.split_once('"').map(|(version, _)| version)
}
