//! kube-apiserver with etcd on disk, and clients with a connection each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_api::{NodeNetworkConfig, names};
use berth_e2e::{Scene, Seen, wait_for};
use berth_testbed::{Builder, Storage};
use http::Request;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;

const CLIENTS: usize = 32;

pub struct Server {
    pub scene: Scene,
    clients: Vec<Client>,
}

impl Server {
    /// Without the cluster's own controllers: they would write to nodes that no kubelet cares for.
    pub async fn start() -> Self {
        let durable = |cluster: Builder<'static>| cluster.without_controllers().storage(Storage::Durable);
        let scene = Scene::open("join", durable).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(scene.cluster.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let client = |_| Client::try_from(config.clone()).unwrap();
        let server = Self {
            scene,
            clients: (0..CLIENTS).map(client).collect(),
        };
        server.create_crds().await;
        server
    }

    pub fn client(&self) -> &Client {
        &self.scene.client
    }

    async fn create_crds(&self) {
        let api = Api::all(self.client().clone());
        for crd in berth_api::crds::all() {
            api.create(&PostParams::default(), &crd).await.unwrap();
        }
    }

    pub async fn create_subnet(&self) {
        let subnet = json!({
            "apiVersion": "berth.dev/v1alpha1",
            "kind": "Subnet",
            "metadata": {"name": "pods"},
            "spec": {"cidrs": ["10.64.0.0/16"]},
        });
        let subnet: berth_api::Subnet = serde_json::from_value(subnet).unwrap();
        let api = Api::all(self.client().clone());
        // A kind is served a moment after its definition was created.
        let created = wait_for(&self.scene, "the Subnet is created", async || {
            match api.create(&PostParams::default(), &subnet).await {
                Ok(_) => Ok(Seen::There),
                Err(error) => Ok(Seen::NotYet(error.to_string())),
            }
        });
        created.await.unwrap();
    }

    pub async fn configs(&self) -> Vec<NodeNetworkConfig> {
        let api = Api::<NodeNetworkConfig>::namespaced(self.client().clone(), names::NAMESPACE);
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub async fn create_all(&self, path: &str, bodies: Vec<String>) {
        let path: Arc<str> = path.into();
        let requests = bodies.into_iter().map(|body| [Send::post(&path, body)]);
        self.send_all(requests.collect()).await;
    }

    /// Each client takes the next group when it is done with its last one, and sends it in order. Answers are read, but not parsed: the
    /// client costs as little as a client can.
    pub async fn send_all<const N: usize>(&self, groups: Vec<[Send; N]>) {
        let (groups, next) = (Arc::new(groups), Arc::new(AtomicUsize::new(0)));
        let each = self.clients.iter().map(|client| {
            let (client, groups, next) = (client.clone(), Arc::clone(&groups), Arc::clone(&next));
            tokio::spawn(async move {
                while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for send in group {
                        client.request_text(send.request()).await.unwrap();
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

impl Send {
    pub fn post(path: &Arc<str>, body: String) -> Self {
        Self {
            method: "POST",
            path: Arc::clone(path),
            kind: "application/json",
            body,
        }
    }

    pub fn patch(path: String, kind: &'static str, body: String) -> Self {
        Self {
            method: "PATCH",
            path: path.into(),
            kind,
            body,
        }
    }

    fn request(&self) -> Request<Vec<u8>> {
        let request = Request::builder().method(self.method).uri(&*self.path);
        let request = request.header("content-type", self.kind);
        request.body(self.body.clone().into_bytes()).unwrap()
    }
}
