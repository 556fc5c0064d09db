//! Situations as an API server would show them, and what is said of each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod agents;
mod reasons;
mod routes;
mod scene;

use berth_api::subnet::Use;
use berth_inspect::check::check;
use berth_inspect::explain;
use berth_inspect::status::status;
use berth_kit::watch::Key;
use scene::{Scene, key};
use serde_json::json;

/// What is said of the pod `web` in the namespace `default`, as one text.
fn of_web(scene: &Scene) -> String {
    let told = explain::pod(&scene.facts(), &key("default", "web")).unwrap();
    [told.sentences, told.next_steps].concat().join(" ")
}

#[test]
fn a_pod_with_an_address_says_whose_it_is() {
    let scene = Scene::healthy();
    let said = of_web(&scene);
    assert!(said.contains("web on n1 has 10.0.0.4, in subnet pods."), "{said}");
    assert!(check(&scene.facts()).is_empty(), "{:?}", check(&scene.facts()));
}

#[test]
fn a_pod_on_the_hosts_network_needs_none() {
    let mut scene = Scene::healthy();
    scene.pod(
        "web",
        json!({"hostNetwork": true, "nodeName": "n1"}),
        json!({"phase": "Running"}),
    );
    assert!(of_web(&scene).contains("needs no address"));
}

#[test]
fn a_pod_that_has_ended_has_given_it_back() {
    let mut scene = Scene::healthy();
    scene.pod("web", json!({"nodeName": "n1"}), json!({"phase": "Succeeded"}));
    assert!(of_web(&scene).contains("has ended (Succeeded)"));
}

#[test]
fn a_pod_that_no_scheduler_looks_at_says_so() {
    let mut scene = Scene::healthy();
    scene.pod("web", json!({}), json!({"phase": "Pending"}));
    let said = of_web(&scene);
    assert!(said.contains("no scheduler has looked at it"), "{said}");
    assert!(said.contains("schedulerName"), "{said}");
}

#[test]
fn a_pod_unschedulable_for_lack_of_an_ip_names_the_full_subnet() {
    let mut scene = Scene::healthy();
    let message = "0/3 nodes are available: 3 no pod IP left in subnet pods.";
    scene.unschedulable("web", message);
    scene.counts("pods", 253, 253, 0, 0);
    let said = of_web(&scene);
    assert!(said.contains(message), "{said}");
    assert!(said.contains("Subnet pods is full: 253 of 253 are reserved."), "{said}");
    assert!(said.contains("append a CIDR"), "{said}");
}

#[test]
fn a_pod_unschedulable_for_another_reason_gets_no_ip_advice() {
    let mut scene = Scene::healthy();
    scene.unschedulable("web", "0/3 nodes are available: 3 Insufficient cpu.");
    let said = of_web(&scene);
    assert!(said.contains("Insufficient cpu"), "{said}");
    assert!(!said.contains("append a CIDR"), "{said}");
}

#[test]
fn a_pod_on_a_node_whose_subnet_is_full_says_what_cools_down() {
    let mut scene = Scene::healthy();
    scene.waiting("web", "n1");
    scene.counts("pods", 253, 241, 12, 0);
    scene.nnc("n1", 32, &["10.0.0.4"]);
    let said = of_web(&scene);
    assert!(said.contains("web waits"), "{said}");
    assert!(said.contains("n1 has 1 addresses of subnet pods"), "{said}");
    assert!(said.contains("12 cool down for 30s"), "{said}");
}

#[test]
fn a_pod_whose_node_is_gone_says_so() {
    let mut scene = Scene::healthy();
    scene.waiting("web", "gone");
    assert!(of_web(&scene).contains("its Node gone is not there"));
}

#[test]
fn a_pod_on_a_node_that_is_not_ready_says_why() {
    let mut scene = Scene::healthy();
    scene.waiting("web", "n1");
    scene.node(
        "n1",
        json!([{"type": "Ready", "status": "False", "message": "no CNI config"}]),
    );
    assert!(of_web(&scene).contains("n1 is not Ready: no CNI config."));
}

#[test]
fn a_pod_on_a_node_without_a_config_asks_for_the_controller() {
    let mut scene = Scene::healthy();
    scene.waiting("web", "n1");
    scene.delete_nnc("n1");
    let said = of_web(&scene);
    assert!(said.contains("n1 has no NodeNetworkConfig."), "{said}");
    assert!(said.contains("berth controller"), "{said}");
}

#[test]
fn a_pod_whose_agent_does_not_ask_points_at_the_agent() {
    let mut scene = Scene::healthy();
    scene.waiting("web", "n1");
    scene.nnc("n1", 0, &[]);
    let said = of_web(&scene);
    assert!(said.contains("Its agent has not asked for more"), "{said}");
}

#[test]
fn a_node_says_what_it_has_and_that_it_has_no_route() {
    let mut scene = Scene::healthy();
    scene.node(
        "n1",
        json!([
            {"type": "Ready", "status": "True"},
            {"type": "NetworkUnavailable", "status": "True", "message": "the quota is reached"},
        ]),
    );
    let told = explain::node(&scene.facts(), "n1").unwrap().sentences.join(" ");
    assert!(told.contains("It has no route yet: the quota is reached."), "{told}");
    assert!(told.contains("n1 has 1 addresses of subnet pods for 1 pods"), "{told}");
}

#[test]
fn a_subnet_that_overlaps_says_with_what() {
    let mut scene = Scene::healthy();
    let conditions = json!([
        {"type": "Overlapping", "status": "True", "reason": "Subnet", "message": "has 10.0.0.0/24, as old",
         "lastTransitionTime": "2026-11-16T00:00:00Z"},
    ]);
    scene.conditions("pods", conditions);
    let told = explain::subnet(&scene.facts(), "pods").unwrap();
    let said = told.sentences.join(" ");
    assert!(
        said.contains("Subnet pods overlaps: has 10.0.0.0/24, as old."),
        "{said}"
    );
}

#[test]
fn a_subnet_that_nobody_has_looked_at_asks_for_the_controller() {
    let mut scene = Scene::healthy();
    scene.subnet("new", json!({"cidrs": ["10.9.0.0/24"]}), json!({}));
    let told = explain::subnet(&scene.facts(), "new").unwrap();
    assert!(told.sentences[0].contains("No controller has looked at Subnet new"));
}

#[test]
fn an_address_says_who_has_it_since_when() {
    let mut scene = Scene::healthy();
    scene.block(
        "pods",
        "10.0.0.0/32",
        json!({"4": scene::owner("secondary/c/n1/uid-n1")}),
        json!({}),
    );
    let told = explain::ip(&scene.facts(), "10.0.0.4".parse().unwrap())
        .sentences
        .join(" ");
    assert!(
        told.contains("The ledger has 10.0.0.4/32 for secondary n1, since"),
        "{told}"
    );
    assert!(told.contains("Pod default/web on n1 shows it."), "{told}");
    let told = explain::ip(&scene.facts(), "10.0.0.9".parse().unwrap())
        .sentences
        .join(" ");
    assert!(told.contains("Nobody has it"), "{told}");
}

#[test]
fn an_address_that_was_released_says_how_long_it_cools_down() {
    let mut scene = Scene::healthy();
    let released = json!({"7": "2026-11-16T00:00:00.000000Z"});
    scene.block("pods", "10.0.0.0/32", json!({}), released);
    let told = explain::ip(&scene.facts(), "10.0.0.7".parse().unwrap())
        .sentences
        .join(" ");
    assert!(told.contains("it cools down for 30s"), "{told}");
}

#[test]
fn a_gated_machine_says_why_it_has_no_network() {
    let mut scene = Scene::healthy();
    scene.machine(
        "m1",
        None,
        "no address is left in 10.20.0.0/30: add a CIDR, or remove machines",
    );
    let key = Key {
        namespace: String::new(),
        name: "m1".to_owned(),
    };
    let told = explain::machine(&scene.facts(), &key).unwrap();
    let said = told.sentences.join(" ");
    assert!(said.contains("is gated"), "{said}");
    assert!(said.contains("no address is left in 10.20.0.0/30"), "{said}");
}

#[test]
fn a_gated_machine_without_a_subnet_is_advised_once() {
    let mut scene = Scene::healthy();
    let key = Key {
        namespace: String::new(),
        name: "m1".to_owned(),
    };
    let steps = |scene: &Scene| {
        let mut facts = scene.facts();
        facts.subnets.retain(|_, subnet| subnet.spec.usage != Use::Machines);
        explain::machine(&facts, &key).unwrap().next_steps
    };
    let advice = "give `berth machine-ipam` a --network, or create a Subnet with use machines";
    scene.failed_machine("m1", true, "NoNetwork", "there is no Subnet for machines");
    assert_eq!(steps(&scene), [advice]);
    // Machine IPAM has not looked at it yet.
    scene.machine("m1", None, "");
    assert_eq!(steps(&scene)[0], advice);
}

#[test]
fn who_had_an_address_is_told_as_far_as_it_is_kept() {
    let mut scene = Scene::healthy();
    let owned = json!({"4": scene::owner("secondary/c/n1/uid-n1")});
    scene.block(
        "pods",
        "10.0.0.0/32",
        owned,
        json!({"5": "2026-11-16T00:00:00.000000Z"}),
    );
    let said = |address: &str, at: &str| {
        let told = explain::ip_at(&scene.facts(), address.parse().unwrap(), at.parse().unwrap());
        told.sentences.join(" ")
    };
    let then = "2026-11-15T12:00:00Z";
    let told = said("10.0.0.4", then);
    assert!(
        told.contains("had 10.0.0.4/32 for secondary n1, since 2026-11-15"),
        "{told}"
    );
    assert!(
        told.contains("Pod default/web, created before then, shows it"),
        "{told}"
    );
    let told = said("10.0.0.4", "2026-11-14T12:00:00Z");
    assert!(told.contains("but only since 2026-11-15"), "{told}");
    let told = said("10.0.0.5", then);
    assert!(told.contains("was released later, at 2026-11-16T00:00:00Z."), "{told}");
    let told = said("10.0.0.5", "2026-11-16T00:00:05Z");
    assert!(told.contains("nobody had 10.0.0.5/32"), "{told}");
    assert!(said("10.0.0.4", "2027-01-01T00:00:00Z").contains("is in the future"));
    assert!(said("192.0.2.1", then).contains("is in no Subnet"));
}

#[test]
fn two_pods_with_one_address_are_found_first() {
    let mut scene = Scene::healthy();
    scene.running("other", "n2", "10.0.0.4");
    let findings = check(&scene.facts());
    assert_eq!(findings[0].object, "ip 10.0.0.4");
    assert_eq!(findings[0].problem, "is on the pods default/other and default/web");
    assert!(of_web(&scene).contains("10.0.0.4 is also on default/other."));
}

/// What `--repair` would do.
fn repairs(scene: &Scene) -> Vec<String> {
    let findings = check(&scene.facts());
    findings
        .iter()
        .filter_map(|found| Some(found.repair.as_ref()?.to_string()))
        .collect()
}

#[test]
fn the_younger_replaceable_pod_of_a_shared_address_is_deleted() {
    let mut scene = Scene::healthy();
    scene.running("other", "n2", "10.0.0.4");
    assert_eq!(repairs(&scene), [""; 0], "nobody would recreate it");
    let old = scene.pod_mut("web");
    old.is_replaced = true;
    assert_eq!(repairs(&scene), ["delete pod default/web"]);
    let young = scene.pod_mut("other");
    young.is_replaced = true;
    young.created = young
        .created
        .map(|created| created + jiff::SignedDuration::from_secs(1));
    assert_eq!(repairs(&scene), ["delete pod default/other"]);
    assert!(check(&scene.facts())[0].fix.contains("such as default/other"));
    scene.pod_mut("web").is_deleting = true;
    assert_eq!(repairs(&scene), [""; 0], "one of them goes already");
}

#[test]
fn a_config_without_a_node_is_deleted_unless_pods_live_there() {
    let mut scene = Scene::healthy();
    scene.nnc("gone", 16, &[]);
    assert_eq!(repairs(&scene), ["delete nnc gone"]);
    scene.waiting("yet", "gone");
    assert_eq!(repairs(&scene), [""; 0]);
}

#[test]
fn routes_are_told_for_nodes_with_pod_cidrs() {
    let mut scene = Scene::healthy();
    scene.routed("n1", "10.244.1.0/24", Some(("False", "RouteCreated")));
    scene.routed("n2", "10.244.2.0/24", Some(("True", "quota reached")));
    scene.routed("n3", "10.244.3.0/24", None);
    scene.node("n4", json!([]));
    let routes = status(&scene.facts()).routes;
    let told: Vec<[&str; 3]> = routes
        .iter()
        .map(|row| [row.node.as_str(), row.state.as_str(), row.message.as_str()])
        .collect();
    let expected = [
        ["n1", "Routed", "RouteCreated"],
        ["n2", "NoRoute", "quota reached"],
        ["n3", "NotManaged", ""],
    ];
    assert_eq!(told, expected);
    assert_eq!(routes[0].next_hops, ["192.0.2.1"]);
}

#[test]
fn an_address_that_two_nodes_list_is_found() {
    let mut scene = Scene::healthy();
    scene.nnc("n2", 16, &["10.0.0.4"]);
    let findings = check(&scene.facts());
    assert_eq!(findings[0].problem, "is listed for the nodes n1 and n2");
}

#[test]
fn a_pod_address_neither_in_the_nnc_nor_held_is_found() {
    let mut scene = Scene::healthy();
    scene.nnc("n1", 16, &[]);
    let findings = check(&scene.facts());
    assert_eq!(findings[0].object, "pod default/web");
    scene.held("n1", "10.0.0.4");
    assert!(check(&scene.facts()).is_empty());
}

#[test]
fn what_the_ledger_has_for_another_or_for_nobody_is_found() {
    let mut scene = Scene::healthy();
    scene.block(
        "pods",
        "10.0.0.0/32",
        json!({"4": scene::owner("secondary/c/n2/uid-n2")}),
        json!({}),
    );
    let problem = &check(&scene.facts())[0].problem;
    assert!(problem.contains("which the ledger has for secondary/c/n2"), "{problem}");
    let released = json!({"4": "2026-11-16T00:00:00.000000Z"});
    scene.block("pods", "10.0.0.0/32", json!({}), released);
    let problem = &check(&scene.facts())[0].problem;
    assert!(problem.contains("which has no owner in the ledger"), "{problem}");
}

#[test]
fn an_owner_that_is_gone_is_found() {
    let mut scene = Scene::healthy();
    let owned = json!({
        "4": scene::owner("secondary/c/n1/uid-n1"),
        "8": scene::owner("secondary/c/gone/uid-gone"),
        "9": scene::owner("machine/c//gone/uid-gone"),
    });
    scene.block("pods", "10.0.0.0/32", owned, json!({}));
    let findings = check(&scene.facts());
    let objects: Vec<&str> = findings.iter().map(|finding| finding.object.as_str()).collect();
    assert_eq!(objects, ["ip 10.0.0.8/32", "ip 10.0.0.9/32"]);
}

#[test]
fn an_nnc_without_a_node_and_a_node_without_an_nnc_are_found() {
    let mut scene = Scene::healthy();
    scene.nnc("gone", 16, &[]);
    scene.delete_nnc("n2");
    let findings = check(&scene.facts());
    let objects: Vec<&str> = findings.iter().map(|finding| finding.object.as_str()).collect();
    assert_eq!(objects, ["nnc gone", "node n2"]);
}

#[test]
fn machines_with_one_address_and_with_anothers_are_found() {
    let mut scene = Scene::healthy();
    scene.machine("m1", Some("10.20.0.5"), "");
    scene.machine("m2", Some("10.20.0.5"), "");
    scene.machine("m3", Some("10.20.0.6"), "");
    let owned = json!({
        "5": scene::owner("machine/c//m1/uid-m1"),
        "6": scene::owner("machine/c//m1/uid-m1"),
    });
    scene.block("racks", "10.20.0.0/32", owned, json!({}));
    let findings = check(&scene.facts());
    let objects: Vec<&str> = findings.iter().map(|finding| finding.object.as_str()).collect();
    assert_eq!(objects, ["ip 10.20.0.5", "machine m2", "machine m3"]);
}

#[test]
fn subnets_that_follow_the_same_addresses_are_found() {
    let mut scene = Scene::healthy();
    let status = json!({"cidrs": ["10.0.0.128/25"], "capacity": 126});
    scene.subnet("second", json!({"cidrs": ["10.0.0.128/25"]}), status);
    let findings = check(&scene.facts());
    assert_eq!(findings[0].object, "subnet pods");
    assert!(findings[0].problem.contains("Subnet second"), "{}", findings[0].problem);
}
