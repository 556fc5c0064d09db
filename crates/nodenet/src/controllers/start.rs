//! Starts the watches and the loops that work on what they tell.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch as signal;

use super::watch::{self, Change};
use super::work::work;
use super::{Context, Controller, Nodes, nodes};
use crate::reclaim::Reclaim;
use crate::subnet::Subnets;
use crate::subnet_state::SubnetStates;

/// All loops, in the background.
pub fn start(context: &Context, grace: Duration) {
    let nodes = Nodes::new(context.clone());
    let subnets = Subnets::new(context.clone());
    let states = SubnetStates::new(context.clone());
    let (synced, all_synced) = signal::channel(0_usize);
    let synced = Arc::new(synced);
    let of_nodes = [
        Controller::Node,
        Controller::Nnc,
        Controller::NodeIpam,
        Controller::Reclaim,
    ];
    let nodes_run = of_nodes.into_iter().any(|controller| context.runs(controller));
    let mut watches = 1;

    // One watch of Subnets for all.
    context.spawn({
        let (nodes, subnets, states, synced) = (nodes.clone(), subnets.clone(), states.clone(), Arc::clone(&synced));
        let context = context.clone();
        async move {
            let told = |change: Change<berth_api::Subnet>| {
                nodes.subnet_changed(&change);
                if context.runs(Controller::Subnet) {
                    subnets.changed(&change);
                }
                if context.runs(Controller::SubnetState) {
                    states.subnet_changed(&change);
                }
                count_synced(&synced, &change);
            };
            watch::follow(context.subnets(), told).await;
        }
    });
    if nodes_run {
        watches += 2;
        context.spawn({
            let (nodes, synced) = (nodes.clone(), Arc::clone(&synced));
            async move {
                let told = |change| {
                    count_synced(&synced, &change);
                    nodes.node_changed(change);
                };
                watch::follow(nodes.context.nodes(), told).await;
            }
        });
        context.spawn({
            let (nodes, synced) = (nodes.clone(), Arc::clone(&synced));
            async move {
                let told = |change| {
                    count_synced(&synced, &change);
                    nodes.config_changed(change);
                };
                watch::follow(nodes.context.configs(), told).await;
            }
        });
    }
    if context.runs(Controller::SubnetState) {
        watches += 1;
        let states = states.clone();
        let context = context.clone();
        context.clone().spawn(async move {
            let told = |change| {
                count_synced(&synced, &change);
                states.state_changed(change);
            };
            watch::follow(context.states(), told).await;
        });
    }

    // Nothing is decided before everything that it is decided on has been told.
    let ready = move || {
        let mut all_synced = all_synced.clone();
        async move { all_synced.wait_for(|count| *count == watches).await.is_ok() }
    };
    if nodes_run {
        let (ready, nodes) = (ready.clone(), nodes.clone());
        context.spawn(async move {
            if ready().await {
                let queue = nodes.queue.clone();
                work(queue, nodes::AT_ONCE, move |name| nodes.clone().reconcile(name)).await;
            }
        });
    }
    if context.runs(Controller::Subnet) {
        let ready = ready.clone();
        context.spawn(async move {
            if ready().await {
                let queue = subnets.queue.clone();
                // One at a time: which of two that overlap was first, is decided by the order.
                work(queue, 1, move |name| subnets.clone().reconcile(name)).await;
            }
        });
    }
    if context.runs(Controller::SubnetState) {
        let ready = ready.clone();
        context.spawn(async move {
            if ready().await {
                let queue = states.queue.clone();
                work(queue, 4, move |name| states.clone().reconcile(name)).await;
            }
        });
    }
    if context.runs(Controller::Reclaim) {
        context.spawn(async move {
            if ready().await {
                Reclaim::new(nodes, grace).run().await;
            }
        });
    }
}

fn count_synced<K>(synced: &signal::Sender<usize>, change: &Change<K>) {
    if matches!(change, Change::Synced) {
        synced.send_modify(|count| *count += 1);
    }
}
