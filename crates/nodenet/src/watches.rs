//! Feeds what the watches report into the index and the queues.

use std::time::Duration;

use berth_api::{NodeNetworkConfig, ObservedNode, ObservedPod, Subnet};
use berth_kit::watch::{Change, Key};
use kube::ResourceExt;
use tokio::time::Instant;

use crate::context::Context;
use crate::facts::{NncFacts, NodeFacts, SubnetFacts};

/// What nodes request decides whether a subnet is exhausted. That is checked when a burst is over.
const BURST: Duration = Duration::from_secs(1);

pub fn node_changed(context: &Context, change: Change<ObservedNode>) {
    match change {
        Change::Apply(node) => {
            let name = node.name_any();
            let facts = NodeFacts::of(&node);
            if context.index().apply_node(&name, facts, Instant::now()) {
                context.node_queue.add(name);
            }
        }
        Change::Delete(Key { name, .. }) => {
            context.index().delete_node(&name, Instant::now());
            context.node_queue.add(name);
            context.reclaim.notify_one();
        }
        Change::Restarted | Change::Synced => {}
    }
}

pub fn nnc_changed(context: &Context, change: Change<NodeNetworkConfig>) {
    match change {
        Change::Apply(nnc) => {
            let name = nnc.name_any();
            let (has_work, asks_of) = {
                let mut index = context.index();
                let before = index.nnc(&name).map(|before| before.requested);
                let facts = NncFacts::of(&nnc);
                let changed = before != Some(facts.requested);
                let asks_of = facts.pods_subnet.clone().filter(|_| changed);
                (index.apply_nnc(&name, facts), asks_of)
            };
            if let Some(subnet) = asks_of {
                context.subnet_queue.add_after(subnet, BURST);
            }
            if has_work {
                context.node_queue.add(name);
            }
        }
        Change::Delete(Key { name, .. }) => {
            context.index().delete_nnc(&name, Instant::now());
            context.node_queue.add(name);
            context.reclaim.notify_one();
        }
        Change::Restarted => context.index().clear_settled(),
        Change::Synced => {}
    }
}

pub fn subnet_changed(context: &Context, change: &Change<Subnet>) {
    let concerned = match change {
        Change::Apply(subnet) => {
            let facts = SubnetFacts::of(subnet);
            context.index().apply_subnet(&subnet.name_any(), facts)
        }
        Change::Delete(Key { name, .. }) => {
            context.metrics.delete_subnet(name);
            context.index().delete_subnet(name)
        }
        Change::Restarted | Change::Synced => Vec::new(),
    };
    concerned.into_iter().for_each(|name| context.node_queue.add(name));
}

pub fn pod_changed(context: &Context, change: Change<ObservedPod>) {
    let now = Instant::now();
    let gone = match change {
        Change::Apply(pod) => context.pods().apply(&Key::of(&*pod).to_string(), &pod, now),
        Change::Delete(pod) => context.pods().delete(&pod.to_string(), now),
        Change::Restarted | Change::Synced => Vec::new(),
    };
    for address in gone {
        if let Some(node) = context.claims.vanished(address) {
            context.wake(&node);
        }
    }
}
