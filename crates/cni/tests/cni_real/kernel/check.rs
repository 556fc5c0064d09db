//! CHECK.

use berth_testkit::Namespace;
use serde_json::json;

use super::node::{Node, done, grant};
use crate::server::Manner;

#[test]
fn what_is_as_it_was_made_is_well_in_every_version() {
    for version in ["0.4.0", "1.0.0", "1.1.0"] {
        let mut node = Node::new(&[grant(5), done()]);
        node.conf["cniVersion"] = json!(version);
        let pod = Namespace::new();
        let result = node.add("c1", &pod);
        node.check("c1", &pod, &result).silent();
        let asked = node.server.as_ref().unwrap().asked();
        assert_eq!(asked[1].line, "POST /v1/check HTTP/1.1");
        assert_eq!(asked[1].body["addresses"], json!(["10.64.0.5", "fd64::5"]));
    }
}

#[test]
fn every_difference_is_found_and_named() {
    let name = "eth0";
    let in_pod: &[(&[&str], &[&str])] = &[
        (&["link", "set", name, "mtu", "1300"], &["MTU 1300"]),
        (
            &["link", "set", name, "address", "02:00:00:00:00:01"],
            &["02:00:00:00:00:01"],
        ),
        (&["link", "set", name, "down"], &["eth0", "is down"]),
        (&["link", "set", name, "name", "other"], &["no interface eth0"]),
        (
            &["address", "delete", "10.64.0.5/32", "dev", name],
            &["has not 10.64.0.5/32"],
        ),
        (
            &["address", "delete", "fd64::5/128", "dev", name],
            &["has not fd64::5/128"],
        ),
        (&["route", "delete", "default"], &["no default route by 169.254.1.1"]),
        (&["-6", "route", "delete", "default"], &["no default route by fe80::1"]),
    ];
    let on_host: &[(&[&str], &[&str])] = &[
        (&["route", "delete", "10.64.0.5"], &["no route to 10.64.0.5"]),
        (&["-6", "route", "delete", "fd64::5"], &["no route to fd64::5"]),
        (
            &["route", "replace", "10.64.0.5", "dev", "lo"],
            &["no route to 10.64.0.5"],
        ),
        (
            &["link", "set", "HOST", "down"],
            &["is down", "no route to 10.64.0.5", "no route to fd64::5"],
        ),
        (
            &["link", "delete", "HOST"],
            &["no interface berth", "no interface eth0"],
        ),
    ];
    let cases = in_pod
        .iter()
        .map(|case| (true, case))
        .chain(on_host.iter().map(|case| (false, case)));
    for (is_in_pod, (words, expected)) in cases {
        let node = Node::new(&[grant(5), done()]);
        let pod = Namespace::new();
        let result = node.add("c1", &pod);
        let host_name = result["interfaces"][0]["name"].as_str().unwrap();
        let words: Vec<&str> = words
            .iter()
            .map(|word| if *word == "HOST" { host_name } else { word })
            .collect();
        if is_in_pod { &pod } else { &node.host }.ip(&words.join(" "));
        let (code, text) = node.check("c1", &pod, &result).failure();
        assert_eq!(code, 101, "{words:?}: {text}");
        for expected in *expected {
            assert!(text.contains(expected), "{words:?}: {text}");
        }
    }
}

#[test]
fn what_the_agent_says_counts_too_and_both_are_told() {
    let refusal = json!({"reason": "Mismatch", "message": "10.64.0.5 is another's"});
    let node = Node::new(&[grant(5), Manner::answers(409, &refusal)]);
    let pod = Namespace::new();
    let result = node.add("c1", &pod);
    let (code, text) = node.check("c1", &pod, &result).failure();
    assert!(code == 101 && text.contains("another's"), "{text}");
    pod.ip("link set eth0 mtu 1300");
    let (_, text) = node.check("c1", &pod, &result).failure();
    assert!(text.contains("another's") && text.contains("MTU"), "{text}");
}

#[test]
fn a_result_without_this_interface_is_no_result_of_it() {
    let node = Node::new(&[grant(5)]);
    let pod = Namespace::new();
    let mut result = node.add("c1", &pod);
    result["interfaces"][1]["sandbox"] = json!("/elsewhere");
    let (code, text) = node.check("c1", &pod, &result).failure();
    assert!(code == 7 && text.contains("prevResult"), "{text}");
}
