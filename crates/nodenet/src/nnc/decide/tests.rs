use berth_api::nnc::{IpAssignment, Progress};
use berth_api::{Subnet, SubnetSpec};

use super::*;
use crate::allocator::Secondary;

fn view(pods: Option<&str>, node_cidrs: Option<&str>) -> View {
    View {
        node: None,
        since: None,
        has_nnc: true,
        nnc_deleted: None,
        pods: pods.map(str::to_owned),
        node_cidrs: node_cidrs.map(str::to_owned),
        unready: None,
    }
}

fn facts(max_ip_count: i64) -> SubnetFacts {
    let spec = SubnetSpec {
        cidrs: vec!["10.64.0.0/24".to_owned()],
        ..SubnetSpec::default()
    };
    let mut facts = SubnetFacts::of(&Subnet::new("pods", spec));
    facts.scaler.max_ip_count = max_ip_count;
    facts
}

fn had(addresses: &[(u128, &str)]) -> NetworkContainer {
    let assignment = |(lease, ip): &(u128, &str)| IpAssignment {
        name: Uuid::from_u128(*lease).to_string(),
        ip: (*ip).to_owned(),
    };
    NetworkContainer {
        id: Uuid::nil().to_string(),
        subnet_name: "old".to_owned(),
        ip_assignments: addresses.iter().map(assignment).collect(),
        ..NetworkContainer::default()
    }
}

fn with(container: NetworkContainer) -> NodeNetworkConfigStatus {
    NodeNetworkConfigStatus {
        network_containers: vec![container],
        ..NodeNetworkConfigStatus::default()
    }
}

fn pod_on(node: &str, address: IpAddr) -> ObservedAddress {
    ObservedAddress {
        pod: "default/web".to_owned(),
        node: node.to_owned(),
        address,
        first: address,
    }
}

fn reasons(warnings: &[Warning]) -> Vec<(&str, bool, bool)> {
    let each = warnings.iter();
    each.map(|one| (one.reason, one.about_node, one.is_new)).collect()
}

#[test]
fn a_network_container_keeps_its_subnet_after_selection_changes() {
    let mut nnc = NodeNetworkConfig::default();
    let view = view(Some("new"), None);
    assert_eq!(home(&nnc, &view, Uuid::nil()), Some("new"));
    nnc.status = Some(with(had(&[])));
    assert_eq!(home(&nnc, &view, Uuid::nil()), Some("old"));
    // That of another node of the same name is not its own.
    assert_eq!(home(&nnc, &view, Uuid::from_u128(1)), Some("new"));
}

#[test]
fn a_node_with_a_pod_cidr_is_not_warned_of_for_want_of_a_subnet() {
    let now = NodeNetworkConfigStatus::default();
    let proposal = not_selected(&view(None, None), now.clone());
    assert_eq!(reasons(&proposal.warnings), [("NoSubnet", false, true)]);
    let proposal = not_selected(&view(None, Some("cidrs")), now.clone());
    assert_eq!(proposal, Proposal::from(now));
}

#[test]
fn the_maximum_outlives_its_subnet() {
    let mut now = NodeNetworkConfigStatus::default();
    assert_eq!(max_ip_count(None, &now), None);
    now.scaler = Some(facts(30).scaler);
    assert_eq!(max_ip_count(None, &now), Some(30));
    assert_eq!(max_ip_count(Some(&facts(20)), &now), Some(20));
}

#[test]
fn a_node_that_lost_its_network_container_is_warned_again() {
    let (node, now) = (NodeFacts::default(), with(had(&[])));
    let facts = facts(20);
    let target = Target {
        subnet: "pods",
        facts: Some(&facts),
        node: &node,
        now: &now,
    };
    let proposal = subnet_full(target, None);
    assert_eq!(proposal.status.status, Some(Progress::Error));
    assert!(proposal.status.network_containers.is_empty());
    assert_eq!(reasons(&proposal.warnings), [("SubnetFull", true, false)]);
    let waits = subnet_full(target, Some(Need::Start));
    assert_eq!(reasons(&waits.warnings), [("SubnetFull", true, false)]);
    let lost = subnet_full(target, Some(Need::More(3)));
    assert_eq!(reasons(&lost.warnings), [("SubnetFull", true, true)]);
}

#[test]
fn a_node_keeps_its_addresses_when_its_subnet_is_deleted() {
    let had = had(&[(1, "10.64.0.5")]);
    let (node, now) = (NodeFacts::default(), with(had.clone()));
    let target = Target {
        subnet: "old",
        facts: None,
        node: &node,
        now: &now,
    };
    let proposal = subnet_gone(target, &had);
    let kept = &proposal.status.network_containers[0];
    assert_eq!(kept.ip_assignments, had.ip_assignments);
    assert_eq!(reasons(&proposal.warnings), [("SubnetGone", false, false)]);
}

#[test]
fn an_address_outside_of_the_subnets_cidrs_is_not_delivered() {
    let (node, now, facts) = (NodeFacts::default(), NodeNetworkConfigStatus::default(), facts(20));
    let target = Target {
        subnet: "pods",
        facts: Some(&facts),
        node: &node,
        now: &now,
    };
    let container = |primary: &str| Container {
        id: Uuid::nil(),
        subnet: "pods".to_owned(),
        primary: vec![primary.parse().unwrap()],
        secondaries: Vec::new(),
        short: 0,
    };
    let outside = delivered(target, &container("10.65.0.1/32"), 0);
    assert_eq!(outside.status, now);
    assert_eq!(reasons(&outside.warnings), [("SubnetChanged", true, true)]);
    let inside = delivered(target, &container("10.64.0.1/32"), 7);
    assert!(inside.warnings.is_empty());
    assert_eq!(inside.status.network_containers[0].version, 7);
}

#[test]
fn a_node_that_asks_for_too_many_or_gets_too_few_is_warned_of() {
    let of = |asked, short, before| {
        let shortfall = Shortfall {
            asked,
            max: Some(20),
            short,
            before,
        };
        shortfall_warnings("pods", shortfall)
    };
    assert!(of(20, 0, None).is_empty());
    assert_eq!(reasons(&of(21, 0, None)), [("TooManyRequested", false, false)]);
    assert_eq!(reasons(&of(20, 3, None)), [("SubnetFull", false, false)]);
    assert_eq!(reasons(&of(20, 3, Some(Need::More(3)))), [("SubnetFull", false, false)]);
    // It waits for another number than before: that is news, whatever the status says.
    assert_eq!(reasons(&of(20, 3, Some(Need::More(4)))), [("SubnetFull", false, true)]);
    let both = of(30, 3, None);
    assert!(both[1].note.contains("3 of the 20 addresses"), "{}", both[1].note);
}

#[test]
fn what_is_given_back_stays_with_the_node_whose_pod_has_it() {
    let had = had(&[(1, "10.64.0.5"), (2, "10.64.0.6"), (3, "10.64.0.7"), (4, "10.64.0.8")]);
    let give_back = [1, 2, 3].map(Uuid::from_u128).into();
    let observed = |address: IpAddr| match address.to_string().as_str() {
        "10.64.0.5" => vec![pod_on("n1", address)],
        "10.64.0.6" | "10.64.0.8" => vec![pod_on("n2", address)],
        _ => Vec::new(),
    };
    let found = contradicted(&had, &give_back, "n1", observed);
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    assert_eq!(found.withheld, [(address("10.64.0.5"), Uuid::from_u128(1))]);
    assert_eq!(found.elsewhere, [pod_on("n2", address("10.64.0.6"))]);
}

#[test]
fn what_was_leased_just_now_goes_to_the_node_whose_pod_has_it() {
    let had = had(&[(1, "10.64.0.5")]);
    let lease = |n: u128, unit: &str| Secondary {
        id: Uuid::from_u128(n),
        units: vec![unit.parse().unwrap()],
    };
    let answer = Container {
        id: Uuid::nil(),
        subnet: "pods".to_owned(),
        primary: Vec::new(),
        secondaries: vec![
            lease(1, "10.64.0.5/32"),
            lease(2, "10.64.0.6/32"),
            lease(3, "10.64.0.7/32"),
        ],
        short: 0,
    };
    // All have a pod on another node, and one of them a pod on this one, too.
    let observed = |address: IpAddr| match address.to_string().as_str() {
        "10.64.0.7" => vec![pod_on("n2", address), pod_on("n1", address)],
        _ => vec![pod_on("n2", address)],
    };
    let found = in_use_elsewhere(&had, &answer, "n1", observed);
    assert_eq!(found, [pod_on("n2", "10.64.0.6".parse().unwrap())]);
}

#[test]
fn the_listed_primary_is_kept_when_a_family_has_two() {
    let units = |texts: &[&str]| -> Vec<Prefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    let answer = |texts: &[&str]| Container {
        id: Uuid::nil(),
        subnet: "pods".to_owned(),
        primary: units(texts),
        secondaries: Vec::new(),
        short: 0,
    };
    let two = answer(&["10.64.0.1/32", "10.65.0.1/32"]);
    let listing = |first: &str, second: Option<&str>| NetworkContainer {
        primary_ip: first.to_owned(),
        primary_ip_v6: second.map(str::to_owned),
        ..had(&[])
    };
    let surplus = |had: &NetworkContainer| surplus_primaries(Some(had), &two);
    assert_eq!(surplus(&listing("10.65.0.1", None)), units(&["10.64.0.1/32"]));
    assert_eq!(surplus(&listing("10.64.0.1", None)), units(&["10.65.0.1/32"]));
    assert_eq!(
        surplus(&listing("10.64.0.1", Some("10.65.0.1"))),
        units(&["10.65.0.1/32"])
    );
    assert_eq!(surplus_primaries(None, &two), units(&["10.65.0.1/32"]));
    let both = answer(&["10.64.0.1/32", "fd00::1/128"]);
    assert_eq!(surplus_primaries(None, &both), units(&[]));
}
