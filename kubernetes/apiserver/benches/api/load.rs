//! Creates, updates and lists, as fast as the server answers. Bodies are made before the clock
//! starts, and answers are read but not parsed: the client costs as little as a client can.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use http::Request;
use kube::Client;
use serde_json::{Value, json};

pub struct Load {
    clients: Vec<Client>,
    namespace: String,
    made: AtomicUsize,
}

async fn send(client: &Client, method: &str, path: &str, kind: &str, body: String) -> String {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    client
        .request_text(request.body(body.into_bytes()).unwrap())
        .await
        .unwrap()
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web", "pod-template-hash": "7c5ddbdf54"}},
        "spec": {
            // kube-apiserver would add a volume for the token: the same objects are stored on both.
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "web",
                "image": "registry.example/web:1.27",
                "ports": [{"containerPort": 8080}],
                "env": [{"name": "MODE", "value": "production"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            }],
        },
    })
}

impl Load {
    pub async fn new(clients: &[Client], namespace: &str) -> Self {
        let load = Self {
            clients: clients.to_vec(),
            namespace: namespace.to_owned(),
            made: AtomicUsize::new(0),
        };
        let create = async |path: &str, kind: &str, name: &str| {
            let body = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
            let request = Request::post(path).header("content-type", "application/json");
            let request = request.body(body.to_string().into_bytes()).unwrap();
            match clients[0].request_text(request).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                other => drop(other.unwrap()),
            }
        };
        create("/api/v1/namespaces", "Namespace", namespace).await;
        // kube-apiserver takes no pod without it, and no controller is there to make it.
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        create(&accounts, "ServiceAccount", "default").await;
        load
    }

    pub fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// Each client is a task of its own, so that they run side by side.
    async fn each_client<F: Future<Output = ()> + Send + 'static>(
        &self,
        clients: usize,
        work: impl Fn(Client) -> F,
    ) {
        let tasks: Vec<_> = self
            .clients
            .iter()
            .take(clients)
            .map(|client| tokio::spawn(work(client.clone())))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }

    /// Creates so many pods with so many clients at once; gives them a second.
    pub async fn creates(&self, clients: usize, count: usize) -> f64 {
        let first = self.made.fetch_add(count, Ordering::Relaxed);
        let bodies: Vec<String> = (first..first + count)
            .map(|n| pod(&format!("pod-{n}")).to_string())
            .collect();
        let (bodies, next) = (Arc::new(bodies), AtomicUsize::new(0));
        let path = self.path();
        let start = Instant::now();
        let next = Arc::new(next);
        self.each_client(clients, |client| {
            let (bodies, next, path) = (bodies.clone(), next.clone(), path.clone());
            async move {
                while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                    send(&client, "POST", &path, "application/json", body.clone()).await;
                }
            }
        })
        .await;
        count as f64 / start.elapsed().as_secs_f64()
    }

    /// Sets a label of one pod after the other.
    pub async fn updates(&self, clients: usize, count: usize) -> f64 {
        let made = self.made.load(Ordering::Relaxed);
        let next = Arc::new(AtomicUsize::new(0));
        let path = self.path();
        let start = Instant::now();
        self.each_client(clients, |client| {
            let (next, path) = (next.clone(), path.clone());
            async move {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        return;
                    }
                    let body =
                        json!({"metadata": {"annotations": {"mark": format!("{clients}-{n}")}}})
                            .to_string();
                    let path = format!("{path}/pod-{}", n % made);
                    send(&client, "PATCH", &path, "application/merge-patch+json", body).await;
                }
            }
        })
        .await;
        count as f64 / start.elapsed().as_secs_f64()
    }

    pub async fn list(&self) {
        let request = Request::builder().uri(self.path()).body(Vec::new()).unwrap();
        let text = self.clients[0].request_text(request).await.unwrap();
        assert!(text.len() > 1_000_000, "a short list: {}", text.len());
    }
}
