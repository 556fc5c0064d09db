//! 5,000 nodes and a million addresses: what is sent stays small, and counts all of them.

use std::net::Ipv4Addr;
use std::time::Instant;

use berth_api::nnc::IpAssignment;
use berth_api::{NodeNetworkConfig, ObservedNode, ObservedPod, Subnet};
use berth_dashboard::history::History;
use berth_dashboard::map::map;
use berth_dashboard::state::{About, node_page, state};
use berth_dashboard::{Index, Measured};
use jiff::Timestamp;
use serde_json::json;

const NODES: u32 = 5_000;
const PER_NODE: u32 = 200;
const PODS_PER_NODE: u32 = 10;

/// An address of 10.64.0.0/12; number 0 is the third one.
fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 64, 0, 2)) + number)
}

fn fill() -> Index {
    let mut index = Index::default();
    let total = u64::from(NODES * (PER_NODE + 1));
    let subnet: Subnet = serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
        "metadata": {"name": "pods"}, "spec": {"cidrs": ["10.64.0.0/12"]},
        "status": {"capacity": 1_048_574, "reserved": total, "free": 1_048_574 - total},
    }))
    .unwrap();
    index.apply_subnet(&subnet);
    for node in 0..NODES {
        let name = format!("node-{node:04}");
        let status = if node == 4_321 { "False" } else { "True" };
        let object = json!({
            "metadata": {"name": name},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        });
        index.apply_node(&serde_json::from_value::<ObservedNode>(object).unwrap());
        let first = node * (PER_NODE + 1);
        let container = json!({"primaryIP": address(first), "subnetName": "pods"});
        let object = json!({
            "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"requestedIPCount": PER_NODE},
            "status": {"assignedIPCount": PER_NODE, "networkContainers": [container]},
        });
        let mut nnc: NodeNetworkConfig = serde_json::from_value(object).unwrap();
        let containers = &mut nnc.status.as_mut().unwrap().network_containers;
        let listed = (1..=PER_NODE).map(|offset| IpAssignment {
            name: "l".to_owned(),
            ip: address(first + offset).to_string(),
        });
        containers[0].ip_assignments.extend(listed);
        index.apply_nnc(&nnc);
        for pod in 1..=PODS_PER_NODE {
            let object = json!({
                "metadata": {"namespace": "default", "name": format!("web-{node}-{pod}")},
                "spec": {"nodeName": name, "containers": []},
                "status": {"phase": "Running", "podIPs": [{"ip": address(first + pod)}]},
            });
            index.apply_pod(&serde_json::from_value::<ObservedPod>(object).unwrap());
        }
    }
    index
}

#[test]
fn five_thousand_nodes_and_a_million_addresses_are_aggregated() {
    let begun = Instant::now();
    let index = fill();
    println!("fed in {:.1?}", begun.elapsed());
    let now = Timestamp::now();
    let about = About::new("test".into(), None, false);

    let begun = Instant::now();
    let all = state(&index, &about, &History::default(), &Measured::default(), now);
    let text = serde_json::to_string(&all).unwrap();
    println!("state: {:.1?}, {} bytes", begun.elapsed(), text.len());
    assert_eq!((all.totals.nodes, all.totals.nodes_ready), (5_000, 4_999));
    assert_eq!(all.totals.pods, 50_000);
    assert_eq!((all.subnets[0].nodes, all.subnets[0].demand), (5_000, 50_000));
    assert_eq!(all.subnets[0].pool.0, 1_000_000);
    assert_eq!(all.nodes.len(), 100);
    assert_eq!(all.nodes[0].row.name, "node-4321", "what needs a look comes first");
    assert!(text.len() < 100_000, "{}", text.len());

    let begun = Instant::now();
    let map = map(&index, "pods", None, None, now).unwrap();
    let text = serde_json::to_string(&map).unwrap();
    println!("map: {:.1?}, {} bytes", begun.elapsed(), text.len());
    assert_eq!((map.cell_count, map.cell_length), (4_096, 24));
    let counts = map.counts;
    assert_eq!(
        (counts.primary.0, counts.leased.0, counts.assigned.0),
        (5_000, 950_000, 50_000)
    );
    assert_eq!((counts.set_aside.0, counts.free.0), (2, 1_048_574 - 1_005_000));
    // The Subnet's status has the same counts.
    let status = index.facts.subnets["pods"].status.clone().unwrap();
    let reserved = counts.primary.0 + counts.leased.0 + counts.assigned.0;
    assert_eq!(Some(reserved), status.reserved.map(|count| count.0));
    assert_eq!(Some(counts.free), status.free);

    let page = node_page(&index, "node-49", 20, 50);
    assert_eq!((page.total, page.nodes.len()), (100, 50));
    assert_eq!(page.nodes[0].row.name, "node-4920");
}
