//! A client that makes the same writes and nothing else: no watch, no ledger, no thought.

use std::sync::Arc;

use berth_api::names::NAMESPACE;
use berth_api::{AddressBlock, NodeNetworkConfig, Subnet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::server::{Send, Server, VERSION};

/// For each node its Node, its config and that one's status; and of the other objects as many writes as there were.
pub struct Script {
    nodes: Vec<(String, NodeNetworkConfig)>,
    blocks: Vec<AddressBlock>,
    others: usize,
}

impl Script {
    pub async fn of(server: &Server, configs: &[NodeNetworkConfig], controllers_own: usize) -> Self {
        let blocks = Api::<AddressBlock>::all(server.client().clone());
        let blocks = blocks.list(&ListParams::default()).await.unwrap().items;
        let bodies = crate::nodes();
        Self {
            others: controllers_own - 2 * bodies.len(),
            nodes: bodies.into_iter().zip(configs.iter().cloned()).collect(),
            blocks,
        }
    }

    pub fn writes(&self) -> usize {
        3 * self.nodes.len() + self.others
    }

    pub async fn play(&self, server: &Server) {
        let (nodes, configs) = (Arc::from("/api/v1/nodes"), path::<NodeNetworkConfig>());
        let of_node = |(node, config): &(String, NodeNetworkConfig)| {
            let status = format!("{configs}/{}/status", config.name_any());
            [
                Send::post(&nodes, node.clone()),
                Send::post(&configs, without_status(config)),
                Send::put(status, with_status(config)),
            ]
        };
        server.send_all(self.nodes.iter().map(of_node).collect()).await;
        let blocks = self.blocks.iter().map(half_full).collect::<Vec<_>>();
        server.create_all(&path::<AddressBlock>(), blocks.clone()).await;
        server.send_all(self.others(&blocks)).await;
    }

    /// Where there are no blocks it is the Subnet that is written.
    fn others(&self, blocks: &[String]) -> Vec<[Send; 1]> {
        let write = |n: usize| {
            let mark = json!({"mark": n.to_string()});
            if blocks.is_empty() {
                let body = json!({"metadata": {"annotations": mark}});
                return Send::patch(format!("{}/pods", path::<Subnet>()), body.to_string());
            }
            let at = n % blocks.len();
            let mut body: Value = serde_json::from_str(&blocks[at]).unwrap();
            body["metadata"]["annotations"] = mark;
            let name = self.blocks[at].name_any();
            Send::patch(format!("{}/{name}", path::<AddressBlock>()), body.to_string())
        };
        (blocks.len()..self.others).map(|n| [write(n)]).collect()
    }
}

fn path<K: Resource<DynamicType = ()>>() -> Arc<str> {
    let namespaced = K::kind(&()) == "NodeNetworkConfig";
    K::url_path(&(), namespaced.then_some(NAMESPACE)).into()
}

fn without_status(config: &NodeNetworkConfig) -> String {
    let mut config = config.clone();
    config.status = None;
    config.metadata = as_sent(config.metadata);
    serde_json::to_string(&config).unwrap()
}

fn with_status(config: &NodeNetworkConfig) -> String {
    let mut config = config.clone();
    config.metadata = as_sent(config.metadata);
    config.metadata.resource_version = Some(VERSION.to_owned());
    serde_json::to_string(&config).unwrap()
}

/// As a block is on average when it is written.
fn half_full(block: &AddressBlock) -> String {
    let mut block = block.clone();
    let mut keep = false;
    block.spec.owned.retain(|_, _| {
        keep = !keep;
        keep
    });
    block.metadata = as_sent(block.metadata);
    serde_json::to_string(&block).unwrap()
}

/// Without what the server adds.
fn as_sent(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        labels: metadata.labels,
        owner_references: metadata.owner_references,
        finalizers: metadata.finalizers,
        ..ObjectMeta::default()
    }
}
