//! Starts the watches, and the loops that work on what they report.

use berth_api::Subnet;
use berth_kit::watch::{Change, Synced, changes};
use berth_kit::work::work;
use kube::api::ListParams;

use crate::context::Context;
use crate::controller::Controller;
use crate::reconcile::{self, reconcile};
use crate::subnet::{self, Subnets};
use crate::subnet_state::{self, SubnetStates};
use crate::{claim_back, reclaim, watches};

/// Starts all loops, in the background.
pub fn start(context: &Context) {
    let parts = Parts {
        subnets: Subnets::new(context.clone()),
        states: SubnetStates::new(context.clone()),
        context: context.clone(),
        synced: Synced::default(),
    };
    parts.watch_subnets();
    if parts.work_on_nodes() {
        parts.watch_nodes();
        parts.watch_nncs();
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

    /// Subnets are registered also without the subnet controller: a ledger in this process must
    /// know them, for nodes and for whatever else draws on it. A service does.
    fn work_on_subnets(&self) -> bool {
        self.context.runs(Controller::Subnet) || !self.context.allocator.is_shared()
    }

    /// One watch for all.
    fn watch_subnets(&self) {
        let (parts, synced) = (self.clone(), self.synced.one_more());
        self.context.background.spawn(async move {
            let told = |change: Change<Subnet>| {
                watches::subnet_changed(&parts.context, &change);
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
        let (context, synced) = (self.context.clone(), self.synced.one_more());
        self.context.background.spawn(async move {
            let told = |change| {
                synced.observe(&change);
                watches::node_changed(&context, change);
            };
            changes(context.nodes(), ListParams::default(), told).await;
        });
    }

    fn watch_nncs(&self) {
        let (context, synced) = (self.context.clone(), self.synced.one_more());
        self.context.background.spawn(async move {
            let told = |change| {
                synced.observe(&change);
                watches::nnc_changed(&context, change);
            };
            changes(context.nncs(), ListParams::default(), told).await;
        });
    }

    fn watch_pods(&self) {
        let (context, synced) = (self.context.clone(), self.synced.one_more());
        self.context.background.spawn(async move {
            let told = |change| {
                synced.observe(&change);
                watches::pod_changed(&context, change);
            };
            changes(context.all_pods(), ListParams::default(), told).await;
        });
    }

    fn watch_states(&self) {
        let (parts, synced) = (self.clone(), self.synced.one_more());
        self.context.background.spawn(async move {
            let told = |change| {
                synced.observe(&change);
                parts.states.state_changed(&change);
            };
            changes(parts.context.subnet_states(), ListParams::default(), told).await;
        });
    }

    /// Nothing is decided before the watches have reported everything that it depends on.
    fn work(self) {
        let context = self.context.clone();
        let background = &context.background;
        if self.work_on_subnets() {
            let Self { synced, subnets, .. } = self.clone();
            background.spawn(async move {
                synced.all().await;
                subnet::restore_all(&subnets).await;
                let queue = subnets.context.subnet_queue.clone();
                // One at a time: the order decides which of two overlapping Subnets was first.
                work(queue, 1, move |name| subnet::reconcile(subnets.clone(), name)).await;
            });
        }
        if context.runs(Controller::Subnet) {
            background.spawn(subnet::follow_services(self.subnets.clone()));
        }
        if context.runs(Controller::SubnetState) {
            let Self { synced, states, .. } = self.clone();
            background.spawn(async move {
                synced.all().await;
                let queue = states.queue.clone();
                work(queue, 4, move |name| subnet_state::reconcile(states.clone(), name)).await;
            });
        }
        if self.gives_addresses() {
            let Self { synced, context, .. } = self.clone();
            background.spawn(async move {
                synced.all().await;
                claim_back::run(context).await;
            });
        }
        if self.work_on_nodes() {
            let this = self.clone();
            background.spawn(async move {
                this.synced.all().await;
                if this.work_on_subnets() {
                    this.subnets.all_reconciled().await;
                }
                if this.gives_addresses() {
                    this.context.claims.settled().await;
                }
                let context = this.context;
                let queue = context.node_queue.clone();
                let handle = move |name| reconcile(context.clone(), name);
                work(queue, reconcile::CONCURRENCY, handle).await;
            });
        }
        if context.runs(Controller::Reclaim) {
            let Self { synced, context, .. } = self;
            background.spawn(async move {
                synced.all().await;
                reclaim::run(context).await;
            });
        }
    }
}
