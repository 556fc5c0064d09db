//! Feeds the worker: from Nodes that come, go or change, from Subnets that define where routes are
//! made, and from the clock.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use berth_api::subnet::Use;
use berth_api::{ObservedNode, Subnet};
use berth_kit::follow::follow;
use berth_kit::queue::Queue;
use kube::api::ListParams;
use kube::runtime::watcher::Event;
use kube::{Api, Client, ResourceExt};
use rand::RngExt;
use rand::rngs::StdRng;
use tracing::info;

use super::Options;
use super::publish::Publish;
use super::shared::Shared;
use crate::core::{Index, Node, NodeChange, Scope, parse_cidr};

/// An item of the queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A node came, went, or has other CIDRs or addresses.
    Node(String),
    /// A failed change of this destination is due again.
    Destination(Prefix),
    /// A failed write of the condition of this node is due again.
    Condition(String),
    /// Routes without a node may be deleted once a new list of nodes confirms it.
    Confirm,
    /// List all routes and compare them with all nodes.
    All,
    /// The same, triggered by the clock.
    Periodic,
}

pub struct Feed {
    client: Client,
    shared: Arc<Shared>,
    queue: Queue<Key>,
    watch_based: bool,
    reconciliation_period: Duration,
    min_resync_period: Duration,
    scope_is_given: bool,
    /// The node that this process is on: it needs no route to itself.
    own: Option<String>,
    random: StdRng,
}

impl Feed {
    pub fn new(options: &Options, shared: Arc<Shared>, queue: Queue<Key>, random: StdRng) -> Self {
        Self {
            client: options.client.clone(),
            shared,
            queue,
            watch_based: options.watch_based,
            reconciliation_period: options.reconciliation_period,
            min_resync_period: options.min_resync_period,
            scope_is_given: options.cluster_cidrs.is_some(),
            own: match &options.publish {
                Publish::Own(node) => Some(node.clone()),
                Publish::All => None,
            },
            random,
        }
    }

    pub async fn run(mut self) {
        let period = self.period();
        let feed = &self;
        tokio::join!(feed.watch_nodes(), feed.watch_subnets(), feed.tick(period));
    }

    /// The time between two periodic reconciles. Random, so that controllers that started together
    /// do not stay in step.
    fn period(&mut self) -> Duration {
        if self.watch_based {
            self.min_resync_period
                .mul_f64(1.0 + self.random.random::<f64>())
        } else {
            self.reconciliation_period
        }
    }

    async fn tick(&self, period: Duration) {
        loop {
            tokio::time::sleep(period).await;
            self.queue.add(Key::Periodic);
        }
    }

    async fn watch_nodes(&self) {
        let api = Api::<ObservedNode>::all(self.client.clone());
        let mut listed = Vec::new();
        let handle = |event: Event<ObservedNode>| match event {
            Event::Init => listed.clear(),
            Event::InitApply(node) => listed.push(Node::from(node)),
            Event::InitDone => self.reset(std::mem::take(&mut listed)),
            Event::Apply(node) => self.apply(node.into()),
            Event::Delete(node) => self.delete(&node.name_any()),
        };
        follow(api, ListParams::default(), handle).await;
    }

    fn reset(&self, mut nodes: Vec<Node>) {
        nodes.retain(|node| self.own.as_ref() != Some(&node.name));
        let changed = self.shared.index.lock().reset(nodes);
        let first = !self.shared.is_synced();
        self.shared.set_synced();
        if first {
            self.queue.add(Key::All);
        }
        if self.watch_based {
            changed
                .into_iter()
                .for_each(|name| self.queue.add(Key::Node(name)));
        }
    }

    fn apply(&self, node: Node) {
        if self.own.as_ref() == Some(&node.name) {
            return;
        }
        let name = node.name.clone();
        let change = self.shared.index.lock().apply(node);
        self.changed(name, change);
    }

    fn delete(&self, name: &str) {
        let change = self.shared.index.lock().delete(name);
        self.changed(name.to_owned(), change);
    }

    fn changed(&self, name: String, change: NodeChange) {
        if change == NodeChange::Routes && self.watch_based {
            self.queue.add(Key::Node(name));
        }
    }

    /// Runs only without `--cluster-cidr`: the Subnets define the cluster CIDRs.
    async fn watch_subnets(&self) {
        if self.scope_is_given {
            return pending().await;
        }
        let api = Api::<Subnet>::all(self.client.clone());
        let mut subnets: BTreeMap<String, Vec<Prefix>> = BTreeMap::new();
        let mut ready = false;
        let handle = |event: Event<Subnet>| {
            match event {
                Event::Init => {
                    subnets.clear();
                    ready = false;
                }
                Event::InitApply(subnet) | Event::Apply(subnet) => {
                    subnets.insert(subnet.name_any(), cidrs(&subnet));
                }
                Event::InitDone => ready = true,
                Event::Delete(subnet) => drop(subnets.remove(&subnet.name_any())),
            }
            if ready {
                self.set_scope(Scope::new(subnets.values().flatten().copied()));
            }
        };
        follow(api, ListParams::default(), handle).await;
    }

    fn set_scope(&self, scope: Scope) {
        let mut known = self.shared.scope.lock();
        if known.as_deref() == Some(&scope) {
            return;
        }
        info!(cidrs = ?scope.cidrs(), "read the cluster CIDRs from Subnets with use: node-cidrs");
        *known = Some(Arc::new(scope));
        drop(known);
        if self.shared.is_synced() {
            self.queue.add(Key::All);
            let names = |index: &Index| -> Vec<String> {
                index.nodes().map(|node| node.name.clone()).collect()
            };
            let names = names(&self.shared.index.lock());
            if self.watch_based {
                names
                    .into_iter()
                    .for_each(|name| self.queue.add(Key::Node(name)));
            }
        }
    }
}

/// Skips a CIDR that does not parse: the Subnet controller reports it.
fn cidrs(subnet: &Subnet) -> Vec<Prefix> {
    if subnet.spec.usage != Use::NodeCidrs {
        return Vec::new();
    }
    let cidrs = subnet.spec.cidrs.iter();
    cidrs.filter_map(|cidr| parse_cidr(cidr)).collect()
}

#[cfg(test)]
mod tests {
    use std::io;

    use berth_kit::queue::{DEFAULT_BACKOFF, QueueMetrics};
    use http::{Request, Response};
    use kube::client::Body;
    use prometheus_client::registry::Registry;
    use rand::SeedableRng;

    use super::*;
    use crate::core::{Address, Cidr, Condition};

    fn feed(watch_based: bool) -> Feed {
        let nobody = tower::service_fn(async |_: Request<Body>| {
            Err::<Response<Body>, _>(io::Error::other("nobody answers"))
        });
        let metrics = QueueMetrics::register(&mut Registry::default());
        Feed {
            client: Client::new(nobody, "default"),
            shared: Arc::new(Shared::new(None)),
            queue: Queue::new("Routes", DEFAULT_BACKOFF, &metrics),
            watch_based,
            reconciliation_period: Duration::from_secs(10),
            min_resync_period: Duration::from_secs(10),
            scope_is_given: true,
            own: None,
            random: StdRng::seed_from_u64(1),
        }
    }

    fn node() -> Node {
        Node {
            name: "n1".to_owned(),
            cidrs: vec![Cidr::from("10.120.0.0/24")],
            addresses: vec![Address {
                kind: "InternalIP".to_owned(),
                address: "10.0.0.1".to_owned(),
            }],
            ..Node::default()
        }
    }

    /// Drains the queue.
    async fn queued(feed: &Feed) -> Vec<Key> {
        let mut keys = Vec::new();
        while !feed.queue.is_empty() {
            keys.push(feed.queue.take().await.unwrap().clone());
        }
        keys
    }

    #[tokio::test]
    async fn only_updates_that_matter_put_an_item_into_the_queue() {
        let feed = feed(true);
        let key = || vec![Key::Node("n1".to_owned())];
        feed.apply(node());
        assert_eq!(queued(&feed).await, key());
        let mut other = node();
        other.condition = Some(Condition::routed());
        feed.apply(other.clone());
        assert_eq!(queued(&feed).await, []);
        other.cidrs.push(Cidr::from("fd12::/64"));
        feed.apply(other.clone());
        assert_eq!(queued(&feed).await, key());
        other.addresses[0].address = "10.0.0.2".to_owned();
        feed.apply(other);
        assert_eq!(queued(&feed).await, key());
        feed.delete("n1");
        assert_eq!(queued(&feed).await, key());
    }

    #[tokio::test]
    async fn with_the_gate_off_no_event_puts_an_item_into_the_queue() {
        let feed = feed(false);
        feed.apply(node());
        feed.delete("n1");
        assert_eq!(queued(&feed).await, []);
    }
}
