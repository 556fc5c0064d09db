//! What people do.

use std::time::Duration;

use berth_api::AddressBlock;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use rand::RngExt;
use serde_json::json;

use super::cluster::{Beside, Cluster, Stored};

/// More than fit are not asked for: in the end every pod is to have an address.
const MAX_PODS: usize = 40;

impl Cluster {
    pub async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..28 => self.scale_up().await,
            28..31 => self.second_agent(),
            31..50 => self.delete_pods().await,
            50..56 => self.delete_config().await,
            56..61 => self.delete_node().await,
            61..66 => self.delete_block().await,
            66..70 => self.copy_ledger().await,
            70..74 => self.restore_ledger().await,
            74..78 => self.edit_subnet().await,
            78..83 => self.restart_controllers().await,
            83..86 => self.second_controller(),
            86..92 => self.kill_or_start_agent().await,
            92..96 => self.connection.cut(),
            _ => self.edit_config().await,
        }
        let pause = self.random.random_range(1..1500);
        self.settle(Duration::from_millis(pause)).await;
    }

    fn any_node(&mut self) -> String {
        format!("node-{}", self.random.random_range(1..=self.plan.nodes))
    }

    async fn scale_up(&mut self) {
        for _ in 0..self.random.random_range(1..6) {
            if self.pods.len() < MAX_PODS {
                let node = self.any_node();
                if self.api_nodes().get_opt(&node).await.unwrap().is_some() {
                    self.create_pod(&node).await;
                }
            }
        }
    }

    async fn delete_pods(&mut self) {
        for _ in 0..self.random.random_range(1..6) {
            let count = self.pods.len();
            if count > 0 {
                let at = self.random.random_range(0..count);
                let name = self.pods.keys().nth(at).unwrap().clone();
                self.delete_pod(&name).await;
            }
        }
    }

    async fn delete_config(&mut self) {
        let node = self.any_node();
        drop(self.nncs().delete(&node, &DeleteParams::background()).await);
    }

    /// Its kubelet registers it again, sooner or later; its pods go on.
    async fn delete_node(&mut self) {
        let node = self.any_node();
        drop(self.api_nodes().delete(&node, &DeleteParams::background()).await);
        let later = self.random.random_range(0..8_000);
        self.settle(Duration::from_millis(later)).await;
        // The API has collected its pods, as a cluster does when a Node is gone: on the machine
        // they end.
        let live = self.api_pods().list(&ListParams::default()).await.unwrap();
        let live: Vec<String> = live.items.iter().map(ResourceExt::name_any).collect();
        let collected: Vec<String> =
            self.pods.keys().filter(|name| !live.contains(name)).cloned().collect();
        for name in collected {
            self.delete_pod(&name).await;
        }
        self.register(&node, "first").await;
    }

    async fn delete_block(&mut self) {
        let blocks = self.blocks().list(&ListParams::default()).await.unwrap();
        if let Some(block) = blocks.items.first() {
            drop(self.blocks().delete(&block.name_any(), &DeleteParams::default()).await);
        }
    }

    pub async fn copy_ledger(&mut self) {
        let blocks = self.blocks().list(&ListParams::default()).await.unwrap().items;
        match &mut self.ledger {
            Stored::Memory { now, copy } => *copy = now.copy(),
            Stored::Kubernetes { copy } => *copy = blocks,
        }
    }

    /// As it is done with a file: stop what uses it, put the copy in its place, start again. Blocks
    /// in the API are replaced under everybody's feet.
    async fn restore_ledger(&mut self) {
        if let Stored::Memory { now, copy } = &mut self.ledger {
            *now = copy.copy();
            let restored = now.clone();
            self.restart_controllers().await;
            if let Some(neighbour) = &mut self.neighbour {
                neighbour.stop_controllers();
                neighbour.ledger = Stored::in_memory(&restored);
                neighbour.start_controller();
            }
            return;
        }
        let Stored::Kubernetes { copy } = &self.ledger else {
            return;
        };
        let copies = copy.clone();
        for block in self.blocks().list(&ListParams::default()).await.unwrap() {
            drop(self.blocks().delete(&block.name_any(), &DeleteParams::default()).await);
        }
        for mut block in copies {
            block.metadata.resource_version = None;
            block.metadata.uid = None;
            let made: kube::Result<AddressBlock> =
                self.blocks().create(&PostParams::default(), &block).await;
            drop(made);
        }
    }

    async fn edit_subnet(&mut self) {
        let excluded = self.random.random_range(2..60);
        let spec = match self.random.random_range(0..3) {
            0 => json!({"cidrs": [self.plan.cidr, "10.65.0.0/28"]}),
            1 => json!({"excludes": [format!("10.64.0.{excluded}")]}),
            _ => json!({"excludes": []}),
        };
        let patch = Patch::Merge(json!({"spec": spec}));
        drop(
            self.subnets()
                .patch(self.plan.name, &PatchParams::default(), &patch)
                .await,
        );
    }

    async fn restart_controllers(&mut self) {
        self.stop_controllers();
        let away = self.random.random_range(0..3000);
        self.settle(Duration::from_millis(away)).await;
        self.start_controller();
    }

    /// One that believes to lead, beside another one. Both are gone with the next restart.
    fn second_controller(&mut self) {
        if self.controllers.len() < 2 {
            self.start_controller();
        }
    }

    async fn kill_or_start_agent(&mut self) {
        let node = self.any_node();
        let running = self.nodes.get_mut(&node).unwrap().agent.take();
        match running {
            Some(running) => {
                running.task.abort();
                drop(running.task.await);
                // It is started again at once, or stays away for a while.
                if self.random.random_range(0..2) == 0 {
                    self.start_agent(&node);
                }
            }
            None => self.start_agent(&node),
        }
    }

    /// Beside one that serves: it must not serve, too.
    fn second_agent(&mut self) {
        let node = self.any_node();
        self.stop_second_agents();
        if self.agent(&node, false).is_some() {
            let same = self.random.random_range(0..2) == 0;
            let beside = if same {
                Beside::SameMachine
            } else {
                Beside::OtherMachine
            };
            self.start_second_agent(&node, beside);
        }
    }

    /// Somebody gives back what pods have.
    async fn edit_config(&mut self) {
        let node = self.any_node();
        let Some(nnc) = self.nncs().get_opt(&node).await.unwrap() else {
            return;
        };
        let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
        let names: Vec<String> = containers
            .flat_map(|container| container.ip_assignments.iter().map(|one| one.name.clone()))
            .collect();
        let patch = Patch::Merge(json!({"spec": {"ipsNotInUse": names}}));
        drop(self.nncs().patch(&node, &PatchParams::default(), &patch).await);
    }
}
