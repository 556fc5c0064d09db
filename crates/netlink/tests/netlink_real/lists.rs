//! Lists that the kernel filters.

use berth_addr::Family;
use berth_netlink::{Protocol, RouteFilter, Socket};
use berth_testkit::Namespace;

use crate::scene::{OURS, OpenSocket, THEIRS, both, do_one, of};

fn destinations(socket: &Socket, filter: &RouteFilter) -> Vec<String> {
    let routes = socket.routes(filter).unwrap();
    routes
        .iter()
        .map(|route| route.destination.to_string())
        .collect()
}

#[test]
fn a_route_is_listed_by_its_protocol_and_by_no_other() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    for route in both() {
        do_one(&socket, |batch| batch.add_route(&route)).unwrap();
    }
    assert_eq!(
        destinations(&socket, &of(OURS)),
        ["10.64.3.0/24", "fd64:0:0:3::/64"]
    );
    assert_eq!(destinations(&socket, &of(THEIRS)), [""; 0]);
    let kernels = destinations(&socket, &of(Protocol::KERNEL));
    assert!(kernels.contains(&"192.0.2.0/24".to_owned()), "{kernels:?}");
    assert!(!kernels.contains(&"10.64.3.0/24".to_owned()), "{kernels:?}");
    let printed = namespace.ip("route show proto 77");
    assert_eq!(printed.trim(), "10.64.3.0/24 via 192.0.2.7 dev near");
}

#[test]
fn a_list_can_be_of_one_family() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    for route in both() {
        do_one(&socket, |batch| batch.add_route(&route)).unwrap();
    }
    let list = |family| {
        let filter = RouteFilter {
            family: Some(family),
            ..of(OURS)
        };
        destinations(&socket, &filter)
    };
    assert_eq!(list(Family::V4), ["10.64.3.0/24"]);
    assert_eq!(list(Family::V6), ["fd64:0:0:3::/64"]);
}

#[test]
fn a_list_can_be_of_one_table() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    for mut route in both() {
        for table in [100, 70_000] {
            route.table = table;
            do_one(&socket, |batch| batch.add_route(&route)).unwrap();
        }
    }
    for table in [100, 70_000] {
        let routes = socket
            .routes(&RouteFilter {
                table: Some(table),
                ..of(OURS)
            })
            .unwrap();
        assert_eq!(routes.len(), 2);
        assert!(
            routes.iter().all(|route| route.table == table),
            "{routes:?}"
        );
    }
    assert_eq!(socket.routes(&of(OURS)).unwrap().len(), 4);
    // Nobody has made this one.
    assert_eq!(
        socket
            .routes(&RouteFilter {
                table: Some(101),
                ..of(OURS)
            })
            .unwrap(),
        []
    );
}

#[test]
fn a_list_can_be_of_one_link() {
    let namespace = Namespace::with_pair();
    namespace.ip("route add 10.65.0.0/16 dev far proto 77");
    let socket = namespace.socket();
    for route in both() {
        do_one(&socket, |batch| batch.add_route(&route)).unwrap();
    }
    let index = |name: &str| socket.link(name).unwrap().unwrap().index;
    let list = |name| {
        destinations(
            &socket,
            &RouteFilter {
                link: Some(index(name)),
                ..of(OURS)
            },
        )
    };
    assert_eq!(list("near"), ["10.64.3.0/24", "fd64:0:0:3::/64"]);
    assert_eq!(list("far"), ["10.65.0.0/16"]);
}
