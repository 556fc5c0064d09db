//! Links, their addresses and neighbours.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use berth_netlink::{Batch, InterfaceAddress, Link, LinkEvents, Veth, VethPeer};
use berth_testkit::Namespace;

use crate::scene::OpenSocket;

const HOST_MAC: [u8; 6] = [6, 1, 2, 3, 4, 5];
const POD_MAC: [u8; 6] = [2, 1, 2, 3, 4, 5];

/// A pair between two namespaces.
fn connect(host: &Namespace, pod: &Namespace) -> Link {
    let file = pod.open();
    let mut batch = Batch::default();
    batch.new_veth(&Veth {
        name: "berth0",
        mac: HOST_MAC,
        mtu: Some(1400),
        peer: VethPeer {
            name: "eth0",
            mac: POD_MAC,
            namespace: file.as_fd(),
        },
    });
    batch.get_link("berth0");
    let mut answers = host.socket().call(batch).unwrap();
    Link::found(answers.pop().unwrap()).unwrap().unwrap()
}

#[test]
fn a_pair_has_an_end_in_each_namespace() {
    let (host, pod) = (Namespace::new(), Namespace::new());
    let made = connect(&host, &pod);
    assert!(made.up);
    assert_eq!(
        (&made.name[..], &made.mac[..], made.mtu),
        ("berth0", &HOST_MAC[..], 1400)
    );
    let end = pod.socket().link("eth0").unwrap().unwrap();
    assert_eq!((end.index, end.up), (made.peer, false));
    assert_eq!((&end.mac[..], end.mtu), (&POD_MAC[..], 1400));
    pod.socket().ask(|batch| batch.set_up(end.index)).unwrap();
    assert!(pod.socket().link("eth0").unwrap().unwrap().up);
}

#[test]
fn an_alias_stays_with_a_link() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let link = socket.link("near").unwrap().unwrap();
    socket
        .ask(|batch| batch.set_alias(link.index, "of a pod"))
        .unwrap();
    let aliases = socket
        .links()
        .unwrap()
        .into_iter()
        .map(|link| (link.name, link.alias));
    let mut aliases: Vec<_> = aliases.filter(|(_, alias)| !alias.is_empty()).collect();
    assert_eq!(
        aliases.pop(),
        Some(("near".to_owned(), "of a pod".to_owned()))
    );
    assert!(aliases.is_empty());
}

#[test]
fn a_link_with_an_odd_name_hides_no_other() {
    let namespace = Namespace::with_pair();
    namespace.inside(|| {
        let odd = OsStr::from_bytes(b"odd\xff");
        let mut command = Command::new("ip");
        command
            .args(["link", "add"])
            .arg(odd)
            .args(["type", "veth", "peer", "name", "c"]);
        assert!(command.status().unwrap().success());
    });
    let links = namespace.socket().links().unwrap();
    let names: Vec<&str> = links.iter().map(|link| &link.name[..]).collect();
    for name in ["lo", "near", "far", "c", "odd\u{fffd}"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
}

#[test]
fn a_link_that_is_not_there_is_none_and_deleting_it_says_so() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let link = socket.link("near").unwrap().unwrap();
    socket.ask(|batch| batch.delete_link_named("near")).unwrap();
    assert_eq!(socket.link("near").unwrap(), None);
    assert_eq!(socket.link("far").unwrap(), None);
    let error = socket
        .ask(|batch| batch.delete_link(link.index))
        .unwrap_err();
    assert!(error.is_gone(), "{error:?}");
    assert_eq!(error.to_string(), format!("delete link {}", link.index));
}

#[test]
fn who_listens_hears_of_a_link_that_goes() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let events = namespace.inside(|| LinkEvents::open().unwrap());
    let index = |name: &str| socket.link(name).unwrap().unwrap().index;
    let mut both = [index("near"), index("far")];
    assert_eq!(events.removed().unwrap(), [0; 0]);
    socket.ask(|batch| batch.delete_link(both[0])).unwrap();
    let mut removed = events.removed().unwrap();
    removed.sort_unstable();
    both.sort_unstable();
    assert_eq!(removed, both);
}

#[test]
fn a_link_that_leaves_a_bridge_is_not_gone() {
    let namespace = Namespace::with_pair();
    namespace.ip("link add bridge type bridge");
    namespace.ip("link set near master bridge");
    let events = namespace.inside(|| LinkEvents::open().unwrap());
    namespace.ip("link set near nomaster");
    assert_eq!(events.removed().unwrap(), [0; 0]);
}

#[test]
fn addresses_are_those_of_one_link() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let (a, b) = (
        socket.link("near").unwrap().unwrap(),
        socket.link("far").unwrap().unwrap(),
    );
    let mut batch = Batch::default();
    for address in ["10.64.0.5", "fd64::5"] {
        batch.new_address(b.index, address.parse().unwrap());
    }
    for answer in socket.call(batch).unwrap() {
        answer.unwrap();
    }
    let list = |link: &Link| {
        let mut list = socket.addresses(link.index).unwrap();
        // The kernel gives each link one of these.
        list.retain(|has| !has.address.to_string().starts_with("fe80"));
        list.sort_unstable();
        list
    };
    let expect = |link: &Link, address: &str, length| InterfaceAddress {
        address: address.parse().unwrap(),
        length,
        link: link.index,
    };
    assert_eq!(
        list(&a),
        [expect(&a, "192.0.2.1", 24), expect(&a, "2001:db8::1", 64)]
    );
    assert_eq!(
        list(&b),
        [expect(&b, "10.64.0.5", 32), expect(&b, "fd64::5", 128)]
    );
    // An IPv6 address can be used at once.
    assert!(
        !namespace
            .ip("-6 address show dev far")
            .contains("fd64::5/128 scope global tentative")
    );
}

#[test]
fn a_neighbour_is_known_for_good() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let link = socket.link("near").unwrap().unwrap();
    for address in ["192.0.2.7", "2001:db8::7"] {
        for mac in [HOST_MAC, POD_MAC] {
            let address = address.parse().unwrap();
            socket
                .ask(|batch| batch.put_neighbour(link.index, address, &mac))
                .unwrap();
        }
        let printed = namespace.ip(&format!("neighbour show {address}"));
        let expected = format!("{address} dev near lladdr 02:01:02:03:04:05 PERMANENT");
        assert_eq!(printed.trim(), expected);
    }
}
