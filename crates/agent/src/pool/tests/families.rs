//! Two families, and blocks.

use berth_api::{LeaseOf, lease_name};

use super::*;

fn dual(id: &str, numbers: impl IntoIterator<Item = u32>) -> Value {
    let pair = |n: u32| {
        let second = lease_name(LeaseOf::Ipv6 {
            lease: Uuid::from_u128(n.into()),
        })
        .to_string();
        [
            json!({"name": second, "ip": format!("fd64::{n:x}")}),
            json!({"name": name(n), "ip": format!("10.64.0.{n}")}),
        ]
    };
    let assignments: Vec<Value> = numbers.into_iter().flat_map(pair).collect();
    json!({
        "id": id, "primaryIP": "10.64.0.250", "primaryIPV6": "fd64::fa", "subnetName": "pods",
        "subnetAddressSpace": "10.64.0.0/16", "subnetAddressSpaceV6": "fd64::/64",
        "defaultGateway": "10.64.0.1", "defaultGatewayV6": "fd64::1", "ipAssignments": assignments,
    })
}

fn overlay(prefix: &str) -> Value {
    json!({
        "id": "c9", "assignmentMode": "static", "type": "overlay", "primaryIP": prefix, "subnetName": "cidrs",
        "subnetAddressSpace": "10.0.0.0/8",
    })
}

#[test]
fn a_pod_gets_one_of_each_family_and_both_of_one_lease() {
    let mut pool = Pool::default();
    pool.deliver(&delivered(json!([dual("c1", [10, 11])])));
    assert_eq!(pool.add(&request(1, 1), 2).unwrap(), ["10.64.0.10", "fd64::a"]);
    assert_eq!(pool.add(&request(2, 1), 2).unwrap(), ["10.64.0.11", "fd64::b"]);
    assert_eq!(pool.holding(0, 0).assigned, 2);
    assert_eq!(pool.del(1, 3, 4), 2);
    pool.leave(5, 6);
    assert_eq!(pool.releasing(), BTreeSet::from([name(10)]));
    assert_eq!(pool.add(&request(3, 7), 8), Err(Reason::PoolEmpty));
}

#[test]
fn a_pod_gets_one_address_of_each_family_from_two_ncs() {
    let mut sixes = vnet("c2", []);
    sixes["primaryIP"] = json!("fd64::fa");
    sixes["subnetAddressSpace"] = json!("fd64::/64");
    sixes["ipAssignments"] = json!([{"name": name(90), "ip": "fd64::5a"}]);
    let mut pool = Pool::default();
    pool.deliver(&delivered(json!([vnet("c1", 10..13), sixes])));
    assert_eq!(pool.add(&request(1, 1), 2).unwrap(), ["10.64.0.10", "fd64::5a"]);
    // Given back are only leases of both: else one family could be left without any.
    assert_eq!(pool.plan_releasing(3, 2), []);
    // All or nothing: there is an IPv4 address left, and no IPv6 one.
    assert_eq!(pool.add(&request(2, 1), 2), Err(Reason::PoolEmpty));
    assert_eq!(pool.holdings().len(), 1);
    let entry = pool.holdings()[&attachment(1)].held.clone();
    let lengths: Vec<u8> = pool.granted(&entry).iter().map(|granted| granted.length).collect();
    assert_eq!(lengths, [16, 64]);
}

#[test]
fn every_address_of_a_static_container_is_a_pods() {
    let mut pool = Pool::default();
    pool.deliver(&delivered(json!([overlay("10.0.0.1/30")])));
    let mut given: Vec<String> =
        (1..=4).flat_map(|n| pool.add(&request(n, 1), 2).unwrap()).collect();
    given.sort();
    assert_eq!(given, ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(pool.add(&request(5, 1), 2), Err(Reason::PoolEmpty));
    pool.del(3, 3, 4);
    pool.del(1, 4, 5);
    assert_eq!(
        pool.add(&request(5, 6), 7).unwrap(),
        ["10.0.0.2"],
        "the one that has been free for longest"
    );
    assert!(!pool.is_scaled(), "nothing is asked for where a block is the node's");
    assert_eq!(pool.counts(9, 0).assigned, 3);
}

#[test]
fn a_block_of_any_size_serves_pods_but_never_its_gateway() {
    let mut container = overlay("10.0.0.0/30");
    container["defaultGateway"] = json!("10.0.0.1");
    container["primaryIPV6"] = json!("fd64::/64");
    let mut pool = Pool::default();
    pool.deliver(&delivered(json!([container])));
    let given: Vec<String> = (1..=3).flat_map(|n| pool.add(&request(n, 1), 2).unwrap()).collect();
    assert_eq!(
        given,
        ["10.0.0.0", "fd64::", "10.0.0.2", "fd64::1", "10.0.0.3", "fd64::2"]
    );
    assert_eq!(pool.add(&request(4, 1), 2), Err(Reason::PoolEmpty));
}

#[test]
fn blocks_of_other_containers_of_a_vnetblock_count_too() {
    let container = json!({
        "id": "c1", "assignmentMode": "dynamic", "type": "vnetblock", "primaryIP": "10.0.0.0/31",
        "subnetAddressSpace": "10.0.0.0/16", "ipAssignments": [{"name": name(1), "ip": "10.0.4.0/31"}],
    });
    let mut pool = Pool::default();
    pool.deliver(&delivered(json!([container])));
    let given: Vec<String> = (1..=4).flat_map(|n| pool.add(&request(n, 1), 2).unwrap()).collect();
    assert_eq!(given, ["10.0.0.0", "10.0.0.1", "10.0.4.0", "10.0.4.1"]);
}

#[test]
fn a_node_with_leases_uses_no_block_of_the_same_family() {
    let mut pool = Pool::default();
    pool.deliver(&delivered(json!([vnet("c1", 10..11), overlay("10.7.0.0/24")])));
    assert_eq!(pool.add(&request(1, 1), 2).unwrap(), ["10.64.0.10"]);
    assert_eq!(pool.add(&request(2, 1), 2), Err(Reason::PoolEmpty));
}
