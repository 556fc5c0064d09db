//! A client that makes the same writes and nothing else: no watch, no ledger, no decisions.

use std::sync::Arc;

use berth_api::names::NAMESPACE;
use berth_api::{AddressBlock, NodeNetworkConfig, Subnet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use crate::server::{Send, Server, VERSION};

/// For each node: its Node, its NNC and the status of the NNC. For other objects: as many writes as
/// the controller made.
pub struct Script {
    nodes: Vec<(String, NodeNetworkConfig)>,
    blocks: Vec<AddressBlock>,
    others: usize,
}

impl Script {
    pub async fn of(server: &Server, nncs: &[NodeNetworkConfig], controllers_own: usize) -> Self {
        let blocks = Api::<AddressBlock>::all(server.client().clone());
        let blocks = blocks.list(&ListParams::default()).await.unwrap().items;
        let bodies = crate::nodes();
        Self {
            others: controllers_own - 2 * bodies.len(),
            nodes: bodies.into_iter().zip(nncs.iter().cloned()).collect(),
            blocks,
        }
    }

    pub fn writes(&self) -> usize {
        3 * self.nodes.len() + self.others
    }

    pub async fn play(&self, server: &Server) {
        let (nodes, nncs) = (Arc::from("/api/v1/nodes"), path::<NodeNetworkConfig>());
        let of_node = |(node, nnc): &(String, NodeNetworkConfig)| {
            let status = format!("{nncs}/{}/status", nnc.name_any());
            vec![
                Send::post(&nodes, node.clone()),
                Send::post(&nncs, without_status(nnc)),
                Send::put(status, with_status(nnc)),
            ]
        };
        let mut groups = self.others();
        groups.extend(self.nodes.iter().map(of_node));
        server.send_all(groups).await;
    }

    /// One client writes all versions of a block, so that clients do not conflict. Without blocks,
    /// the Subnet is written instead.
    fn others(&self) -> Vec<Vec<Send>> {
        if self.blocks.is_empty() {
            let mark = |n: usize| json!({"metadata": {"annotations": {"mark": n.to_string()}}});
            let path = format!("{}/pods", path::<Subnet>());
            let patches = (0..self.others).map(|n| Send::patch(path.clone(), mark(n).to_string()));
            return vec![patches.collect()];
        }
        let path = path::<AddressBlock>();
        let count = self.blocks.len();
        let of_block = |(at, block): (usize, &AddressBlock)| {
            let mut group = vec![Send::post(&path, half_full(block, None))];
            let writes = (self.others + count - 1 - at) / count;
            for n in 1..writes {
                let body = half_full(block, Some(n));
                group.push(Send::put(format!("{path}/{}", block.name_any()), body));
            }
            group
        };
        self.blocks.iter().enumerate().map(of_block).collect()
    }
}

fn path<K: Resource<DynamicType = ()>>() -> Arc<str> {
    let namespaced = K::kind(&()) == "NodeNetworkConfig";
    K::url_path(&(), namespaced.then_some(NAMESPACE)).into()
}

fn without_status(nnc: &NodeNetworkConfig) -> String {
    let mut nnc = nnc.clone();
    nnc.status = None;
    nnc.metadata = as_sent(nnc.metadata);
    serde_json::to_string(&nnc).unwrap()
}

fn with_status(nnc: &NodeNetworkConfig) -> String {
    let mut nnc = nnc.clone();
    nnc.metadata = as_sent(nnc.metadata);
    nnc.metadata.resource_version = Some(VERSION.to_owned());
    serde_json::to_string(&nnc).unwrap()
}

/// The body of a write to a block, which is half full on average: `None` creates the block,
/// `Some(n)` updates it for the n-th time.
fn half_full(block: &AddressBlock, again: Option<usize>) -> String {
    let mut block = block.clone();
    let mut keep = false;
    block.spec.owned.retain(|_, _| {
        keep = !keep;
        keep
    });
    block.metadata = as_sent(block.metadata);
    if let Some(n) = again {
        block.metadata.resource_version = Some(VERSION.to_owned());
        // An update without a change would write nothing.
        block.metadata.annotations = Some([("mark".to_owned(), n.to_string())].into());
    }
    serde_json::to_string(&block).unwrap()
}

/// The metadata without what the server adds.
fn as_sent(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        labels: metadata.labels,
        owner_references: metadata.owner_references,
        finalizers: metadata.finalizers,
        ..ObjectMeta::default()
    }
}
