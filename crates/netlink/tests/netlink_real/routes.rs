//! Routes, one by one.

use berth_addr::Prefix;
use berth_netlink::{Route, RouteKind};
use berth_testkit::Namespace;

use crate::scene::{OURS, OpenSocket, THEIRS, both, do_one, of, route};

#[test]
fn a_route_is_listed_as_it_was_added_and_deleted_by_that() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let link = Some(socket.link("near").unwrap().unwrap().index);
    let prefix = |text: &str| text.parse::<Prefix>().unwrap();
    let ours = |destination| Route {
        protocol: OURS,
        ..Route::to(prefix(destination))
    };
    let shapes = [
        Route {
            link,
            ..route("10.1.0.0/24", "192.0.2.7")
        },
        Route {
            link,
            ..ours("10.2.0.0/24")
        },
        Route {
            link,
            on_link: true,
            ..route("10.3.0.0/24", "203.0.113.1")
        },
        Route {
            link,
            table: 300,
            metric: 5,
            ..route("10.4.0.0/24", "192.0.2.7")
        },
        Route {
            link,
            ..route("10.5.0.0/24", "fe80::7")
        },
        Route {
            kind: RouteKind::Blackhole,
            ..ours("10.6.0.0/16")
        },
        Route {
            link,
            ..route("0.0.0.0/0", "192.0.2.7")
        },
        Route {
            link,
            ..route("fd64:1::/64", "2001:db8::7")
        },
        Route {
            link,
            ..ours("fd64:2::/64")
        },
        Route {
            link,
            on_link: true,
            ..route("fd64:3::/64", "2001:db8:f::1")
        },
        Route {
            link,
            table: 300,
            metric: 5,
            ..route("fd64:4::/64", "fe80::7")
        },
        Route {
            kind: RouteKind::Blackhole,
            ..ours("fd64:6::/64")
        },
        Route {
            link,
            ..route("::/0", "fe80::7")
        },
    ];
    for route in &shapes {
        do_one(&socket, |batch| batch.add_route(route)).unwrap();
        assert_eq!(
            socket.routes(&of(OURS)).unwrap(),
            std::slice::from_ref(route)
        );
        do_one(&socket, |batch| batch.delete_route(route)).unwrap();
        assert_eq!(socket.routes(&of(OURS)).unwrap(), [], "{route}");
    }
}

#[test]
fn deleting_a_route_that_is_gone_says_so() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    for route in both() {
        do_one(&socket, |batch| batch.add_route(&route)).unwrap();
        do_one(&socket, |batch| batch.delete_route(&route)).unwrap();
        let error = do_one(&socket, |batch| batch.delete_route(&route)).unwrap_err();
        assert!(error.is_gone(), "{error:?}");
        let name = format!("delete route {} via", route.destination);
        assert!(error.to_string().starts_with(&name), "{error}");
    }
}

#[test]
fn a_route_of_another_protocol_is_not_deleted() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    for route in both() {
        let theirs = Route {
            protocol: THEIRS,
            ..route.clone()
        };
        do_one(&socket, |batch| batch.add_route(&theirs)).unwrap();
        let error = do_one(&socket, |batch| batch.delete_route(&route)).unwrap_err();
        assert!(error.is_gone(), "{error:?}");
    }
    assert_eq!(socket.routes(&of(THEIRS)).unwrap().len(), 2);
}

#[test]
fn a_route_by_another_gateway_is_not_deleted() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    for (route, other) in both().into_iter().zip(["192.0.2.8", "2001:db8::8"]) {
        do_one(&socket, |batch| batch.add_route(&route)).unwrap();
        let other = Route {
            gateway: Some(other.parse().unwrap()),
            ..route
        };
        let error = do_one(&socket, |batch| batch.delete_route(&other)).unwrap_err();
        assert!(error.is_gone(), "{error:?}");
    }
    assert_eq!(socket.routes(&of(OURS)).unwrap().len(), 2);
}

#[test]
fn adding_a_route_that_is_there_says_so() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    for route in both() {
        do_one(&socket, |batch| batch.add_route(&route)).unwrap();
        let error = do_one(&socket, |batch| batch.add_route(&route)).unwrap_err();
        assert!(error.is_taken() && !error.is_gone(), "{error:?}");
    }
}

#[test]
fn a_route_that_is_put_takes_the_place_of_another() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    for (route, other) in both().into_iter().zip(["192.0.2.8", "2001:db8::8"]) {
        let theirs = Route {
            protocol: THEIRS,
            ..route.clone()
        };
        do_one(&socket, |batch| batch.put_route(&theirs)).unwrap();
        let gateway = Some(other.parse().unwrap());
        do_one(&socket, |batch| {
            batch.put_route(&Route { gateway, ..route })
        })
        .unwrap();
        let last = socket.routes(&of(OURS)).unwrap().pop().unwrap();
        assert_eq!(last.gateway, gateway);
    }
    assert_eq!(socket.routes(&of(THEIRS)).unwrap(), []);
}

#[test]
fn the_kernel_explains_a_refusal() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let unreachable = route("10.64.3.0/24", "203.0.113.1");
    let error = do_one(&socket, |batch| batch.add_route(&unreachable)).unwrap_err();
    let expected = "add route 10.64.3.0/24 via 203.0.113.1 (Nexthop has invalid gateway)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_route_to_an_address_is_the_longest() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    for route in both() {
        assert_eq!(socket.route_to(route.destination.last()).unwrap(), None);
        let wide = Prefix::around(route.destination.first(), 16).unwrap();
        do_one(&socket, |batch| {
            batch.add_route(&Route {
                destination: wide,
                ..route.clone()
            })
        })
        .unwrap();
        do_one(&socket, |batch| batch.add_route(&route)).unwrap();
        let found = socket.route_to(route.destination.last()).unwrap().unwrap();
        assert_eq!(
            (found.destination, found.protocol),
            (route.destination, OURS)
        );
    }
}
