//! A client that makes the same writes and nothing else: no watch, no ledger, no thought.

use std::sync::Arc;

use berth_api::names::{NAMESPACE, field_manager};
use berth_api::{AddressBlock, NodeNetworkConfig, Subnet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::server::{Send, Server};

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

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
            let status = format!(
                "{configs}/{}/status?fieldManager={}&force=true",
                config.name_any(),
                field_manager::NNC
            );
            [
                Send::post(&nodes, node.clone()),
                Send::post(&configs, config_body(config)),
                Send::patch(status, APPLY, status_body(config)),
            ]
        };
        server.send_all(self.nodes.iter().map(of_node).collect()).await;
        server.send_all(self.others()).await;
    }

    /// Blocks are written half full, as they are on average; where there are none it is the Subnet that is written.
    fn others(&self) -> Vec<[Send; 1]> {
        let blocks = path::<AddressBlock>();
        let bodies: Vec<String> = self.blocks.iter().map(block_body).collect();
        let write = |n: usize| match bodies.get(n) {
            Some(body) => Send::post(&blocks, body.clone()),
            None if bodies.is_empty() => {
                let mark = json!({"metadata": {"annotations": {"mark": n.to_string()}}});
                Send::patch(format!("{}/pods", path::<Subnet>()), MERGE, mark.to_string())
            }
            None => {
                let at = n % bodies.len();
                let name = self.blocks[at].name_any();
                let mut body: Value = serde_json::from_str(&bodies[at]).unwrap();
                body["metadata"]["annotations"] = json!({"mark": n.to_string()});
                Send::patch(format!("{blocks}/{name}"), MERGE, body.to_string())
            }
        };
        (0..self.others).map(|n| [write(n)]).collect()
    }
}

fn path<K: Resource<DynamicType = ()>>() -> Arc<str> {
    let namespaced = K::kind(&()) == "NodeNetworkConfig";
    K::url_path(&(), namespaced.then_some(NAMESPACE)).into()
}

fn config_body(config: &NodeNetworkConfig) -> String {
    let mut config = config.clone();
    config.status = None;
    config.metadata = as_sent(config.metadata);
    serde_json::to_string(&config).unwrap()
}

fn status_body(config: &NodeNetworkConfig) -> String {
    let body = json!({
        "apiVersion": NodeNetworkConfig::api_version(&()),
        "kind": NodeNetworkConfig::kind(&()),
        "metadata": {"name": config.name_any()},
        "status": config.status,
    });
    body.to_string()
}

fn block_body(block: &AddressBlock) -> String {
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
