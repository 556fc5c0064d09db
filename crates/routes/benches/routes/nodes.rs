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

impl Nodes {
    pub async fn connect(kubeconfig: &Path) -> Self {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        let client = Client::try_from(config).unwrap();
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
        let create = async |number: usize| {
            let node = node(number, Some(&cidr(number)));
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
