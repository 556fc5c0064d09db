//! Many routes at once.

use std::net::Ipv6Addr;

use berth_addr::Prefix;
use berth_netlink::{Batch, Protocol, Route, RouteFilter, Socket};
use berth_testkit::Namespace;

use crate::scene::OpenSocket;

const OURS: Protocol = Protocol(77);

fn listed(socket: &Socket) -> Vec<Route> {
    socket
        .routes(&RouteFilter {
            protocol: Some(OURS),
            ..RouteFilter::default()
        })
        .unwrap()
}

/// Routes to as many nodes, each by a gateway behind `near`; every second one is IPv6.
fn routes(count: u32) -> Vec<Route> {
    let route = |number: u32| {
        let (destination, gateway) = if number.is_multiple_of(2) {
            let address = u32::from_be_bytes([10, 0, 0, 0]) + (number << 8);
            (
                Prefix::new(std::net::Ipv4Addr::from(address).into(), 24),
                "192.0.2.7",
            )
        } else {
            let address = (0xfd64_u128 << 112) | (u128::from(number) << 64);
            (
                Prefix::new(Ipv6Addr::from(address).into(), 64),
                "2001:db8::7",
            )
        };
        Route {
            gateway: Some(gateway.parse().unwrap()),
            protocol: OURS,
            ..Route::to(destination.unwrap())
        }
    };
    (0..count).map(route).collect()
}

fn batch(routes: &[Route], add: impl Fn(&mut Batch, &Route)) -> Batch {
    let mut batch = Batch::default();
    for route in routes {
        add(&mut batch, route);
    }
    batch
}

#[test]
fn a_thousand_routes_come_and_go() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let routes = routes(1000);
    let answers = socket.call(batch(&routes, Batch::add_route)).unwrap();
    assert_eq!(answers.len(), 1000);
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(listed(&socket).len(), 1000);
    let answers = socket.call(batch(&routes, Batch::delete_route)).unwrap();
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(listed(&socket), []);
}

#[test]
fn failures_name_their_routes_and_the_others_are_there() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let mut routes = routes(1000);
    let bad = [0, 1, 400, 999];
    for at in bad {
        let gateway = if at % 2 == 0 {
            "203.0.113.1"
        } else {
            "2001:db8:f::1"
        };
        routes[at].gateway = Some(gateway.parse().unwrap());
    }
    let answers = socket.call(batch(&routes, Batch::add_route)).unwrap();
    for (at, answer) in answers.iter().enumerate() {
        match answer {
            Ok(_) => assert!(!bad.contains(&at), "{at}"),
            Err(error) => {
                assert!(bad.contains(&at), "{at}: {error}");
                let name = format!("add route {} via", routes[at].destination);
                assert!(error.to_string().starts_with(&name), "{error}");
            }
        }
    }
    assert_eq!(listed(&socket).len(), 996);
}

#[test]
fn each_of_a_thousand_failures_is_heard_of() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let routes = routes(1000);
    socket.call(batch(&routes, Batch::add_route)).unwrap();
    let answers = socket.call(batch(&routes, Batch::add_route)).unwrap();
    for (answer, route) in answers.iter().zip(&routes) {
        let error = answer.as_ref().unwrap_err();
        assert!(error.is_taken(), "{error:?}");
        assert!(
            error.to_string().contains(&route.destination.to_string()),
            "{error}"
        );
    }
}

#[test]
fn a_batch_of_several_sends_is_answered_in_order() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let routes = routes(5000);
    socket
        .call(batch(&routes[4000..4001], Batch::add_route))
        .unwrap();
    let answers = socket.call(batch(&routes, Batch::add_route)).unwrap();
    let failed: Vec<usize> = (0..5000).filter(|at| answers[*at].is_err()).collect();
    assert_eq!(failed, [4000]);
    assert_eq!(listed(&socket).len(), 5000);
}

#[test]
fn a_batch_mixes_requests() {
    let namespace = Namespace::with_pair();
    let socket = namespace.socket();
    let routes = routes(2);
    let mut batch = Batch::default();
    batch.add_route(&routes[0]);
    batch.delete_route(&routes[1]);
    batch.get_link("near");
    batch.get_link("missing");
    batch.put_route(&routes[1]);
    let answers = socket.call(batch).unwrap();
    let lengths: Vec<Option<usize>> = answers
        .iter()
        .map(|answer| answer.as_ref().ok().map(Vec::len))
        .collect();
    assert_eq!(lengths, [Some(0), None, Some(1), None, Some(0)]);
    assert_eq!(listed(&socket).len(), 2);
}
