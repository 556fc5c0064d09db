//! What the watches have told so far of Nodes, NodeNetworkConfigs and Subnets, and whose turn it is
//! because of it. Plain data, in a fixed order: a run with the same seed must take the same steps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_api::subnet::Use;
use tokio::time::Instant;

use crate::{nnc, node, subnet};

#[derive(Debug, Default)]
pub struct Index {
    nodes: BTreeMap<String, Seen>,
    configs: BTreeMap<String, nnc::Facts>,
    subnets: BTreeMap<String, Arc<subnet::Facts>>,
    /// By the name of the node, or of the config without one.
    news: BTreeMap<String, News>,
    /// The version of a config up to which everything has been done.
    settled: BTreeMap<String, u64>,
    /// Nodes whose podCIDRs may not be in the ledger yet.
    unrecorded: BTreeSet<String>,
    departed: BTreeMap<String, Departed>,
}

/// A Node that is gone, or that another one of the same name has followed. Its addresses are still
/// its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departed {
    pub uid: String,
    pub machine: String,
    at: Instant,
}

/// So long after it is gone, nobody asks for what a Node had.
const MAX_DEPARTED: Duration = Duration::from_secs(3600);

#[derive(Debug)]
struct Seen {
    facts: Arc<node::Facts>,
    since: Instant,
    /// It has been said that no subnet takes it.
    left_out: bool,
}

/// Why a node is to be looked at. Changes of its config are told apart: most of them are our own
/// writes coming back.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    config: bool,
    other: bool,
}

/// What is known of one node, to decide on.
#[derive(Clone, Debug)]
pub struct View {
    pub node: Option<Arc<node::Facts>>,
    /// When the node was first seen.
    pub since: Option<Instant>,
    pub has_config: bool,
    /// The subnets it would draw on, if it had nothing yet.
    pub pods: Option<String>,
    pub node_cidrs: Option<String>,
    /// One for pods that would take it, if it served.
    pub unready: Option<String>,
}

impl Index {
    /// Whether there is something to do.
    pub fn apply_node(&mut self, name: &str, facts: node::Facts, now: Instant) -> bool {
        let before = self.nodes.get(name);
        // Kubelets write a node's status all the time; most of it is of no interest here.
        if before.is_some_and(|before| *before.facts == facts) {
            return false;
        }
        if let Some(other) = before.filter(|before| before.facts.uid != facts.uid) {
            let facts = Arc::clone(&other.facts);
            self.depart(name, &facts, now);
        }
        let before = self.nodes.get(name);
        let same_node = before.filter(|before| before.facts.uid == facts.uid);
        if !facts.pod_cidrs.is_empty() {
            self.unrecorded.insert(name.to_owned());
        }
        let seen = Seen {
            since: same_node.map_or(now, |before| before.since),
            left_out: same_node.is_some_and(|before| before.left_out),
            facts: Arc::new(facts),
        };
        self.nodes.insert(name.to_owned(), seen);
        self.look_at(name);
        true
    }

    pub fn delete_node(&mut self, name: &str, now: Instant) {
        if let Some(seen) = self.nodes.remove(name) {
            self.depart(name, &seen.facts, now);
        }
        self.look_at(name);
    }

    fn depart(&mut self, name: &str, facts: &node::Facts, now: Instant) {
        let recent =
            |departed: &Departed| now.saturating_duration_since(departed.at) < MAX_DEPARTED;
        self.departed.retain(|_, departed| recent(departed));
        if let Some(machine) = facts.machine.clone() {
            let uid = facts.uid.clone();
            self.departed
                .insert(name.to_owned(), Departed { uid, machine, at: now });
        }
    }

    /// The Node that was on the same machine under the same name before this one, if what it had
    /// may still be there.
    pub fn predecessor(&self, name: &str, node: &node::Facts) -> Option<String> {
        let departed = self.departed.get(name)?;
        let same = node.machine.as_ref() == Some(&departed.machine) && departed.uid != node.uid;
        same.then(|| departed.uid.clone())
    }

    /// What it had is its successor's.
    pub fn succeeded(&mut self, name: &str) {
        self.departed.remove(name);
    }

    /// Whether there is something to do: not when it is a state that was left behind by us, or an
    /// older one.
    pub fn apply_config(&mut self, name: &str, facts: nnc::Facts) -> bool {
        // A server that was restored counts from an earlier number: what was settled then is not.
        let told = self.configs.get(name).map_or(0, |told| told.version);
        if facts.version < told {
            self.settled.remove(name);
        }
        let settled = self.settled.get(name);
        let is_news = facts.version == 0 || settled.is_none_or(|settled| facts.version > *settled);
        self.configs.insert(name.to_owned(), facts);
        if is_news {
            self.news.entry(name.to_owned()).or_default().config = true;
        }
        is_news
    }

    /// The watch begins anew: it can't be told any more which states are older than those that were
    /// settled.
    pub fn unsettle(&mut self) {
        self.settled.clear();
    }

    pub fn delete_config(&mut self, name: &str) {
        self.configs.remove(name);
        self.settled.remove(name);
        self.look_at(name);
    }

    /// The nodes that there is something to do for.
    pub fn apply_subnet(&mut self, name: &str, facts: subnet::Facts) -> Vec<String> {
        let facts = Arc::new(facts);
        let before = self.subnets.insert(name.to_owned(), Arc::clone(&facts));
        if before.as_ref() == Some(&facts) {
            return Vec::new();
        }
        if facts.usage == Use::NodeCidrs {
            // What was nowhere may be in it, also of nodes that it does not select.
            let with_cidrs = self.nodes.iter().filter(|(_, seen)| !seen.facts.pod_cidrs.is_empty());
            self.unrecorded.extend(with_cidrs.map(|(name, _)| name.clone()));
        }
        self.look_at_nodes_of(name, [Some(facts), before].into_iter().flatten().collect())
    }

    pub fn delete_subnet(&mut self, name: &str) -> Vec<String> {
        let before = self.subnets.remove(name);
        self.look_at_nodes_of(name, before.into_iter().collect())
    }

    /// Those that have a container in the subnet, and those that may get one there or can't any
    /// more.
    fn look_at_nodes_of(&mut self, subnet: &str, states: Vec<Arc<subnet::Facts>>) -> Vec<String> {
        let drawing = |name: &str, node: &node::Facts| {
            let config = self.configs.get(name);
            let has_container =
                config.is_some_and(|config| config.subnets.iter().any(|of| of == subnet));
            has_container || states.iter().any(|state| state.takes(state.usage, node))
        };
        let nodes = self.nodes.iter();
        let concerned = nodes.filter(|(name, seen)| drawing(name, &seen.facts));
        let concerned: Vec<String> = concerned.map(|(name, _)| name.clone()).collect();
        concerned.iter().for_each(|name| self.look_at(name));
        concerned
    }

    /// There is something to do for a reason that is not in here.
    pub fn look_at(&mut self, name: &str) {
        self.news.entry(name.to_owned()).or_default().other = true;
    }

    /// What is known now, if there is anything new in it.
    pub fn take(&mut self, name: &str) -> Option<View> {
        self.news.remove(name)?;
        let seen = self.nodes.get(name);
        let node = seen.map(|seen| Arc::clone(&seen.facts));
        let first = |usage| {
            node.as_deref()
                .and_then(|node| self.first_match(usage, node))
                .map(str::to_owned)
        };
        Some(View {
            since: seen.map(|seen| seen.since),
            has_config: self.configs.contains_key(name),
            pods: first(Use::Pods),
            node_cidrs: first(Use::NodeCidrs),
            unready: node
                .as_deref()
                .and_then(|node| self.first_unready(node))
                .map(str::to_owned),
            node,
        })
    }

    /// The first by name.
    fn first_match(&self, usage: Use, node: &node::Facts) -> Option<&str> {
        let mut subnets = self.subnets.iter();
        let found = subnets.find(|(_, subnet)| subnet.takes(usage, node));
        found.map(|(name, _)| name.as_str())
    }

    fn first_unready(&self, node: &node::Facts) -> Option<&str> {
        let mut subnets = self.subnets.iter();
        let found =
            subnets.find(|(_, subnet)| subnet.would_take(Use::Pods, node) && !subnet.serving);
        found.map(|(name, _)| name.as_str())
    }

    /// Whether a subnet takes the node. Gives whether it is news that none does: it is until a
    /// subnet takes it again.
    pub fn take_in(&mut self, name: &str, taken: bool) -> bool {
        let seen = self.nodes.get_mut(name);
        seen.is_some_and(|seen| !std::mem::replace(&mut seen.left_out, !taken) && !taken)
    }

    /// The nodes whose podCIDRs are to be recorded: whoever takes them does that, or says which are
    /// still not.
    pub fn take_unrecorded(&mut self) -> Vec<(String, Arc<node::Facts>)> {
        let names = std::mem::take(&mut self.unrecorded);
        let there =
            |name: String| self.nodes.get(&name).map(|seen| (name, Arc::clone(&seen.facts)));
        names.into_iter().filter_map(there).collect()
    }

    /// All that have podCIDRs: the ledger may have lost them.
    pub fn unrecord_all(&mut self) {
        let with_cidrs = self.nodes.iter().filter(|(_, seen)| !seen.facts.pod_cidrs.is_empty());
        self.unrecorded.extend(with_cidrs.map(|(name, _)| name.clone()));
    }

    pub fn is_unrecorded(&mut self, name: &str) {
        self.unrecorded.insert(name.to_owned());
    }

    /// All that the config asked for up to this version has been done.
    pub fn settle(&mut self, name: &str, version: u64) {
        if version == 0 {
            return;
        }
        self.settled.insert(name.to_owned(), version);
        let told = self.configs.get(name).map_or(0, |config| config.version);
        if let Some(news) = self.news.get_mut(name)
            && told <= version
        {
            news.config = false;
            if !news.other {
                self.news.remove(name);
            }
        }
    }

    pub fn subnet(&self, name: &str) -> Option<Arc<subnet::Facts>> {
        self.subnets.get(name).cloned()
    }

    /// The subnet for pods that has this address.
    pub fn pods_subnet_of(&self, address: IpAddr) -> Option<String> {
        let mut subnets = self.subnets.iter();
        let has = |subnet: &subnet::Facts| {
            subnet.usage == Use::Pods && subnet.cidr_around(address).is_some()
        };
        let found = subnets.find(|(_, subnet)| subnet.serving && has(subnet));
        found.map(|(name, _)| name.clone())
    }

    pub fn subnets_for(&self, usage: Use) -> Vec<(String, Arc<subnet::Facts>)> {
        let of_use = self.subnets.iter().filter(|(_, subnet)| subnet.usage == usage);
        of_use
            .map(|(name, subnet)| (name.clone(), Arc::clone(subnet)))
            .collect()
    }

    pub fn node(&self, name: &str) -> Option<Arc<node::Facts>> {
        self.nodes.get(name).map(|seen| Arc::clone(&seen.facts))
    }

    /// How many nodes wait for a container in the subnet.
    pub fn starting(&self, subnet: &str) -> usize {
        let nodes = self.nodes.iter().filter(|(name, seen)| {
            let config = self.configs.get(*name);
            let is_empty =
                config.is_some_and(|config| config.containers.is_empty() && !config.deleting);
            is_empty && self.first_match(Use::Pods, &seen.facts) == Some(subnet)
        });
        nodes.count()
    }

    /// What the nodes that draw on a subnet ask for: by name, with what was delivered.
    pub fn requests(&self, subnet: &str) -> impl Iterator<Item = (&str, nnc::Requested)> {
        let drawing = self.configs.iter().filter(|(_, config)| !config.deleting);
        drawing.filter_map(move |(name, config)| {
            let draws = config.pods_subnet.as_deref() == Some(subnet);
            draws.then_some((name.as_str(), config.requested))
        })
    }

    pub fn config(&self, name: &str) -> Option<&nnc::Facts> {
        self.configs.get(name)
    }
}

#[cfg(test)]
mod tests {
    use berth_api::{Subnet, SubnetSpec, SubnetStatus};

    use super::*;

    fn node(uid: &str, zone: &str) -> node::Facts {
        node::Facts {
            uid: uid.to_owned(),
            labels: [("zone".to_owned(), zone.to_owned())].into(),
            ..node::Facts::default()
        }
    }

    fn config(version: u64, subnets: &[&str]) -> nnc::Facts {
        nnc::Facts {
            version,
            subnets: subnets.iter().map(ToString::to_string).collect(),
            ..nnc::Facts::default()
        }
    }

    fn subnet(zone: Option<&str>, serving: bool) -> subnet::Facts {
        let mut subnet = Subnet::new("s", SubnetSpec::default());
        let labels = zone.map(|zone| [("zone".to_owned(), zone.to_owned())].into());
        subnet.spec.node_selector.match_labels = labels;
        subnet.status = serving.then(|| SubnetStatus {
            capacity: Some(1.into()),
            ..SubnetStatus::default()
        });
        subnet::Facts::of(&subnet)
    }

    #[test]
    fn a_node_takes_the_first_match_by_name_of_those_that_serve() {
        let mut index = Index::default();
        index.apply_subnet("a", subnet(None, false));
        index.apply_subnet("b", subnet(Some("east"), true));
        index.apply_subnet("c", subnet(None, true));
        index.apply_node("n1", node("1", "east"), Instant::now());
        index.apply_node("n2", node("2", "west"), Instant::now());
        assert_eq!(index.take("n1").unwrap().pods.as_deref(), Some("b"));
        assert_eq!(index.take("n2").unwrap().pods.as_deref(), Some("c"));
    }

    #[test]
    fn that_no_subnet_takes_a_node_is_news_once() {
        let mut index = Index::default();
        index.apply_subnet("a", subnet(Some("east"), false));
        index.apply_node("n1", node("1", "east"), Instant::now());
        let view = index.take("n1").unwrap();
        assert_eq!((view.pods, view.unready.as_deref()), (None, Some("a")));
        assert!(index.take_in("n1", false));
        index.apply_node("n1", node("1", "west"), Instant::now());
        assert_eq!(index.take("n1").unwrap().unready, None);
        assert!(!index.take_in("n1", false));
        assert!(!index.take_in("n1", true));
        assert!(index.take_in("n1", false));
        // Another node of the same name.
        index.apply_node("n1", node("2", "west"), Instant::now());
        assert!(index.take_in("n1", false));
    }

    #[test]
    fn what_a_kubelet_writes_all_the_time_is_no_news() {
        let mut index = Index::default();
        assert!(index.apply_node("n1", node("1", "east"), Instant::now()));
        assert!(index.take("n1").is_some());
        assert!(!index.apply_node("n1", node("1", "east"), Instant::now()));
        assert!(index.take("n1").is_none());
    }

    #[test]
    fn our_own_writes_coming_back_are_no_news_and_later_ones_are() {
        let mut index = Index::default();
        assert!(index.apply_config("n1", config(7, &[])));
        // It came while the node was worked on, and the work ended with a later state.
        index.settle("n1", 8);
        assert!(index.take("n1").is_none());
        assert!(!index.apply_config("n1", config(8, &[])));
        assert!(index.apply_config("n1", config(9, &[])));
        assert!(index.take("n1").is_some());
    }

    #[test]
    fn another_reason_stays_when_the_config_is_settled() {
        let mut index = Index::default();
        index.apply_config("n1", config(7, &[]));
        index.look_at("n1");
        index.settle("n1", 8);
        assert!(index.take("n1").is_some());
    }

    #[test]
    fn a_config_made_anew_is_news_whatever_its_version() {
        let mut index = Index::default();
        index.apply_config("n1", config(7, &[]));
        index.settle("n1", 8);
        index.delete_config("n1");
        assert!(index.take("n1").is_some());
        assert!(index.apply_config("n1", config(3, &[])));
    }

    #[test]
    fn a_subnet_that_changes_concerns_its_nodes_and_no_others() {
        let mut index = Index::default();
        for (name, zone) in [("n1", "east"), ("n2", "west"), ("n3", "west")] {
            index.apply_node(name, node(name, zone), Instant::now());
        }
        index.apply_config("n3", config(1, &["s"]));
        assert_eq!(index.apply_subnet("s", subnet(Some("east"), true)), ["n1", "n3"]);
        // How full it is, is no news for nodes.
        assert!(index.apply_subnet("s", subnet(Some("east"), true)).is_empty());
        assert_eq!(index.delete_subnet("s"), ["n1", "n3"]);
    }

    #[test]
    fn pod_cidrs_are_to_be_recorded_when_they_are_new_and_when_a_subnet_for_them_is() {
        let mut index = Index::default();
        let names = |index: &mut Index| {
            index
                .take_unrecorded()
                .into_iter()
                .map(|(name, _)| name)
                .collect::<Vec<_>>()
        };
        let with_cidr = node::Facts {
            pod_cidrs: vec!["10.0.0.0/24".to_owned()],
            ..node("1", "east")
        };
        index.apply_node("n1", with_cidr, Instant::now());
        index.apply_node("n2", node("2", "east"), Instant::now());
        assert_eq!(names(&mut index), ["n1"]);
        assert!(names(&mut index).is_empty());
        let mut cidrs = subnet(Some("west"), true);
        cidrs.usage = Use::NodeCidrs;
        index.apply_subnet("s", cidrs);
        assert_eq!(names(&mut index), ["n1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_new_again_when_its_uid_is() {
        let mut index = Index::default();
        let start = Instant::now();
        index.apply_node("n1", node("1", "east"), start);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        index.apply_node("n1", node("1", "west"), Instant::now());
        assert_eq!(index.take("n1").unwrap().since, Some(start));
        index.apply_node("n1", node("2", "west"), Instant::now());
        assert_eq!(index.take("n1").unwrap().since, Some(Instant::now()));
    }
}
