//! What the NodeNetworkConfig says, and changes its mind about.

use super::*;

#[test]
fn an_empty_container_serves_nobody_and_says_so() {
    let mut pool = pool(0);
    let refusal = pool.plan_request(&request(1, 1), 2).unwrap_err();
    assert_eq!(refusal.reason, Reason::PoolEmpty);
    assert!(refusal.message.contains("more are asked for"), "{}", refusal.message);
    let refusal = Pool::default().plan_request(&request(1, 1), 2).unwrap_err();
    assert!(refusal.message.contains("no network container"), "{}", refusal.message);
}

#[test]
fn an_answer_has_the_length_of_the_subnet_and_its_gateway() {
    let mut pool = pool(1);
    pool.add(&request(1, 1), 2).unwrap();
    let held = pool.holdings()[&attachment(1)].held.clone();
    let granted = pool.granted(&held);
    assert_eq!(granted[0].length, 16);
    assert_eq!(granted[0].gateway, Some("10.64.0.1".parse().unwrap()));
}

#[test]
fn a_withdrawn_address_stays_with_its_pod_and_goes_to_no_other() {
    let mut pool = pool(2);
    let held = pool.add(&request(1, 1), 2).unwrap();
    assert_eq!(held, ["10.64.0.10"]);
    pool.deliver(&delivered(json!([vnet("c1", 11..12)])));
    assert_eq!(pool.add(&request(1, 1), 3).unwrap(), held);
    assert_eq!(pool.state("10.64.0.10"), Some(AddressState::Assigned));
    assert_eq!(pool.del(1, 4, 5), 1);
    assert_eq!(pool.state("10.64.0.10"), None);
    assert_eq!(pool.add(&request(2, 6), 7).unwrap(), ["10.64.0.11"]);
    assert_eq!(pool.add(&request(3, 6), 7), Err(Reason::PoolEmpty));
    // It may come back, and then is free.
    pool.deliver(&delivered(json!([vnet("c1", 10..12)])));
    assert_eq!(pool.add(&request(3, 8), 9).unwrap(), ["10.64.0.10"]);
}

#[test]
fn addresses_of_a_replaced_network_container_are_not_given_out() {
    let mut pool = pool(3);
    pool.add(&request(1, 1), 2).unwrap();
    pool.deliver(&delivered(json!([vnet("c2", 40..42)])));
    let free: Vec<String> = pool
        .lines(9, 0)
        .iter()
        .filter(|line| line.state == AddressState::Free)
        .map(|line| line.address.to_string())
        .collect();
    assert_eq!(free, ["10.64.0.40", "10.64.0.41"]);
    assert_eq!(pool.holdings().len(), 1);
    pool.deliver(&Delivered::nothing());
    assert_eq!(pool.add(&request(2, 1), 2), Err(Reason::PoolEmpty));
}

#[test]
fn an_address_under_another_name_is_still_its_pods() {
    let mut pool = pool(1);
    pool.add(&request(1, 1), 2).unwrap();
    let mut renamed = vnet("c2", 10..11);
    renamed["ipAssignments"][0]["name"] = json!(name(99));
    pool.deliver(&delivered(json!([renamed])));
    assert_eq!(pool.add(&request(2, 1), 2), Err(Reason::PoolEmpty));
    pool.del(1, 3, 4);
    assert_eq!(pool.add(&request(2, 5), 6).unwrap(), ["10.64.0.10"]);
}

#[test]
fn an_address_in_ips_not_in_use_is_not_given_to_another_pod() {
    let mut pool = Pool::default();
    let first = nnc(json!([vnet("c1", 10..12)]), &[]);
    pool.deliver(&Delivered::read(&first));
    pool.add(&request(1, 1), 2).unwrap();
    let both = nnc(json!([vnet("c1", 10..12)]), &[name(10), name(11), "stale".to_owned()]);
    let delivered = Delivered::read(&both);
    pool.deliver(&delivered);
    assert_eq!(pool.add(&request(2, 1), 2), Err(Reason::PoolEmpty));
    assert_eq!(pool.releasing(), BTreeSet::from([name(11)]));
    let misnamed: Vec<&str> = pool.misnamed(&delivered.not_in_use).collect();
    assert_eq!(misnamed, [name(10)]);
    assert_eq!(pool.add(&request(1, 1), 3).unwrap(), ["10.64.0.10"]);
}

#[test]
fn what_is_marked_to_leave_stays_marked_until_it_is_gone() {
    let mut pool = pool(4);
    pool.add(&request(1, 1), 2).unwrap();
    pool.leave(2, 3);
    let marked = pool.releasing();
    assert_eq!(marked.len(), 2);
    // The write failed, and the next pass wants as many to be left: the same ones are, and no
    // others.
    assert_eq!(pool.holding(1, 0).pending_release, 2);
    pool.deliver(&delivered(json!([vnet("c1", 10..14)])));
    assert_eq!(pool.releasing(), marked);
    let more = pool.plan_releasing(9, 4);
    assert!(
        matches!(&more[..], [Entry::Releasing { names, .. }] if names.len() == 1),
        "{more:?}"
    );
    pool.deliver(&delivered(json!([vnet("c1", 10..12)])));
    assert!(pool.releasing().is_empty());
    // A name is never used again: an address that comes back has another, and is free.
    assert_eq!(pool.counts(9, 0).free, 1);
}

#[test]
fn those_that_came_free_last_go_back_first() {
    let mut pool = pool(3);
    let had = pool.add(&request(1, 1), 2).unwrap();
    pool.del(1, 3, 4);
    pool.leave(1, 5);
    assert_eq!(pool.state(&had[0]), Some(AddressState::Releasing));
}

#[test]
fn what_can_not_be_used_is_left_out_and_named() {
    let mut container = vnet("c1", 10..11);
    container["ipAssignments"] = json!([
        {"name": name(1), "ip": "10.64.0.10"},
        {"name": name(1), "ip": "10.64.0.11"},
        {"name": name(2), "ip": "10.64.0.10"},
        {"name": name(3), "ip": "10.64.0.250"},
        {"name": name(4), "ip": "nonsense"},
        {"name": "a b", "ip": "10.64.0.12"},
        {"name": "", "ip": "10.64.0.13"},
    ]);
    let mut twin = vnet("c2", 10..11);
    twin["primaryIP"] = json!("10.64.0.251");
    let delivered = delivered(json!([container, twin, {"id": ""}]));
    assert_eq!(delivered.left_out.len(), 8, "{:?}", delivered.left_out);
    let mut pool = Pool::default();
    pool.deliver(&delivered);
    assert_eq!(pool.counts(0, 0).free, 1);
}

#[test]
fn a_config_that_is_being_deleted_delivers_nothing() {
    let mut nnc = nnc(json!([vnet("c1", 10..12)]), &[]);
    nnc.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert!(Delivered::read(&nnc).containers.is_empty());
}
