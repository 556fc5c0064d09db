//! Nodes, as kubelets and the controller that gives podCIDRs write them.

use std::path::Path;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

pub struct Nodes {
    pub client: Client,
    api: Api<Node>,
}

pub fn cidr(number: usize) -> String {
    format!("10.{}.{}.0/24", 100 + number / 256, number % 256)
}

fn name(number: usize) -> String {
    format!("n{number}")
}

fn address(number: usize) -> String {
    format!("172.16.{}.{}", number / 256, number % 256)
}

/// With an address: a kubelet reports it as it registers.
fn node(number: usize, cidr: Option<&str>) -> Node {
    let spec = cidr.map(|cidr| json!({"podCIDR": cidr, "podCIDRs": [cidr]}));
    let node = json!({
        "metadata": {"name": name(number)},
        "spec": spec.unwrap_or_else(|| json!({})),
        "status": {"addresses": [{"type": "InternalIP", "address": address(number)}]},
    });
    serde_json::from_value(node).unwrap()
}

/// As kubelets write them: with conditions, and the images that it has pulled.
fn large_node(number: usize) -> Node {
    let image = |number: usize| {
        let image = format!("registry.example.com/team-{}/service-{number}", number % 7);
        let names = [
            format!("{image}@sha256:{number:064x}"),
            format!("{image}:v1.{number}.0"),
        ];
        json!({"names": names, "sizeBytes": 100_000_000 + number})
    };
    let images: Vec<Value> = (0..50).map(image).collect();
    let amounts = json!({
        "cpu": "16", "memory": "65536000Ki", "pods": "110", "ephemeral-storage": "101430960Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    let mut large = json!(node(number, Some(&cidr(number))));
    large["metadata"]["labels"] = json!({
        "kubernetes.io/hostname": name(number), "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.4xlarge",
        "topology.kubernetes.io/region": "eu-central-1", "topology.kubernetes.io/zone": "a",
    });
    large["status"]["images"] = json!(images);
    large["status"]["capacity"] = amounts.clone();
    large["status"]["allocatable"] = amounts;
    large["status"]["conditions"] = heartbeat("2026-01-01T00:00:00Z");
    serde_json::from_value(large).unwrap()
}

fn heartbeat(time: &str) -> Value {
    let condition = |(kind, status, reason, message): (&str, &str, &str, &str)| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": time, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let enough = "kubelet has sufficient memory available";
    let conditions = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            enough,
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        (
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
        ),
    ];
    json!(conditions.map(condition))
}

pub async fn config(kubeconfig: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap()
}

impl Nodes {
    pub async fn connect(kubeconfig: &Path) -> Self {
        let client = Client::try_from(config(kubeconfig).await).unwrap();
        Self {
            api: Api::all(client.clone()),
            client,
        }
    }

    /// A Node, and its podCIDR a tenth of a second later. When that was sent.
    pub async fn join(&self, number: usize) -> SystemTime {
        self.api
            .create(&PostParams::default(), &node(number, None))
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let start = SystemTime::now();
        let cidr = cidr(number);
        self.patch(
            number,
            &json!({"spec": {"podCIDR": cidr, "podCIDRs": [cidr]}}),
        )
        .await;
        start
    }

    async fn patch(&self, number: usize, patch: &Value) {
        let params = PatchParams::default();
        self.api
            .patch(&name(number), &params, &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// It has another address now. When that was sent.
    pub async fn move_to(&self, number: usize, address: &str) -> SystemTime {
        let start = SystemTime::now();
        let addresses = json!([{"type": "InternalIP", "address": address}]);
        let patch = Patch::Merge(json!({"status": {"addresses": addresses}}));
        let params = PatchParams::default();
        self.api
            .patch_status(&name(number), &params, &patch)
            .await
            .unwrap();
        start
    }

    pub async fn create_all(&self, count: usize) {
        self.create_each(count, |number| node(number, Some(&cidr(number))))
            .await;
    }

    pub async fn create_large(&self, count: usize) {
        self.create_each(count, large_node).await;
    }

    /// A kubelet's, when nothing has changed.
    pub async fn beat(&self, number: usize) {
        let conditions = heartbeat("2026-01-01T00:05:00Z");
        let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
        let params = PatchParams::default();
        self.api
            .patch_status(&name(number), &params, &patch)
            .await
            .unwrap();
    }

    async fn create_each(&self, count: usize, node: impl Fn(usize) -> Node) {
        let create = async |number: usize| {
            let node = node(number);
            self.api
                .create(&PostParams::default(), &node)
                .await
                .unwrap();
        };
        futures::stream::iter(0..count)
            .for_each_concurrent(32, create)
            .await;
    }

    pub async fn clear(&self) {
        let all = ListParams::default();
        self.api
            .delete_collection(&DeleteParams::default(), &all)
            .await
            .unwrap();
        while !self.api.list(&all).await.unwrap().items.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
