//! Starts the watches, and the loops that work on what they tell.

use berth_api::Subnet;
use berth_kit::watch::{Change, Synced, changes};
use berth_kit::work::work;
use kube::api::ListParams;

use super::{Context, Controller, Nodes, nodes};
use crate::reclaim::Reclaim;
use crate::subnet::Subnets;
use crate::subnet_state::SubnetStates;

/// All loops, in the background.
pub fn start(context: &Context) {
    let parts = Parts {
        nodes: Nodes::new(context.clone()),
        subnets: Subnets::new(context.clone()),
        states: SubnetStates::new(context.clone()),
        context: context.clone(),
        synced: Synced::default(),
    };
    parts.watch_subnets();
    if parts.work_on_nodes() {
        parts.watch_nodes();
        parts.watch_configs();
        parts.watch_pods();
    }
    if context.runs(Controller::SubnetState) {
        parts.watch_states();
    }
    parts.work();
}

#[derive(Clone)]
struct Parts {
    context: Context,
    nodes: Nodes,
    subnets: Subnets,
    states: SubnetStates,
    synced: Synced,
}

impl Parts {
    fn work_on_nodes(&self) -> bool {
        let of_nodes = [
            Controller::Node,
            Controller::Nnc,
            Controller::NodeIpam,
            Controller::Reclaim,
        ];
        of_nodes.into_iter().any(|controller| self.context.runs(controller))
    }

    fn gives_addresses(&self) -> bool {
        self.context.runs(Controller::Nnc) || self.context.runs(Controller::NodeIpam)
    }

    /// Also without the subnet controller: a ledger of this process must know them. A service does.
    fn work_on_subnets(&self) -> bool {
        self.context.runs(Controller::Subnet)
            || (self.work_on_nodes() && !self.context.allocator.is_shared())
    }

    /// One watch for all.
    fn watch_subnets(&self) {
        let (parts, synced) = (self.clone(), self.synced.one_more());
        self.context.spawn(async move {
            let told = |change: Change<Subnet>| {
                parts.nodes.subnet_changed(&change);
                if parts.work_on_subnets() {
                    parts.subnets.changed(&change);
                }
                if parts.context.runs(Controller::SubnetState) {
                    parts.states.subnet_changed(&change);
                }
                synced.observe(&change);
            };
            changes(parts.context.subnets(), ListParams::default(), told).await;
        });
    }

    fn watch_nodes(&self) {
        let (nodes, synced) = (self.nodes.clone(), self.synced.one_more());
        self.context.spawn(async move {
            let told = |change| {
                synced.observe(&change);
                nodes.node_changed(change);
            };
            changes(nodes.context.nodes(), ListParams::default(), told).await;
        });
    }

    fn watch_configs(&self) {
        let (nodes, synced) = (self.nodes.clone(), self.synced.one_more());
        self.context.spawn(async move {
            let told = |change| {
                synced.observe(&change);
                nodes.config_changed(change);
            };
            changes(nodes.context.configs(), ListParams::default(), told).await;
        });
    }

    fn watch_pods(&self) {
        let (nodes, synced) = (self.nodes.clone(), self.synced.one_more());
        self.context.spawn(async move {
            let told = |change| {
                synced.observe(&change);
                nodes.pod_changed(change);
            };
            changes(nodes.context.all_pods(), ListParams::default(), told).await;
        });
    }

    fn watch_states(&self) {
        let (parts, synced) = (self.clone(), self.synced.one_more());
        self.context.spawn(async move {
            let told = |change| {
                synced.observe(&change);
                parts.states.state_changed(change);
            };
            changes(parts.context.states(), ListParams::default(), told).await;
        });
    }

    /// Nothing is decided before everything that it is decided on has been told.
    fn work(self) {
        let run = self.context.clone();
        if self.work_on_subnets() {
            let Self { synced, subnets, .. } = self.clone();
            run.spawn(async move {
                synced.all().await;
                subnets.recall().await;
                // One at a time: which of two that overlap was first, is decided by the order.
                work(subnets.queue.clone(), 1, move |name| subnets.clone().reconcile(name)).await;
            });
        }
        if run.runs(Controller::Subnet) {
            let subnets = self.subnets.clone();
            run.spawn(async move { subnets.follow_services().await });
        }
        if run.runs(Controller::SubnetState) {
            let Self { synced, states, .. } = self.clone();
            run.spawn(async move {
                synced.all().await;
                work(states.queue.clone(), 4, move |name| states.clone().reconcile(name)).await;
            });
        }
        if self.gives_addresses() {
            let this = self.clone();
            run.spawn(async move {
                this.synced.all().await;
                let claims = this.context.claims.clone();
                claims.run(this.nodes, this.subnets.queue).await;
            });
        }
        if self.work_on_nodes() {
            let this = self.clone();
            run.spawn(async move {
                this.synced.all().await;
                if this.work_on_subnets() {
                    this.subnets.seen().await;
                }
                if this.gives_addresses() {
                    this.context.claims.settled().await;
                }
                let nodes = this.nodes;
                let queue = nodes.queue.clone();
                work(queue, nodes::AT_ONCE, move |name| nodes.clone().reconcile(name)).await;
            });
        }
        if run.runs(Controller::Reclaim) {
            let Self { synced, nodes, .. } = self;
            run.spawn(async move {
                synced.all().await;
                Reclaim::new(nodes).run().await;
            });
        }
    }
}
