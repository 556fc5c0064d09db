//! ADD.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use berth_testkit::{Namespace, until_so};
use serde_json::{Value, json};

use super::node::{Node, done, grant, grant_of};
use crate::call::CNI;
use crate::server::Manner;

/// Whether a word gets from one place to an address at another, and an answer back.
fn talk(from: &Namespace, to: &Namespace, address: &str) {
    let address = SocketAddr::new(address.parse::<IpAddr>().unwrap(), 0);
    // A socket stays in the namespace it was opened in.
    let listener = to.inside(|| TcpListener::bind(address).unwrap());
    let target = listener.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).unwrap();
        stream.write_all(&word).unwrap();
        peer.ip()
    });
    from.inside(|| {
        let mut stream = connect(target);
        stream.write_all(b"ahoy").unwrap();
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ahoy");
    });
    serving.join().unwrap();
}

/// On a busy machine the kernel may still be about to bring up the routes of an interface.
fn connect(target: SocketAddr) -> TcpStream {
    let mut connected = TcpStream::connect(target);
    until_so("the address is reached", || match &connected {
        Err(error) if error.kind() == ErrorKind::HostUnreachable => {
            connected = TcpStream::connect(target);
            false
        }
        _ => true,
    });
    connected.unwrap()
}

#[test]
fn pods_reach_each_other_and_the_host_in_both_families() {
    let node = Node::new(&[grant(5), grant(6)]);
    let (one, two) = (Namespace::new(), Namespace::new());
    node.host.ip("address add 192.0.2.1/32 dev lo");
    node.host.ip("address add 2001:db8::1/128 dev lo nodad");
    node.add("c1", &one);
    node.add("c2", &two);
    for pod in [&one, &two] {
        pod.ip("link set lo up");
    }
    for (address, host) in [("10.64.0.6", "192.0.2.1"), ("fd64::6", "2001:db8::1")] {
        talk(&one, &two, address);
        talk(&node.host, &two, address);
        talk(&two, &node.host, host);
        talk(&two, &two, address);
    }
}

#[test]
fn the_result_says_what_the_kernel_has() {
    let mut node = Node::new(&[grant(5)]);
    node.conf["mtu"] = json!(1400);
    let pod = Namespace::new();
    let result = node.add("c1", &pod);
    let [host_link, pod_link] = [&result["interfaces"][0], &result["interfaces"][1]];
    assert_eq!(node.host.link_names(), [host_link["name"].as_str().unwrap()]);
    let seen = |namespace: &Namespace, name: &Value| {
        let link = namespace.show(&format!("link show {}", name.as_str().unwrap()))[0].clone();
        json!([link["address"], link["mtu"], link["operstate"]])
    };
    assert_eq!(
        seen(&node.host, &host_link["name"]),
        json!([host_link["mac"], 1400, "UP"])
    );
    assert_eq!(seen(&pod, &json!("eth0")), json!([pod_link["mac"], 1400, "UP"]));
    assert_eq!(
        (&pod_link["name"], &pod_link["sandbox"], &pod_link["mtu"]),
        (&json!("eth0"), &json!(pod.path()), &json!(1400))
    );
    assert_eq!(host_link.get("sandbox"), None);
    let ips = json!([
        {"address": "10.64.0.5/32", "gateway": "169.254.1.1", "interface": 1},
        {"address": "fd64::5/128", "gateway": "fe80::1", "interface": 1},
    ]);
    assert_eq!(result["ips"], ips);
    let routes =
        json!([{"dst": "0.0.0.0/0", "gw": "169.254.1.1"}, {"dst": "::/0", "gw": "fe80::1"}]);
    assert_eq!(result["routes"], routes);
    let address = pod.show("-6 address show dev eth0 scope global")[0]["addr_info"][0].clone();
    // Ready to be used at once, without a search for duplicates.
    assert_eq!(
        (&address["local"], &address["prefixlen"], address["tentative"] == true),
        (&json!("fd64::5"), &json!(128), false)
    );
}

#[test]
fn a_node_with_one_family_has_one() {
    for (address, other) in [("10.64.0.5", "-6"), ("fd64::5", "-4")] {
        let node = Node::new(&[grant_of(&[address])]);
        let pod = Namespace::new();
        let result = node.add("c1", &pod);
        assert_eq!(result["ips"].as_array().unwrap().len(), 1);
        let routes = pod.show(&format!("{other} route show default"));
        assert_eq!(routes, json!([]), "{address}");
    }
}

#[test]
fn ipv6_is_enabled_on_eth0_where_the_namespace_disables_it() {
    let node = Node::new(&[grant(5)]);
    let pod = Namespace::new();
    pod.inside(|| std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap());
    node.add("c1", &pod);
    talk(&pod, pod_with_loopback(&pod), "fd64::5");
}

fn pod_with_loopback(pod: &Namespace) -> &Namespace {
    pod.inside(|| std::fs::write("/proc/sys/net/ipv6/conf/lo/disable_ipv6", "0").unwrap());
    pod.ip("link set lo up");
    pod
}

#[test]
fn forwarding_is_switched_on_in_the_host_and_not_in_the_pod() {
    let node = Node::new(&[grant(5)]);
    let pod = Namespace::new();
    let read = |namespace: &Namespace, file: &str| {
        namespace.inside(|| std::fs::read_to_string(file).unwrap().trim().to_owned())
    };
    let (v4, v6) = (
        "/proc/sys/net/ipv4/ip_forward",
        "/proc/sys/net/ipv6/conf/all/forwarding",
    );
    node.host.inside(|| {
        std::fs::write(v4, "0").unwrap();
        std::fs::write(v6, "0").unwrap();
    });
    pod.inside(|| {
        std::fs::write(v4, "0").unwrap();
        std::fs::write(v6, "0").unwrap();
    });
    node.add("c1", &pod);
    assert_eq!([read(&node.host, v4), read(&node.host, v6)], ["1", "1"]);
    assert_eq!([read(&pod, v4), read(&pod, v6)], ["0", "0"]);
}

#[test]
fn an_add_with_an_existing_interface_fails_and_keeps_it() {
    let node = Node::new(&[grant(5)]);
    let pod = Namespace::new();
    node.add("c1", &pod);
    let (code, text) = node.call("ADD", "c1", &pod).run(&node.conf).failure();
    assert!(code == 105 && text.contains("eth0"), "{text}");
    // The agent is not even asked, so that nothing has to be given back.
    assert_eq!(node.asked(), ["/v1/request"]);
    assert_eq!(pod.link_names(), ["eth0"]);
    let stranger = Namespace::new();
    stranger.ip("link add eth0 type bridge");
    assert_eq!(node.call("ADD", "c2", &stranger).run(&node.conf).code(), 105);
    assert_eq!(node.asked(), ["/v1/request"]);
}

#[test]
fn an_agent_that_refuses_leaves_nothing_behind() {
    let refusal = json!({"reason": "PoolEmpty", "message": "none is free"});
    let node = Node::new(&[Manner::answers(503, &refusal)]);
    let pod = Namespace::new();
    let (code, text) = node.call("ADD", "c1", &pod).run(&node.conf).failure();
    assert!(code == 11 && text.contains("none is free"), "{text}");
    assert_eq!(pod.link_names(), Vec::<String>::new());
    node.assert_empty();
}

#[test]
fn a_failed_add_is_undone_and_its_address_is_released() {
    // The kernel does not take the same address twice.
    let node = Node::new(&[grant_of(&["10.64.0.5", "10.64.0.5"]), done()]);
    let pod = Namespace::new();
    let (code, text) = node.call("ADD", "c1", &pod).run(&node.conf).failure();
    assert!(code == 105 && text.contains("10.64.0.5"), "{text}");
    let asked = node.server.as_ref().unwrap().asked();
    assert_eq!(asked[1].line, "POST /v1/release HTTP/1.1");
    assert_eq!(asked[1].body["attachment"], asked[0].body["attachment"]);
    // It undoes this ADD, and no later one.
    assert_eq!(asked[1].body["started"], asked[0].body["started"]);
    assert_eq!(pod.link_names(), Vec::<String>::new());
    node.assert_empty();
}

#[test]
fn an_address_that_can_not_be_given_back_then_goes_to_the_queue() {
    let node = Node::new(&[grant_of(&["10.64.0.5", "10.64.0.5"]), Manner::Closes]);
    let pod = Namespace::new();
    let done = node.call("ADD", "c1", &pod).run(&node.conf);
    assert_eq!(done.code(), 105);
    assert_eq!(node.queue(), ["c1:eth0"]);
}

#[test]
fn what_could_not_be_undone_is_told() {
    let mut node = Node::new(&[grant_of(&["10.64.0.5", "10.64.0.5"]), Manner::Closes]);
    node.conf["queueDir"] = json!("/dev/null/queue");
    let pod = Namespace::new();
    let done = node.call("ADD", "c1", &pod).run(&node.conf);
    assert_eq!(done.code(), 105);
    let document: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(
        document["details"].as_str().unwrap().contains("/dev/null/queue"),
        "{document}"
    );
}

#[test]
fn what_an_attachment_has_left_in_another_namespace_gives_way() {
    let node = Node::new(&[grant(5)]);
    let (old, new) = (Namespace::new(), Namespace::new());
    node.add("c1", &old);
    node.add("c1", &new);
    assert_eq!(old.link_names(), Vec::<String>::new());
    assert_eq!((new.link_names().len(), node.host.link_names().len()), (1, 1));
}

#[test]
fn an_address_with_a_stale_route_moves_to_the_new_interface() {
    let node = Node::new(&[grant(5)]);
    let (old, new) = (Namespace::new(), Namespace::new());
    node.add("c1", &old);
    node.add("c2", &new);
    node.host.ip("address add 192.0.2.1/32 dev lo");
    let routes = node.host.show("route show 10.64.0.5");
    assert_eq!(routes.as_array().unwrap().len(), 1);
    talk(&node.host, &new, "10.64.0.5");
}

#[test]
fn the_result_keeps_what_earlier_plugins_in_the_chain_added() {
    let mut node = Node::new(&[grant_of(&["10.64.0.5"])]);
    node.conf["prevResult"] = json!({
        "cniVersion": "1.1.0", "dns": {"nameservers": ["192.0.2.53"]},
        "interfaces": [{"name": "net0", "sandbox": "/x"}], "ips": [{"address": "192.0.2.9/24", "interface": 0}],
    });
    let result = node.add("c1", &Namespace::new());
    assert_eq!(result["dns"], json!({"nameservers": ["192.0.2.53"]}));
    assert_eq!(result["interfaces"][0]["name"], "net0");
    assert_eq!(result["ips"][1]["interface"], 2);
    assert_eq!(result["interfaces"][2]["name"], "eth0");
}

#[test]
fn many_at_once_do_not_get_into_each_others_way() {
    let node = Node::new(&(1..=24).map(grant).collect::<Vec<_>>());
    let pods: Vec<Namespace> = (0..24).map(|_| Namespace::new()).collect();
    let on_all = |command: &str| {
        std::thread::scope(|scope| {
            for (at, pod) in pods.iter().enumerate() {
                let call = node.call(command, &format!("c{at}"), pod);
                let conf = &node.conf;
                scope.spawn(move || assert!(call.run(conf).success, "{command} by {CNI}"));
            }
        });
    };
    on_all("ADD");
    assert_eq!(node.host.link_names().len(), 24);
    on_all("DEL");
    node.assert_empty();
}
