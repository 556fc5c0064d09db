//! A cluster of one node, our definitions and a Subnet in it, and the controllers.

use berth_api::NodeNetworkConfig;
use berth_api::names::NAMESPACE;
use berth_api::nnc::NetworkContainer;
use berth_e2e::{Scene, Seen, install, roles, wait_for};
use berth_testbed::{Component, Node};
use kube::Api;
use serde_json::{Value, json};

pub const NODE: &str = "node-1";

pub struct Stage {
    pub scene: Scene,
    controller: Component,
}

impl Stage {
    pub async fn open(test: &str) -> Self {
        let scene = Scene::open(test, |cluster| cluster.nodes(1)).await.unwrap();
        let spec = json!({"cidrs": ["10.64.0.0/24"], "gateways": ["10.64.0.1"]});
        install(&scene, &spec).await.unwrap();
        let node = scene.node(NODE).unwrap();
        let mut command = node.command(berth_e2e::berth().unwrap());
        command
            .arg("controller")
            .arg("--kubeconfig")
            .arg(roles::of_controller(&scene).unwrap());
        let controller = node.start_component("berth-controller", command).unwrap();
        let mut stage = Self { scene, controller };
        stage
            .until("the node has a container", |nnc| container(nnc).is_some())
            .await;
        stage
    }

    pub fn node(&self) -> &Node {
        self.scene.node(NODE).unwrap()
    }

    pub fn nncs(&self) -> Api<NodeNetworkConfig> {
        Api::namespaced(self.scene.client.clone(), NAMESPACE)
    }

    /// Waits until `holds` is true for the node's NNC, and returns the NNC.
    pub async fn until(
        &mut self,
        what: &str,
        holds: impl Fn(&NodeNetworkConfig) -> bool,
    ) -> NodeNetworkConfig {
        let nncs = self.nncs();
        let mut found = None;
        let controller = &mut self.controller;
        let seen = wait_for(&self.scene, what, async || {
            controller.check()?;
            let nnc = nncs.get_opt(NODE).await?;
            found = nnc.clone().filter(&holds);
            Ok(match found {
                Some(_) => Seen::There,
                None => Seen::NotYet(format!("{:?}", nnc.map(|nnc| (nnc.spec, nnc.status)))),
            })
        });
        seen.await.unwrap();
        found.unwrap()
    }
}

pub fn container(nnc: &NodeNetworkConfig) -> Option<&NetworkContainer> {
    nnc.status.as_ref()?.network_containers.first()
}

/// The secondary addresses that the NNC lists.
pub fn addresses(nnc: &NodeNetworkConfig) -> Vec<String> {
    let assignments = container(nnc)
        .into_iter()
        .flat_map(|container| &container.ip_assignments);
    assignments.map(|assignment| assignment.ip.clone()).collect()
}

pub fn sorted(mut addresses: Vec<String>) -> Vec<String> {
    addresses.sort();
    addresses
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
