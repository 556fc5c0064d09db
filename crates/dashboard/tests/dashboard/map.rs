//! Maps of subnets, over an index that is fed by hand: what they count, and how they zoom.

use berth_api::{AddressBlock, NodeNetworkConfig, ObservedNode, ObservedPod, Subnet};
use berth_dashboard::Index;
use berth_dashboard::map::{Map, Source, map};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NOW: &str = "2026-11-16T12:00:00Z";

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn subnet(name: &str, spec: Value) -> Subnet {
    object(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
        "metadata": {"name": name}, "spec": spec,
    }))
}

fn block(subnet: &str, first: &str, owned: Value, released: Value) -> AddressBlock {
    object(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "AddressBlock",
        "metadata": {"name": format!("{subnet}-{}", first.replace('/', "-"))},
        "spec": {"subnet": subnet, "first": first, "owned": owned, "released": released},
    }))
}

fn owner(text: &str) -> Value {
    json!({"owner": text, "lease": "l", "since": "2026-11-16T11:00:00.000000Z"})
}

fn nnc(node: &str, primary: &str, addresses: &[&str]) -> NodeNetworkConfig {
    let listed: Vec<Value> = addresses.iter().map(|ip| json!({"name": "l", "ip": ip})).collect();
    object(json!({
        "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
        "metadata": {"name": node, "namespace": "kube-system"}, "spec": {},
        "status": {"networkContainers": [
            {"primaryIP": primary, "subnetName": "pods", "ipAssignments": listed},
        ]},
    }))
}

fn pod(name: &str, node: &str, ip: &str) -> ObservedPod {
    object(json!({
        "metadata": {"namespace": "default", "name": name, "creationTimestamp": "2026-11-16T11:30:00Z"},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running", "podIPs": [{"ip": ip}]},
    }))
}

fn of(index: &Index, subnet: &str, window: Option<&str>) -> Map {
    let (from, length) = match window.and_then(|window| window.split_once('/')) {
        Some((from, length)) => (Some(from.parse().unwrap()), Some(length.parse().unwrap())),
        None => (None, None),
    };
    map(index, subnet, from, length, NOW.parse().unwrap()).unwrap()
}

/// Free, primary, leased, assigned, cooling down, set aside.
fn counts(map: &Map) -> [u128; 6] {
    let of = map.counts;
    [
        of.free,
        of.primary,
        of.leased,
        of.assigned,
        of.cooling_down,
        of.set_aside,
    ]
    .map(|one| one.0)
}

fn fed_by_blocks() -> Index {
    let mut index = Index::default();
    let spec = json!({
        "cidrs": ["10.64.0.0/16"], "gateways": ["10.64.0.1"], "excludes": ["10.64.3.0/28"],
        "reuseDelay": "30s",
    });
    index.apply_subnet(&subnet("pods", spec));
    index.apply_block(&block(
        "pods",
        "10.64.0.0/32",
        json!({
            "2": owner("primary/c/n1/u1"), "3": owner("secondary/c/n1/u1"),
            "4": owner("secondary/c/n1/u1"), "5": owner("machine/c/default/m1/u2"),
        }),
        // Ten seconds ago, and an hour ago.
        json!({"6": "2026-11-16T11:59:50.000000Z", "7": "2026-11-16T11:00:00.000000Z"}),
    ));
    index.apply_pod(&pod("web", "n1", "10.64.0.4"));
    // A pod shows this address, and the ledger does not know it.
    index.apply_pod(&pod("stray", "n1", "10.64.9.9"));
    index
}

#[test]
fn the_ledgers_own_records_say_what_is_taken() {
    let index = fed_by_blocks();
    let whole = of(&index, "pods", None);
    assert_eq!(whole.source, Source::AddressBlocks);
    // Network, broadcast, the gateway and 16 excludes are set aside.
    assert_eq!(counts(&whole), [65_536 - 5 - 19, 1, 1, 2, 1, 19]);
    assert_eq!((whole.cell_count, whole.cell_length), (4096, 28));
    assert_eq!(whole.cells.len(), 3, "{:?}", whole.cells);
}

#[test]
fn a_single_address_names_its_owner_node_pod_and_time() {
    let index = fed_by_blocks();
    let near = of(&index, "pods", Some("10.64.0.0/24"));
    let detail = |offset: usize| {
        let cell = near.cells.iter().find(|cell| cell.index == offset).unwrap();
        cell.detail.clone().unwrap()
    };
    let web = detail(4);
    assert_eq!(web.owner, "secondary n1");
    assert_eq!(
        (web.node.as_deref(), web.pod.as_deref()),
        (Some("n1"), Some("default/web"))
    );
    assert_eq!(web.since, Some("2026-11-16T11:00:00Z".parse::<Timestamp>().unwrap()));
    assert_eq!(detail(5).owner, "machine m1");
    assert_eq!(
        detail(6).since,
        Some("2026-11-16T11:59:50Z".parse::<Timestamp>().unwrap())
    );
    assert!(near.cells.iter().all(|cell| cell.index != 7), "it has cooled down");
}

#[test]
fn windows_add_up_to_the_whole() {
    let index = fed_by_blocks();
    let whole = counts(&of(&index, "pods", None));
    let mut sum = [0; 6];
    for third in 0..=255 {
        let part = counts(&of(&index, "pods", Some(&format!("10.64.{third}.0/24"))));
        sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    assert_eq!(sum, whole);
}

#[test]
fn without_the_ledger_nodes_and_pods_say_what_is_taken() {
    let mut index = Index::default();
    index.apply_subnet(&subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})));
    index.apply_nnc(&nnc("n1", "10.64.0.4", &["10.64.0.5", "10.64.0.6"]));
    index.apply_nnc(&nnc("n2", "10.64.0.7", &["10.64.0.8"]));
    index.apply_pod(&pod("web", "n1", "10.64.0.6"));
    let all = of(&index, "pods", None);
    assert_eq!(all.source, Source::NodesAndPods);
    assert_eq!(counts(&all), [256 - 5 - 2, 2, 2, 1, 0, 2]);
    let web = all.cells.iter().find(|cell| cell.index == 6).unwrap();
    let web = web.detail.clone().unwrap();
    assert_eq!(
        (web.owner.as_str(), web.pod.as_deref()),
        ("secondary n1", Some("default/web"))
    );

    // What is deleted from the API disappears from the map.
    index.apply_nnc(&nnc("n1", "10.64.0.4", &["10.64.0.6"]));
    index.delete_nnc("n2");
    index.delete_pod(&berth_kit::watch::Key {
        namespace: "default".into(),
        name: "web".into(),
    });
    assert_eq!(counts(&of(&index, "pods", None)), [256 - 2 - 2, 1, 1, 0, 0, 2]);
}

#[test]
fn an_address_that_two_nodes_list_is_counted_once() {
    let mut index = Index::default();
    index.apply_subnet(&subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})));
    index.apply_nnc(&nnc("n1", "10.64.0.4", &["10.64.0.6"]));
    index.apply_nnc(&nnc("n2", "10.64.0.5", &["10.64.0.6"]));
    assert_eq!(counts(&of(&index, "pods", None)), [256 - 3 - 2, 2, 1, 0, 0, 2]);
    index.delete_nnc("n1");
    assert_eq!(counts(&of(&index, "pods", None)), [256 - 2 - 2, 1, 1, 0, 0, 2]);
}

#[test]
fn the_units_of_node_cidrs_are_pod_cidrs() {
    let mut index = Index::default();
    index.apply_subnet(&subnet(
        "nodes",
        json!({"use": "node-cidrs", "cidrs": ["10.244.0.0/16"]}),
    ));
    for (name, cidr) in [("n1", "10.244.0.0/24"), ("n2", "10.244.1.0/24")] {
        index.apply_node(&object::<ObservedNode>(json!({
            "metadata": {"name": name}, "spec": {"podCIDRs": [cidr]},
        })));
    }
    for last in 2..5 {
        let address = format!("10.244.1.{last}");
        index.apply_pod(&pod(&format!("web-{last}"), "n2", &address));
    }
    let all = of(&index, "nodes", None);
    assert_eq!((all.unit_length, all.cell_count), (24, 256));
    assert_eq!(counts(&all), [254, 0, 1, 1, 0, 0]);
    let used = all.cells.iter().find(|cell| cell.index == 1).unwrap();
    assert_eq!(used.detail.clone().unwrap().pods, 3);
}

#[test]
fn a_subnet_of_ipv6_is_counted_whole() {
    let mut index = Index::default();
    index.apply_subnet(&subnet("pods", json!({"cidrs": ["fd64::/64"]})));
    index.apply_nnc(&nnc("n1", "fd64::4", &["fd64::5"]));
    let all = of(&index, "pods", None);
    assert_eq!(counts(&all), [(1 << 64) - 3, 1, 1, 0, 0, 1]);
    assert_eq!(all.cells.len(), 1);
    let near = of(&index, "pods", Some("fd64::/120"));
    assert_eq!(counts(&near), [253, 1, 1, 0, 0, 1]);
}

#[test]
fn what_was_excluded_later_stays_its_owners() {
    let mut index = fed_by_blocks();
    let spec = json!({"cidrs": ["10.64.0.0/16"], "excludes": ["10.64.0.0-10.64.0.15"]});
    index.apply_subnet(&subnet("pods", spec));
    // Four owned units and one that cools down are among the excluded ones. The broadcast address
    // is not.
    assert_eq!(counts(&of(&index, "pods", None)), [65_536 - 17, 1, 1, 2, 1, 12]);
}

#[test]
fn a_window_that_is_none_is_refused_with_what_to_use() {
    let index = fed_by_blocks();
    let refused = |subnet: &str, from: Option<&str>, length: Option<u8>| {
        let from = from.map(|from| from.parse().unwrap());
        map(&index, subnet, from, length, NOW.parse().unwrap())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refused("nobody", None, None), "there is no Subnet nobody");
    assert_eq!(
        refused("pods", Some("10.1.0.0"), None),
        "from: 10.1.0.0 is not in subnet pods, which has 10.64.0.0/16"
    );
    for length in [8, 33] {
        assert_eq!(
            refused("pods", None, Some(length)),
            format!("length: /{length} is no part of 10.64.0.0/16: use 16 to 32")
        );
    }
}
