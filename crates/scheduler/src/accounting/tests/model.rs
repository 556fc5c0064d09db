//! The accounting as a few lists that are counted again for every question.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Node(u8, Option<u64>),
    Nnc(u8, Option<NncFacts>),
    Subnet(u8, Option<SubnetFacts>),
    Pod(u8, PodFacts),
    DeletePod(u8),
    Reserve(u8, u8),
    Release(u8),
    Relist(Vec<u8>),
}

#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, NodeFacts>,
    nncs: BTreeMap<String, NncFacts>,
    subnets: BTreeMap<String, SubnetFacts>,
    pods: BTreeMap<String, (bool, Place)>,
    /// Nodes that had addresses and have none now: the clock stands still in this model.
    settling: BTreeSet<String>,
}

impl Model {
    fn used(&self, node: &str, but: &str) -> u64 {
        let here = |(uid, (needs_ip, place)): &(&String, &(bool, Place))| {
            *needs_ip && uid.as_str() != but && place.node().is_some_and(|there| **there == *node)
        };
        u64::try_from(self.pods.iter().filter(here).count()).unwrap()
    }

    fn drawing(&self, subnet: &str) -> impl Iterator<Item = (&String, &Leases)> {
        let all = self.nncs.iter().filter_map(|(name, nnc)| match nnc {
            NncFacts::Leases(leases) => Some((name, leases)),
            _ => None,
        });
        all.filter(move |(_, leases)| leases.subnet == subnet)
    }

    /// What the subnet can still give when each pod except `but` has an address, and the same plus
    /// the spare addresses of its nodes.
    fn pool_and_room(&self, subnet: &str, but: &str) -> (u64, u64) {
        let listed: u64 = self.drawing(subnet).map(|(_, leases)| leases.listed).sum();
        let available = self
            .subnets
            .get(subnet)
            .map_or(0, |facts| facts.available.min(facts.capacity.saturating_sub(listed)));
        let (mut deficit, mut spare) = (0, 0);
        for (name, leases) in self.drawing(subnet) {
            let used = self.used(name, but);
            deficit += used.min(leases.max).saturating_sub(leases.has);
            if self.nodes.contains_key(name) {
                spare += leases.has.min(leases.max).saturating_sub(used);
            }
        }
        (
            available.saturating_sub(deficit),
            (available + spare).saturating_sub(deficit),
        )
    }

    fn free(&self, node: &str, uid: &str) -> u64 {
        let Some(facts) = self.nodes.get(node) else {
            return 0;
        };
        // A pod that counts here is left out. A pod that counts elsewhere does not count here, but
        // uses an address of the subnet.
        let is_here = self
            .pods
            .get(uid)
            .and_then(|(_, place)| place.node())
            .is_some_and(|there| **there == *node);
        let but = if is_here { uid } else { "" };
        let used = self.used(node, but);
        match (self.nncs.get(node), facts.cidrs) {
            (Some(NncFacts::Empty), _) | (None, CidrCapacity::Unreadable) => 0,
            (Some(NncFacts::Blocks { pods, .. }), _) => pods.saturating_sub(used),
            (None, CidrCapacity::Pods(pods)) => pods.saturating_sub(used),
            (Some(NncFacts::Leases(leases)), _) => {
                let (pool, room) = self.pool_and_room(&leases.subnet, but);
                let more = leases.has.saturating_sub(used) + pool;
                more.min(room).min(leases.max.saturating_sub(used))
            }
            (None, CidrCapacity::Missing) if self.settling.contains(node) => 0,
            (None, CidrCapacity::Missing) => u64::MAX,
        }
    }

    fn has_source(&self, node: &str) -> bool {
        let cidrs = self.nodes.get(node).map(|facts| facts.cidrs);
        self.nncs.contains_key(node) || cidrs.is_some_and(|cidrs| cidrs != CidrCapacity::Missing)
    }

    /// After a change of the node.
    fn settle(&mut self, node: &str, was_there: bool, had_source: bool) {
        if !self.nodes.contains_key(node) || self.has_source(node) {
            self.settling.remove(node);
        } else if was_there && had_source {
            self.settling.insert(node.to_owned());
        }
    }

    /// Counts by trying: adds pods one by one until none fits.
    fn pods_that_fit(&self) -> u64 {
        let mut pods = self.pods.clone();
        let mut count = 0;
        loop {
            let model = Self {
                nodes: self.nodes.clone(),
                nncs: self.nncs.clone(),
                subnets: self.subnets.clone(),
                pods: pods.clone(),
                settling: self.settling.clone(),
            };
            let bounded =
                |name: &&String| model.free(name, "") != u64::MAX && model.free(name, "") > 0;
            // Addresses at hand first: no other node can have them.
            let at_hand = |name: &String| match model.nncs.get(name) {
                Some(NncFacts::Leases(leases)) => leases.has > model.used(name, ""),
                _ => true,
            };
            let names: Vec<&String> = self.nodes.keys().filter(bounded).collect();
            let next = names.iter().find(|name| at_hand(name)).or(names.first());
            let Some(node) = next else {
                return count;
            };
            pods.insert(format!("fit-{count}"), (true, Place::Bound(node.as_str().into())));
            count += 1;
        }
    }
}

fn apply(accounting: &mut Accounting, model: &mut Model, step: Step) {
    let node = match &step {
        Step::Node(node, _) | Step::Nnc(node, _) => Some(name(*node)),
        _ => None,
    };
    let before = node.map(|node| {
        let (is_there, has) = (model.nodes.contains_key(&node), model.has_source(&node));
        (node, is_there, has)
    });
    apply_step(accounting, model, step);
    if let Some((node, was_there, had_source)) = before {
        model.settle(&node, was_there, had_source);
    }
}

fn apply_step(accounting: &mut Accounting, model: &mut Model, step: Step) {
    match step {
        Step::Node(node, Some(pods)) => {
            let facts = match pods {
                0 => NodeFacts::default(),
                pods => cidr(pods - 1),
            };
            accounting.apply_node(&name(node), facts);
            model.nodes.insert(name(node), facts);
        }
        Step::Node(node, None) => {
            accounting.delete_node(&name(node));
            model.nodes.remove(&name(node));
        }
        Step::Nnc(node, Some(facts)) => {
            accounting.apply_nnc(&name(node), facts.clone());
            model.nncs.insert(name(node), facts);
        }
        Step::Nnc(node, None) => {
            accounting.delete_nnc(&name(node));
            model.nncs.remove(&name(node));
        }
        Step::Subnet(subnet, facts) => {
            accounting.apply_subnet(&subnet_name(subnet), facts);
            match facts {
                Some(facts) => model.subnets.insert(subnet_name(subnet), facts),
                None => model.subnets.remove(&subnet_name(subnet)),
            };
        }
        Step::Pod(pod, facts) => {
            accounting.apply_pod(&uid(pod), &facts);
            observe(model, &uid(pod), &facts);
        }
        Step::DeletePod(pod) => {
            accounting.delete_pod(&uid(pod));
            model.pods.remove(&uid(pod));
        }
        Step::Reserve(pod, node) => {
            let placed = model
                .pods
                .get(&uid(pod))
                .map(|(_, place)| place.clone())
                .unwrap_or_default();
            let free = model.free(&name(node), &uid(pod)) > 0;
            let reserved = accounting.reserve(&uid(pod), true, &name(node));
            match placed {
                Place::Bound(there) | Place::Reserved(there) => {
                    assert_eq!(reserved.is_ok(), *there == *name(node))
                }
                Place::Nowhere | Place::Nominated(_) => {
                    assert_eq!(reserved.is_ok(), free, "{reserved:?}");
                    if free {
                        let place = Place::Reserved(name(node).as_str().into());
                        model.pods.insert(uid(pod), (true, place));
                    }
                }
            }
        }
        Step::Release(pod) => {
            accounting.release(&uid(pod));
            if let Some((_, place @ Place::Reserved(_))) = model.pods.get_mut(&uid(pod)) {
                *place = Place::Nowhere;
            }
        }
        Step::Relist(kept) => {
            accounting.begin_pods();
            let kept: Vec<String> = kept.into_iter().map(uid).collect();
            model.pods.retain(|uid, _| kept.contains(uid));
            for (uid, (needs_ip, place)) in model.pods.clone() {
                let bound = match place {
                    Place::Bound(node) => Some(node.to_string()),
                    _ => None,
                };
                let facts = PodFacts {
                    needs_ip,
                    node: bound,
                    ..PodFacts::default()
                };
                accounting.apply_pod(&uid, &facts);
                observe(model, &uid, &facts);
            }
            accounting.end_pods();
        }
    }
}

fn observe(model: &mut Model, uid: &str, facts: &PodFacts) {
    let before = model.pods.get(uid).map(|(_, place)| place.clone());
    let place = match (&facts.node, before, &facts.nominated) {
        (Some(node), _, _) => Place::Bound(node.as_str().into()),
        (None, Some(Place::Reserved(node)), _) => Place::Reserved(node),
        (None, _, Some(node)) => Place::Nominated(node.as_str().into()),
        (None, _, None) => Place::Nowhere,
    };
    model.pods.insert(uid.to_owned(), (facts.needs_ip, place));
}

fn name(number: u8) -> String {
    format!("node-{number}")
}

fn subnet_name(number: u8) -> String {
    format!("subnet-{number}")
}

fn uid(number: u8) -> String {
    format!("uid-{number}")
}

fn nnc() -> impl Strategy<Value = NncFacts> {
    let leases =
        (0..2_u8, 0..6_u64, 0..3_u64, 0..8_u64).prop_map(|(subnet, has, releasing, max)| {
            NncFacts::Leases(Leases {
                subnet: subnet_name(subnet),
                has,
                listed: has + releasing + 1,
                max,
                batch: 4,
            })
        });
    let blocks = (0..3_u8, 0..6_u64).prop_map(|(subnet, pods)| NncFacts::Blocks {
        subnet: subnet_name(subnet),
        pods,
    });
    prop_oneof![Just(NncFacts::Empty), blocks, leases.clone(), leases]
}

fn step() -> impl Strategy<Value = Step> {
    let node = || 0..4_u8;
    let pod = || 0..12_u8;
    let subnet = (0..40_u64, 0..12_u64)
        .prop_map(|(capacity, available)| SubnetFacts { capacity, available });
    let facts = (any::<bool>(), prop::option::of(node()), prop::option::of(node()));
    let facts = facts.prop_map(|(needs_ip, bound, nominated)| PodFacts {
        needs_ip,
        asks: 0,
        node: bound.map(name),
        nominated: nominated.map(name),
    });
    prop_oneof![
        1 => (node(), prop::option::of(0..8_u64)).prop_map(|(node, pods)| Step::Node(node, pods)),
        2 => (node(), prop::option::of(nnc())).prop_map(|(node, nnc)| Step::Nnc(node, nnc)),
        2 => (0..3_u8, prop::option::of(subnet)).prop_map(|(name, facts)| Step::Subnet(name, facts)),
        6 => (pod(), facts).prop_map(|(pod, facts)| Step::Pod(pod, facts)),
        2 => pod().prop_map(Step::DeletePod),
        6 => (pod(), node()).prop_map(|(pod, node)| Step::Reserve(pod, node)),
        1 => pod().prop_map(Step::Release),
        1 => prop::collection::vec(pod(), 0..12).prop_map(Step::Relist),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn accounting_says_what_counting_through_says(steps in prop::collection::vec(step(), 1..60)) {
        let mut accounting = Accounting::default();
        let mut model = Model::default();
        for step in steps {
            apply(&mut accounting, &mut model, step);
            for node in (0..4).map(name) {
                for uid in ["nobody".to_owned(), uid(0), uid(1)] {
                    let free = accounting.free(&node, &uid).unwrap_or(0);
                    // Nobody asks about a pod that needs no IP.
                    if model.pods.get(&uid).is_none_or(|(needs_ip, _)| *needs_ip) {
                        prop_assert_eq!(free, model.free(&node, &uid), "{} for {}", node, uid);
                    }
                }
            }
        }
        prop_assert_eq!(accounting.pods_that_fit(), model.pods_that_fit());
    }

    #[test]
    fn whatever_comes_a_node_without_room_takes_no_pod(steps in prop::collection::vec(step(), 1..60)) {
        let mut accounting = Accounting::default();
        let mut model = Model::default();
        for step in steps {
            let asked = match &step {
                Step::Reserve(_, node) => Some(name(*node)),
                _ => None,
            };
            let before = asked.as_ref().map(|node| (model.used(node, ""), model.free(node, "")));
            apply(&mut accounting, &mut model, step);
            if let (Some(node), Some((used, 0))) = (asked, before) {
                prop_assert!(model.used(&node, "") <= used);
            }
        }
    }
}
