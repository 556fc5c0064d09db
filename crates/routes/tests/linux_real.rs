//! The kernel's routes, in network namespaces of the tests' own, which needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "clouds/cluster.rs"]
mod cluster;
#[path = "linux/monitor.rs"]
mod monitor;
#[path = "linux/namespace.rs"]
mod namespace;

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_addr::Prefix;
use berth_routes::backend::linux::Linux;
use berth_routes::backend::{Backend, ErrorKind};
use berth_routes::core::{Change, Creation, Hop, Mark, Route};
use cluster::{Cluster, table_is};
use monitor::Monitor;
use namespace::Namespace;

fn backend(namespace: &Namespace) -> Arc<Linux> {
    Arc::new(Linux::with(namespace.socket()))
}

fn create(destination: &str, hop: &str) -> Change {
    Change {
        destination: destination.parse().unwrap(),
        delete: Vec::new(),
        create: Some(Creation {
            node: "n".to_owned(),
            uid: "u".to_owned(),
            hop: Hop::Address(hop.parse().unwrap()),
        }),
    }
}

fn route(destination: &str, hop: &str) -> Route {
    Route {
        destination: destination.parse().unwrap(),
        hop: Hop::Address(hop.parse().unwrap()),
        mark: Mark::Ours,
        usable: true,
    }
}

/// Those with our mark, as `ip` shows them.
fn ours(namespace: &Namespace) -> BTreeSet<String> {
    let lines = namespace.ip("route show proto 77") + &namespace.ip("-6 route show proto 77");
    let words = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        format!("{} by {}", words[0], words[2])
    };
    lines.lines().map(words).collect()
}

fn of(pairs: &[&str]) -> Vec<String> {
    pairs.iter().map(|one| (*one).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_of_both_families_come_and_go_with_their_nodes() {
    let namespace = Namespace::with_pair();
    let cluster = Cluster::open().await;
    let controller = cluster.start(backend(&namespace), "10.120.0.0/16");
    cluster.node("n1", "10.120.1.0/24", "192.0.2.11", "").await;
    cluster.node("n2", "10.120.2.0/24", "192.0.2.12", "").await;
    let table = || ours(&namespace);
    table_is(
        table,
        &of(&["10.120.1.0/24 by 192.0.2.11", "10.120.2.0/24 by 192.0.2.12"]),
    )
    .await;
    cluster.delete("n1").await;
    table_is(table, &of(&["10.120.2.0/24 by 192.0.2.12"])).await;
    controller.stop().await;
    let six = cluster.start(backend(&namespace), "fd12::/32");
    cluster
        .node("n3", "fd12:0:3::/64", "2001:db8::13", "")
        .await;
    table_is(
        table,
        &of(&[
            "10.120.2.0/24 by 192.0.2.12",
            "fd12:0:3::/64 by 2001:db8::13",
        ]),
    )
    .await;
    six.stop().await;
    cluster.close().await;
}

/// What the kernel tells of while a controller is killed and another one starts: the change of a
/// third node comes after all that they did.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_and_restarted_leaves_valid_routes_alone() {
    let namespace = Namespace::with_pair();
    let cluster = Cluster::open().await;
    let controller = cluster.start(backend(&namespace), "10.120.0.0/16");
    cluster.node("n1", "10.120.1.0/24", "192.0.2.11", "").await;
    cluster.node("n2", "10.120.2.0/24", "192.0.2.12", "").await;
    cluster.unavailable_is("n1", "False").await;
    cluster.unavailable_is("n2", "False").await;
    let monitor = Monitor::listen(&namespace);
    controller.kill();
    cluster.delete("n2").await;
    let controller = cluster.start(backend(&namespace), "10.120.0.0/16");
    table_is(|| ours(&namespace), &of(&["10.120.1.0/24 by 192.0.2.11"])).await;
    cluster.node("n3", "10.120.3.0/24", "192.0.2.13", "").await;
    let told = monitor.until("192.0.2.13");
    assert!(told.contains("Deleted 10.120.2.0/24"), "{told}");
    assert!(!told.contains("10.120.1.0/24"), "{told}");
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_of_others_are_neither_listed_nor_touched() {
    let namespace = Namespace::with_pair();
    namespace.ip("route add 10.120.9.0/24 via 192.0.2.9");
    namespace.ip("route add 10.120.8.0/24 via 192.0.2.9 proto 78");
    let backend = backend(&namespace);
    assert_eq!(backend.list().await.unwrap(), []);
    let results = backend.apply(&[create("10.120.9.0/24", "192.0.2.7")]).await;
    let error = results[0].clone().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(
        error.message.contains("10.120.9.0/24") && error.message.contains("not ours"),
        "{error}"
    );
    assert!(
        namespace
            .ip("route show 10.120.9.0/24")
            .contains("via 192.0.2.9")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_is_replaced_in_one_step() {
    let namespace = Namespace::with_pair();
    let backend = backend(&namespace);
    backend
        .apply(&[create("10.120.1.0/24", "192.0.2.7")])
        .await
        .remove(0)
        .unwrap();
    let monitor = Monitor::listen(&namespace);
    let change = Change {
        delete: vec![route("10.120.1.0/24", "192.0.2.7")],
        ..create("10.120.1.0/24", "192.0.2.8")
    };
    backend.apply(&[change]).await.remove(0).unwrap();
    assert_eq!(
        backend.list().await.unwrap(),
        [route("10.120.1.0/24", "192.0.2.8")]
    );
    let events = monitor.until("192.0.2.8");
    assert!(!events.contains("Deleted"), "{events}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_gateway_is_named_and_the_rest_of_the_batch_is_there() {
    let namespace = Namespace::with_pair();
    let backend = backend(&namespace);
    let changes = [
        create("10.120.1.0/24", "192.0.2.7"),
        create("10.120.2.0/24", "203.0.113.1"),
        create("10.120.3.0/24", "192.0.2.7"),
    ];
    let results = backend.apply(&changes).await;
    assert!(results[0].is_ok() && results[2].is_ok());
    let error = results[1].clone().unwrap_err();
    assert!(
        error.message.contains("10.120.2.0/24 via 203.0.113.1"),
        "{error}"
    );
    assert_eq!(backend.list().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_what_is_gone_is_done() {
    let namespace = Namespace::with_pair();
    let change = Change {
        destination: "10.120.1.0/24".parse().unwrap(),
        delete: vec![route("10.120.1.0/24", "192.0.2.7")],
        create: None,
    };
    backend(&namespace)
        .apply(&[change])
        .await
        .remove(0)
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_routes_come_and_go() {
    let namespace = Namespace::with_pair();
    let backend = backend(&namespace);
    let destination = |number: u32| {
        let address = std::net::Ipv4Addr::from(u32::from_be_bytes([10, 0, 0, 0]) + (number << 8));
        Prefix::new(address.into(), 24).unwrap().to_string()
    };
    let changes: Vec<Change> = (0..5000)
        .map(|number| create(&destination(number), "192.0.2.7"))
        .collect();
    let start = std::time::Instant::now();
    let results = backend.apply(&changes).await;
    println!("5,000 routes made in {:?}", start.elapsed());
    assert!(results.iter().all(Result::is_ok));
    let listed = backend.list().await.unwrap();
    assert_eq!(listed.len(), 5000);
    let changes: Vec<Change> = listed
        .into_iter()
        .map(|route| Change {
            destination: route.destination,
            delete: vec![route],
            create: None,
        })
        .collect();
    assert!(backend.apply(&changes).await.iter().all(Result::is_ok));
    assert_eq!(backend.list().await.unwrap(), []);
}
