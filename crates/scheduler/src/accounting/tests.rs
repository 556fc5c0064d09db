//! Promises of the accounting, one by one; `model` compares it with a naive one.

mod model;

use super::*;
use crate::capacity::CidrCapacity;
use crate::facts::Leases;

pub fn cidr(pods: u64) -> NodeFacts {
    NodeFacts {
        cidrs: CidrCapacity::Pods(pods),
        ..NodeFacts::default()
    }
}

pub fn leases(has: u64, max: u64) -> NncFacts {
    NncFacts::Leases(Leases {
        subnet: "pods".to_owned(),
        has,
        listed: has + 1,
        max,
        batch: 16,
    })
}

fn waiting() -> PodFacts {
    PodFacts {
        needs_ip: true,
        ..PodFacts::default()
    }
}

pub fn bound(node: &str) -> PodFacts {
    PodFacts {
        node: Some(node.to_owned()),
        ..waiting()
    }
}

fn nominated(node: &str) -> PodFacts {
    PodFacts {
        nominated: Some(node.to_owned()),
        ..waiting()
    }
}

/// A node with this many addresses and bound pods.
fn one_node(pods: u64, used: u64) -> Accounting {
    let mut accounting = Accounting::default();
    accounting.apply_node("n", cidr(pods));
    (0..used).for_each(|n| accounting.apply_pod(&format!("old-{n}"), &bound("n")));
    accounting
}

/// Nodes of one subnet, each with this many addresses.
pub fn shared(nodes: &[(&str, u64)], available: u64) -> Accounting {
    let mut accounting = Accounting::default();
    for (name, has) in nodes {
        accounting.apply_node(name, NodeFacts::default());
        accounting.apply_nnc(name, leases(*has, 250));
    }
    let facts = SubnetFacts {
        capacity: 1000,
        available,
    };
    accounting.apply_subnet("pods", Some(facts));
    accounting
}

fn full() -> Refusal {
    Refusal::SubnetFull { subnet: "pods".into() }
}

#[test]
fn the_seeds_example_six_addresses_three_pods_three_left() {
    let mut accounting = one_node(6, 3);
    assert_eq!(accounting.free("n", "next"), Ok(3));
    for uid in ["a", "b", "c"] {
        assert_eq!(accounting.reserve(uid, true, "n"), Ok(Reserved::Now));
    }
    assert_eq!(accounting.reserve("d", true, "n"), Err(Refusal::PodCidrFull));
    assert_eq!(accounting.free("n", "d"), Err(Refusal::PodCidrFull));
}

#[test]
fn pods_on_the_host_and_finished_ones_use_nothing() {
    let mut accounting = one_node(2, 1);
    let finished = PodFacts {
        needs_ip: false,
        ..bound("n")
    };
    accounting.apply_pod("host", &finished);
    assert_eq!(accounting.free("n", "x"), Ok(1));
    accounting.apply_pod("old-0", &finished);
    assert_eq!(accounting.free("n", "x"), Ok(2));
    assert_eq!(accounting.reserve("host-2", false, "full"), Ok(Reserved::Now));
}

#[test]
fn a_pod_counts_once_from_its_nomination_to_its_end() {
    let mut accounting = one_node(3, 0);
    accounting.apply_pod("a", &nominated("n"));
    assert_eq!(accounting.free("n", "x"), Ok(2));
    assert_eq!(accounting.reserve("a", true, "n"), Ok(Reserved::Now));
    // An event from before the binding comes late.
    accounting.apply_pod("a", &nominated("n"));
    accounting.apply_pod("a", &waiting());
    assert_eq!(accounting.free("n", "x"), Ok(2));
    accounting.apply_pod("a", &bound("n"));
    assert_eq!(accounting.free("n", "x"), Ok(2));
    accounting.delete_pod("a");
    accounting.delete_pod("a");
    assert_eq!(accounting.free("n", "x"), Ok(3));
}

#[test]
fn a_nominated_pod_does_not_stand_in_its_own_way() {
    let mut accounting = one_node(1, 0);
    accounting.apply_pod("a", &nominated("n"));
    assert_eq!(accounting.free("n", "a"), Ok(1));
    assert_eq!(accounting.free("n", "b"), Err(Refusal::PodCidrFull));
    assert_eq!(accounting.reserve("b", true, "n"), Err(Refusal::PodCidrFull));
    assert_eq!(accounting.reserve("a", true, "n"), Ok(Reserved::Now));
}

#[test]
fn a_binding_that_is_repeated_reserves_nothing_more() {
    let mut accounting = one_node(2, 0);
    accounting.apply_node("m", cidr(2));
    assert_eq!(accounting.reserve("a", true, "n"), Ok(Reserved::Now));
    assert_eq!(accounting.reserve("a", true, "n"), Ok(Reserved::Before));
    let elsewhere = Refusal::ReservedElsewhere { node: "n".into() };
    assert_eq!(accounting.reserve("a", true, "m"), Err(elsewhere));
    assert_eq!(accounting.free("n", "x"), Ok(1));
    accounting.apply_pod("a", &bound("n"));
    assert_eq!(accounting.reserve("a", true, "n"), Ok(Reserved::Bound));
    let elsewhere = Refusal::BoundElsewhere { node: "n".into() };
    assert_eq!(accounting.reserve("a", true, "m"), Err(elsewhere));
}

#[test]
fn what_a_refused_binding_reserved_is_free_again() {
    let mut accounting = one_node(1, 0);
    accounting.reserve("a", true, "n").unwrap();
    accounting.release("a");
    assert_eq!(accounting.free("n", "b"), Ok(1));
    accounting.apply_pod("a", &bound("n"));
    accounting.release("a");
    assert_eq!(
        accounting.free("n", "b"),
        Err(Refusal::PodCidrFull),
        "a bound pod stays"
    );
}

#[test]
fn pods_of_a_node_that_is_not_known_yet_count_when_it_is() {
    let mut accounting = Accounting::default();
    accounting.apply_pod("a", &bound("n"));
    assert_eq!(accounting.free("n", "b"), Err(Refusal::UnknownNode));
    accounting.apply_node("n", cidr(1));
    assert_eq!(accounting.free("n", "b"), Err(Refusal::PodCidrFull));
    accounting.delete_node("n");
    accounting.delete_pod("a");
    assert!(accounting.nodes.is_empty());
}

#[test]
fn a_list_without_a_pod_says_that_it_is_gone() {
    let mut accounting = one_node(4, 2);
    accounting.begin_pods();
    accounting.apply_pod("old-0", &bound("n"));
    // It may have been created after the list was made.
    accounting.reserve("young", true, "n").unwrap();
    accounting.end_pods();
    assert_eq!(accounting.free("n", "x"), Ok(2));
    accounting.begin_pods();
    accounting.end_pods();
    assert_eq!(accounting.free("n", "x"), Ok(4));
}

#[test]
fn a_later_list_without_the_binding_frees_its_reservation() {
    let mut accounting = one_node(1, 0);
    accounting.reserve("a", true, "n").unwrap();
    accounting.begin_pods();
    accounting.confirm("a");
    accounting.apply_pod("a", &waiting());
    accounting.end_pods();
    assert_eq!(
        accounting.free("n", "b"),
        Err(Refusal::PodCidrFull),
        "the list may be older"
    );
    accounting.begin_pods();
    accounting.apply_pod("a", &waiting());
    accounting.end_pods();
    assert_eq!(accounting.free("n", "b"), Ok(1));
}

#[test]
fn a_victim_makes_room_where_it_is_and_uses_an_ip() {
    let mut accounting = one_node(2, 2);
    accounting.apply_node("m", cidr(0));
    let fits =
        |node: &str, victims: &[&str]| accounting.fits_without(node, "x", victims.iter().copied());
    assert!(fits("n", &["old-0"]) && !fits("n", &[]) && !fits("n", &["unknown"]));
    assert!(!fits("m", &["old-0"]) && !fits("unknown", &["old-0"]));
}

#[test]
fn a_node_without_a_pod_cidr_is_as_the_setting_says() {
    for (no_cidr, expected) in
        [(NoCidr::Pass, Ok(u64::MAX)), (NoCidr::Fail, Err(Refusal::NoPodCidr))]
    {
        let mut accounting = Accounting::new(Settings {
            no_cidr,
            ..Settings::default()
        });
        accounting.apply_node("n", NodeFacts::default());
        assert_eq!(accounting.free("n", "a"), expected);
    }
}

#[test]
fn a_pod_cidr_that_cannot_be_read_fails_its_own_node_only() {
    let mut accounting = one_node(6, 0);
    accounting.apply_node(
        "bad",
        NodeFacts {
            cidrs: CidrCapacity::Unreadable,
            ..NodeFacts::default()
        },
    );
    assert_eq!(accounting.free("bad", "a"), Err(Refusal::UnreadablePodCidr));
    assert_eq!(accounting.free("n", "a"), Ok(6));
}

#[test]
fn an_overlay_node_is_counted_as_its_agent_counts() {
    let mut accounting = one_node(6, 0);
    let blocks = NncFacts::Blocks {
        subnet: "nodes".to_owned(),
        pods: 7,
    };
    accounting.apply_nnc("n", blocks);
    assert_eq!(accounting.free("n", "a"), Ok(7));
    accounting.apply_nnc("n", NncFacts::Empty);
    assert_eq!(accounting.free("n", "a"), Err(Refusal::NoContainer));
    accounting.delete_nnc("n");
    assert_eq!(accounting.free("n", "a"), Ok(6));
}

#[test]
fn nodes_share_what_their_subnet_can_still_give() {
    // Five are left: one at hand on each node, and two in the subnet.
    let mut accounting = shared(&[("a", 1), ("b", 1), ("c", 1)], 2);
    assert_eq!(accounting.pods_that_fit(), 5);
    assert_eq!(accounting.free("a", "x"), Ok(3));
    for uid in ["1", "2", "3"] {
        accounting.reserve(uid, true, "a").unwrap();
    }
    assert_eq!(accounting.reserve("4", true, "a"), Err(full()));
    assert_eq!(accounting.free("b", "4"), Ok(1), "what b has is still b's");
    accounting.reserve("4", true, "b").unwrap();
    accounting.reserve("5", true, "c").unwrap();
    assert_eq!(accounting.pods_that_fit(), 0);
    for node in ["a", "b", "c"] {
        assert_eq!(accounting.free(node, "6"), Err(full()));
    }
}

/// The agent of `a` gives an address back just before a pod comes that was promised it, and the
/// agent of `b` fetches it.
#[test]
fn what_a_node_has_to_spare_is_owed_to_pods_that_wait_elsewhere() {
    let mut accounting = shared(&[("a", 2), ("b", 2)], 0);
    for (uid, node) in [("1", "a"), ("2", "a"), ("3", "b")] {
        accounting.apply_pod(uid, &bound(node));
    }
    accounting.apply_nnc("a", leases(1, 250));
    assert_eq!(accounting.pods_that_fit(), 0);
    assert_eq!(accounting.free("b", "4"), Err(full()));
    assert_eq!(accounting.reserve("4", true, "b"), Err(full()));
    accounting.refused("b");
    // The pod that waits for the address is deleted: b keeps the address, and has room.
    accounting.delete_pod("2");
    assert_eq!(accounting.take_woken(), ["b".into()]);
    assert_eq!(accounting.free("b", "4"), Ok(1));
}

#[test]
fn an_address_on_its_way_from_subnet_to_node_counts_once() {
    let mut accounting = shared(&[("a", 4)], 6);
    let facts = |available| SubnetFacts {
        capacity: 11,
        available,
    };
    accounting.apply_subnet("pods", Some(facts(6)));
    assert_eq!(accounting.free("a", "x"), Ok(10));
    // The NodeNetworkConfig arrives first.
    accounting.apply_nnc("a", leases(10, 250));
    assert_eq!(accounting.free("a", "x"), Ok(10));
    accounting.apply_subnet("pods", Some(facts(0)));
    assert_eq!(accounting.free("a", "x"), Ok(10));
}

#[test]
fn a_node_takes_no_more_than_its_max_ip_count() {
    let mut accounting = shared(&[("a", 2)], 100);
    accounting.apply_nnc("a", leases(2, 3));
    assert_eq!(accounting.free("a", "x"), Ok(3));
    ["1", "2", "3"].iter().for_each(|uid| {
        accounting.reserve(uid, true, "a").unwrap();
    });
    assert_eq!(accounting.free("a", "x"), Err(Refusal::MaxIpCount));
    assert_eq!(accounting.pods_that_fit(), 0);
}

#[test]
fn a_node_is_woken_once_when_it_has_room_again_and_a_pod_waits() {
    let mut accounting = one_node(1, 1);
    accounting.delete_pod("old-0");
    assert!(accounting.take_woken().is_empty(), "nobody waits");
    accounting.apply_pod("old-0", &bound("n"));
    accounting.refused("n");
    accounting.apply_pod("old-0", &bound("n"));
    assert!(accounting.take_woken().is_empty());
    accounting.delete_pod("old-0");
    assert_eq!(accounting.take_woken(), ["n".into()]);
    accounting.apply_node("n", cidr(2));
    assert!(accounting.take_woken().is_empty());
}

#[test]
fn a_node_that_a_scheduler_knew_first_is_woken_when_it_is_known() {
    let mut accounting = Accounting::default();
    (0..5000).for_each(|n| accounting.refused(&format!("nobody-{n}")));
    assert_eq!(accounting.unknown.len(), MAX_UNKNOWN);
    accounting.apply_node("nobody-7", cidr(1));
    assert_eq!(accounting.take_woken(), ["nobody-7".into()]);
}

#[test]
fn a_subnet_that_grows_wakes_only_nodes_below_their_maximum() {
    let mut accounting = shared(&[("a", 0), ("b", 0), ("c", 0)], 0);
    accounting.apply_nnc("c", leases(0, 0));
    ["a", "b", "c"].iter().for_each(|node| accounting.refused(node));
    let grown = SubnetFacts {
        capacity: 2000,
        available: 1,
    };
    accounting.apply_subnet("pods", Some(grown));
    assert_eq!(accounting.take_woken(), ["a".into(), "b".into()]);
    accounting.reserve("1", true, "a").unwrap();
    assert!(!accounting.still_has_room("b"), "it is gone by now");
    accounting.delete_pod("1");
    assert_eq!(accounting.take_woken(), ["b".into()]);
}

#[test]
fn a_node_with_room_is_found_each_time_another_one() {
    let mut accounting = one_node(0, 0);
    assert_eq!(accounting.any_with_room(), None);
    accounting.apply_node("m", cidr(1));
    accounting.apply_node("o", cidr(1));
    let found: Vec<_> = (0..3).map(|_| accounting.any_with_room().unwrap()).collect();
    assert_eq!(found, ["m".into(), "o".into(), "m".into()]);
}

#[test]
fn scores_say_how_many_are_at_hand() {
    let mut accounting = one_node(10, 3);
    assert_eq!(accounting.score("n"), 3);
    accounting.apply_nnc("n", leases(3, 250));
    assert_eq!(accounting.score("n"), 0);
    accounting.apply_nnc("n", leases(6, 250));
    assert_eq!(accounting.score("n"), 2);
    assert_eq!(accounting.score("unknown"), 0);
    for (left, score) in [(1, 1), (2, 2), (3, 2), (128, 8), (253, 8), (254, 8), (512, 10)] {
        accounting.apply_node("m", cidr(left));
        assert_eq!(accounting.score("m"), score, "{left}");
    }
    accounting.apply_node("huge", cidr(u64::MAX));
    assert_eq!(accounting.score("huge"), 10);
}
