//! What the page shows of an [`Index`], small enough to send at every change: counts, and the first
//! rows of long lists. Rows that need a person come first.

mod nodes;

use std::collections::BTreeMap;

use berth_api::{Count, Subnet};
use berth_inspect::explain::{self, Explanation};
use berth_inspect::facts::is_for_pods;
use berth_inspect::status::{self, MachineRow, NodeRow, SubnetRow};
use berth_kit::watch::Key;
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use crate::history::{Forecast, History, Sample};
use crate::index::{EventRow, Index, LeaderRow};
use crate::map::Source;
use crate::measures::Measured;

pub use nodes::{NodePage, NodeView, RouteState, page as node_page};

/// At most this many rows of each list are sent; the counts cover all rows.
const MAX_ROWS: usize = 100;
const MAX_EXPLAINED: usize = 25;
const MAX_EVENTS: usize = 50;

/// Values that stay the same while the process runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    pub version: &'static str,
    /// The API server that is watched.
    pub api: String,
    /// The data directory of `berth up`; `None` for another cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_in: Option<String>,
    pub started: Timestamp,
    /// Whether agents' metrics can be read here.
    pub has_agent_metrics: bool,
}

impl About {
    pub fn new(api: String, kept_in: Option<String>, has_agent_metrics: bool) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            api,
            kept_in,
            started: Timestamp::now(),
            has_agent_metrics,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    #[serde(flatten)]
    pub about: About,
    /// Kinds that have not been read whole yet, and kinds that the cluster does not have.
    pub unsynced: Vec<String>,
    pub missing: Vec<String>,
    pub totals: Totals,
    pub subnets: Vec<SubnetView>,
    pub nodes: Vec<NodeView>,
    pub waiting_pods: Vec<WaitingPod>,
    pub machines: Vec<MachineView>,
    pub clusters: Vec<ClusterRow>,
    pub releases: Vec<Releases>,
    pub leaders: Vec<LeaderRow>,
    pub events: Vec<EventRow>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub nodes: usize,
    pub nodes_ready: usize,
    /// Pods that need an address.
    pub pods: usize,
    pub pods_waiting: usize,
    pub machines: usize,
    pub machines_waiting: usize,
    /// Nodes with a podCIDR, by the state of their route.
    pub routes: BTreeMap<RouteState, usize>,
    /// Addresses that agents give back and that their NodeNetworkConfigs still list.
    pub releasing: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetView {
    #[serde(flatten)]
    pub row: SubnetRow,
    pub source: Source,
    pub nodes: usize,
    /// Addresses that its nodes have for pods, and the pods on them that need one.
    pub pool: Count,
    pub demand: usize,
    pub forecast: Forecast,
    pub explanation: Explanation,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingPod {
    pub namespace: String,
    pub name: String,
    pub node: Option<String>,
    pub since: Option<Timestamp>,
    /// The text of `berth explain pod`; only for the first few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineView {
    #[serde(flatten)]
    pub row: MachineRow,
    /// The API group of its kind: there are two.
    pub group: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

/// A Cluster with its own machines.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    pub name: String,
    pub is_vsphere: bool,
    pub cidrs: Vec<String>,
}

/// The addresses that a node gives back.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Releases {
    pub node: String,
    /// Given back by its agent, still in its NodeNetworkConfig.
    pub releasing: usize,
    /// In the release queue on disk, still to be read by the agent; `None` if its metrics cannot be
    /// read.
    pub queued: Option<f64>,
    pub oldest_seconds: Option<f64>,
}

/// The whole state at one moment.
pub fn state(
    index: &Index,
    about: &About,
    history: &History,
    measured: &Measured,
    now: Timestamp,
) -> State {
    let facts = &index.facts;
    let mut nodes = status::nodes(facts);
    let machines = status::machines(facts);
    let waiting = waiting_pods(index);
    let totals = Totals {
        nodes: nodes.len(),
        nodes_ready: nodes.iter().filter(|node| node.ready).count(),
        pods: facts.pods.values().filter(|pod| pod.is_living()).count(),
        pods_waiting: waiting.len(),
        machines: machines.len(),
        machines_waiting: machines.iter().filter(|row| waits(row)).count(),
        routes: nodes::routes(index, &nodes),
        releasing: facts
            .nncs
            .values()
            .map(|nnc| nnc.object.spec.ips_not_in_use.len())
            .sum(),
    };
    let subnets = subnets(index, &nodes, history);
    nodes::worst_first(&mut nodes);
    nodes.truncate(MAX_ROWS);
    State {
        about: about.clone(),
        unsynced: index.unsynced.iter().cloned().collect(),
        missing: facts.missing.clone(),
        totals,
        subnets,
        nodes: nodes::views(index, nodes),
        waiting_pods: explained(index, waiting),
        machines: machine_views(index, machines),
        clusters: clusters(index),
        releases: releases(index, measured),
        leaders: index.leases.rows(now),
        events: index.events.latest(MAX_EVENTS),
    }
}

/// The sample of each subnet for the history.
pub fn samples(index: &Index) -> BTreeMap<String, Sample> {
    let nodes = status::nodes(&index.facts);
    let totals = node_totals(&nodes);
    let sample = |(name, subnet): (&String, &Subnet)| {
        let status = subnet.status.clone().unwrap_or_default();
        let NodeTotals { pool, demand, .. } =
            totals.get(name.as_str()).copied().unwrap_or_default();
        let sample = Sample {
            capacity: approximate(status.capacity),
            reserved: approximate(status.reserved),
            cooling_down: approximate(status.cooling_down),
            pool: approximate(Some(Count(pool))),
            demand: approximate(Some(Count(u128::try_from(demand).unwrap_or(u128::MAX)))),
        };
        (name.clone(), sample)
    };
    index.facts.subnets.iter().map(sample).collect()
}

/// Precise enough for a chart.
fn approximate(count: Option<Count>) -> f64 {
    count.map_or(0.0, |count| count.0.to_string().parse().unwrap_or(f64::MAX))
}

/// Sums over the nodes of a subnet.
#[derive(Clone, Copy, Default)]
struct NodeTotals {
    nodes: usize,
    pool: u128,
    demand: usize,
}

fn node_totals(nodes: &[NodeRow]) -> BTreeMap<&str, NodeTotals> {
    let mut node_totals = BTreeMap::<&str, NodeTotals>::new();
    for node in nodes {
        let totals = node_totals.entry(&node.subnet).or_default();
        totals.nodes += 1;
        totals.pool = totals.pool.saturating_add(node.has);
        totals.demand += node.pods;
    }
    node_totals
}

fn subnets(index: &Index, nodes: &[NodeRow], history: &History) -> Vec<SubnetView> {
    let node_totals = node_totals(nodes);
    let view = |row: SubnetRow| {
        let totals = node_totals.get(row.name.as_str()).copied().unwrap_or_default();
        SubnetView {
            source: Source::of(index, &row.name),
            nodes: totals.nodes,
            pool: Count(totals.pool),
            demand: totals.demand,
            forecast: history.forecast(&row.name),
            explanation: explain::subnet(&index.facts, &row.name).unwrap_or_default(),
            row,
        }
    };
    let mut rows = status::subnets(&index.facts);
    // Subnets for pods first: most people look for these.
    let is_for_pods = |row: &SubnetRow| index.facts.subnets.get(&row.name).is_some_and(is_for_pods);
    rows.sort_by_key(|row| !is_for_pods(row));
    rows.into_iter().map(view).collect()
}

/// Pods that are on a node and have no address, and pods that the scheduler cannot place. The
/// longest wait first.
fn waiting_pods(index: &Index) -> Vec<(&Key, Option<Timestamp>)> {
    let pods = index.facts.pods.iter().filter(|(_, pod)| {
        let is_unplaced = pod.node.is_none() && pod.unschedulable.is_some();
        pod.waits_for_address() || (is_unplaced && pod.is_living() && !pod.is_deleting)
    });
    let mut pods: Vec<_> = pods.map(|(key, pod)| (key, pod.created)).collect();
    pods.sort_by_key(|(_, created)| *created);
    pods
}

fn explained(index: &Index, pods: Vec<(&Key, Option<Timestamp>)>) -> Vec<WaitingPod> {
    let pods = pods.into_iter().take(MAX_ROWS).enumerate();
    pods.map(|(place, (key, since))| {
        let told = (place < MAX_EXPLAINED).then(|| explain::pod(&index.facts, key));
        WaitingPod {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            node: index.facts.pods.get(key).and_then(|pod| pod.node.clone()),
            since,
            explanation: told.flatten(),
        }
    })
    .collect()
}

fn waits(machine: &MachineRow) -> bool {
    matches!(machine.state.as_str(), "NoNetwork" | "Gated")
}

fn machine_views(index: &Index, mut rows: Vec<MachineRow>) -> Vec<MachineView> {
    rows.sort_by_key(|row| !waits(row));
    let view = |row: MachineRow| {
        let key = Key {
            namespace: row.namespace.clone(),
            name: row.name.clone(),
        };
        let explanation = waits(&row).then(|| explain::machine(&index.facts, &key));
        MachineView {
            row,
            group: index.machine_group(&key).unwrap_or_default(),
            explanation: explanation.flatten(),
        }
    };
    rows.into_iter().take(MAX_ROWS).map(view).collect()
}

/// Clusters that can have a machine network come first.
fn clusters(index: &Index) -> Vec<ClusterRow> {
    let rows = index.clusters.iter().map(|(name, facts)| ClusterRow {
        name: name.clone(),
        is_vsphere: facts.is_vsphere,
        cidrs: facts.cidrs.clone(),
    });
    let mut rows: Vec<ClusterRow> = rows.collect();
    rows.sort_by_key(|row| !row.is_vsphere);
    rows.truncate(MAX_ROWS);
    rows
}

/// Nodes with addresses to give back, the most first.
fn releases(index: &Index, measured: &Measured) -> Vec<Releases> {
    let mut rows: Vec<Releases> = index
        .facts
        .nncs
        .values()
        .map(|nnc| {
            let node = nnc.object.name_any();
            let queue = measured.queued.get(&node);
            Releases {
                releasing: nnc.object.spec.ips_not_in_use.len(),
                queued: queue.map(|queue| queue.entries),
                oldest_seconds: queue.map(|queue| queue.age_seconds),
                node,
            }
        })
        .filter(|row| row.releasing > 0 || row.queued.is_some_and(|entries| entries > 0.0))
        .collect();
    rows.sort_by(|one, other| {
        let weight = |row: &Releases| (row.queued.unwrap_or_default(), row.releasing);
        let order = weight(other).partial_cmp(&weight(one));
        order.unwrap_or(std::cmp::Ordering::Equal)
    });
    rows.truncate(MAX_ROWS);
    rows
}
