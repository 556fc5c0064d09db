//! OpenStack: the real Neutron.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "clouds/cluster.rs"]
mod cluster;
#[path = "clouds/logs.rs"]
mod logs;
#[path = "clouds/neutron.rs"]
mod neutron;
#[path = "clouds/proxy.rs"]
mod proxy;
#[path = "clouds/server.rs"]
mod server;

use axum::response::IntoResponse;
use berth_routes::backend::{Backend, ErrorKind};
use berth_routes::core::{Change, Creation, Hop};
use cluster::{Cluster, table_is};
use http::StatusCode;
use logs::Logs;
use neutron::Router;
use proxy::Proxy;
use serde_json::{Value, json};

async fn nodes(cluster: &Cluster, numbers: impl IntoIterator<Item = usize>) {
    for number in numbers {
        let cidr = format!("10.120.{number}.0/24");
        cluster
            .node(&format!("n{number}"), &cidr, &hop(number), "")
            .await;
    }
}

fn hop(number: usize) -> String {
    format!("10.0.0.{}", 10 + number)
}

fn wanted(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    let one = |number: usize| format!("10.120.{number}.0/24 by {}", hop(number));
    numbers.into_iter().map(one).collect()
}

/// A Neutron without these extensions.
fn without(proxy: &Proxy, missing: &'static [&'static str]) {
    proxy.instead(|parts, _| {
        let atomic = parts.uri.path().ends_with("_extraroutes");
        atomic.then(|| StatusCode::NOT_FOUND.into_response())
    });
    proxy.after(move |parts, body| {
        if parts.uri.path() != "/v2.0/extensions" {
            return body;
        }
        let mut value: Value = serde_json::from_str(&body).unwrap();
        let extensions = value["extensions"].as_array_mut().unwrap();
        extensions.retain(|one| !missing.contains(&one["alias"].as_str().unwrap()));
        value.to_string()
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_come_change_and_go_with_their_nodes() {
    let router = Router::new();
    let cluster = Cluster::open().await;
    let controller = cluster.start(router.backend(), "10.120.0.0/16");
    nodes(&cluster, 0..10).await;
    table_is(|| router.table(), &wanted(0..10)).await;
    cluster.unavailable_is("n9", "False").await;
    cluster.delete("n1").await;
    cluster.node("n1", "10.120.1.0/24", "10.0.0.99", "").await;
    cluster.delete("n2").await;
    let mut expected = wanted([0, 3, 4, 5, 6, 7, 8, 9]);
    expected.push("10.120.1.0/24 by 10.0.0.99".to_owned());
    table_is(|| router.table(), &expected).await;
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_is_visible_and_a_route_that_goes_makes_room() {
    let router = Router::new();
    let cluster = Cluster::open().await;
    let controller = cluster.start(router.backend(), "10.120.0.0/16");
    nodes(&cluster, 0..30).await;
    table_is(|| router.table(), &wanted(0..30)).await;
    nodes(&cluster, [30]).await;
    cluster.unavailable_is("n30", "True").await;
    cluster.delete("n7").await;
    table_is(
        || router.table(),
        &wanted((0..31).filter(|number| *number != 7)),
    )
    .await;
    cluster.unavailable_is("n30", "False").await;
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_next_hop_in_a_batch_keeps_no_other_from_being_routed() {
    let router = Router::new();
    let cluster = Cluster::open().await;
    nodes(&cluster, 0..8).await;
    cluster
        .node("far", "10.120.100.0/24", "203.0.113.7", "")
        .await;
    nodes(&cluster, 8..16).await;
    let controller = cluster.start(router.backend(), "10.120.0.0/16");
    table_is(|| router.table(), &wanted(0..16)).await;
    cluster.unavailable_is("far", "True").await;
    controller.stop().await;
    cluster.close().await;
}

/// Without a second try: Neutron refuses the batch as a whole.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_bad_one_of_a_batch_is_refused() {
    let router = Router::new();
    let change = |number: usize, hop: &str| Change {
        destination: format!("10.120.{number}.0/24").parse().unwrap(),
        delete: Vec::new(),
        create: Some(Creation {
            node: format!("n{number}"),
            uid: "u".to_owned(),
            hop: Hop::Address(hop.parse().unwrap()),
        }),
    };
    let mut changes: Vec<Change> = (0..9).map(|number| change(number, &hop(number))).collect();
    changes[4] = change(4, "203.0.113.7");
    let results = router.backend().apply(&changes).await;
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result.is_ok(), number != 4, "{number}: {result:?}");
    }
    table_is(
        || router.table(),
        &wanted((0..9).filter(|number| *number != 4)),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clusters_share_a_router_and_each_restarts_in_the_middle() {
    let router = Router::new();
    let (left, right) = (Proxy::start(router.port()), Proxy::start(router.port()));
    let (one, two) = (Cluster::open().await, Cluster::open().await);
    // Both believe that the whole range is theirs.
    let first = one.start(router.backend_by(left.port), "10.120.0.0/16");
    let second = two.start(router.backend_by(right.port), "10.120.0.0/16");
    nodes(&one, 0..5).await;
    nodes(&two, 10..15).await;
    table_is(|| router.table(), &wanted((0..5).chain(10..15))).await;
    first.kill();
    second.kill();
    one.delete("n0").await;
    two.delete("n10").await;
    let first = one.start(router.backend_by(left.port), "10.120.0.0/16");
    let second = two.start(router.backend_by(right.port), "10.120.0.0/16");
    table_is(|| router.table(), &wanted((1..5).chain(11..15))).await;
    nodes(&one, [6]).await;
    nodes(&two, [16]).await;
    table_is(
        || router.table(),
        &wanted([1, 2, 3, 4, 6, 11, 12, 13, 14, 16]),
    )
    .await;
    // Nor has either of them ever asked for a route of the other to be removed.
    let has_removed = |proxy: &Proxy, number: usize| {
        let cidr = format!("\"10.120.{number}.0/24\"");
        let calls = proxy.calls();
        let mut removals = calls
            .iter()
            .filter(|call| call.contains("/remove_extraroutes "));
        removals.any(|call| call.contains(&cidr))
    };
    assert!((0..7).any(|number| has_removed(&left, number)));
    assert!(!(10..17).any(|number| has_removed(&left, number)));
    assert!(!(0..7).any(|number| has_removed(&right, number)));
    for controller in [first, second] {
        controller.stop().await;
    }
    one.close().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_extraroute_atomic_two_writers_lose_no_route() {
    let router = Router::new();
    let proxy = Proxy::start(router.port());
    without(&proxy, &["extraroute-atomic"]);
    let (one, two) = (Cluster::open().await, Cluster::open().await);
    let first = one.start(router.backend_by(proxy.port), "10.120.0.0/16");
    // A second writer of the same list: nothing of either may be lost.
    let second = two.start(router.backend_by(proxy.port), "10.120.0.0/16");
    let (left, right) = tokio::join!(nodes(&one, 0..8), nodes(&two, 10..18));
    let ((), ()) = (left, right);
    table_is(|| router.table(), &wanted((0..8).chain(10..18))).await;
    one.delete("n0").await;
    two.delete("n10").await;
    table_is(|| router.table(), &wanted((1..8).chain(11..18))).await;
    assert!(
        !proxy
            .calls()
            .iter()
            .any(|call| call.contains("_extraroutes "))
    );
    for controller in [first, second] {
        controller.stop().await;
    }
    one.close().await;
    two.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_of_a_node_lets_packets_to_its_pods_pass() {
    let router = Router::new();
    let port = router.port_with(&hop(0), true);
    // Networks of one cloud often use the same addresses.
    let elsewhere = Router::new();
    let same_address = elsewhere.port_with(&hop(0), true);
    let cluster = Cluster::open().await;
    let controller = cluster.start(router.backend(), "10.120.0.0/16");
    nodes(&cluster, 0..2).await;
    table_is(|| router.table(), &wanted(0..2)).await;
    assert_eq!(router.pairs(&port), ["10.120.0.0/24"]);
    assert_eq!(elsewhere.pairs(&same_address), Vec::<String>::new());
    cluster.delete("n0").await;
    table_is(|| router.table(), &wanted([1])).await;
    cluster::wait_for("the pair is gone", async || {
        let pairs = router.pairs(&port);
        if pairs.is_empty() {
            Ok(())
        } else {
            Err(format!("{pairs:?}"))
        }
    })
    .await;
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_address_pairs_ports_are_left_alone() {
    let router = Router::new();
    let port = router.port_with(&hop(0), true);
    let proxy = Proxy::start(router.port());
    without(&proxy, &["extraroute-atomic", "allowed-address-pairs"]);
    let cluster = Cluster::open().await;
    let controller = cluster.start(router.backend_by(proxy.port), "10.120.0.0/16");
    nodes(&cluster, 0..2).await;
    table_is(|| router.table(), &wanted(0..2)).await;
    assert_eq!(router.pairs(&port), Vec::<String>::new());
    assert!(
        !proxy
            .calls()
            .iter()
            .any(|call| call.contains("/v2.0/ports"))
    );
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn throttling_is_waited_for_and_a_duplicate_goes() {
    let router = Router::new();
    // The same destination by two next hops: Neutron takes it.
    router.add(&json!([
        {"destination": "10.120.0.0/24", "nexthop": hop(0)},
        {"destination": "10.120.0.0/24", "nexthop": hop(1)},
    ]));
    let proxy = Proxy::start(router.port());
    let mut left = 3;
    proxy.instead(move |parts, _| {
        if !parts.uri.path().ends_with("_extraroutes") || left == 0 {
            return None;
        }
        left -= 1;
        Some((StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")]).into_response())
    });
    let cluster = Cluster::open().await;
    nodes(&cluster, 0..5).await;
    let controller = cluster.start(router.backend_by(proxy.port), "10.120.0.0/16");
    table_is(|| router.table(), &wanted(0..5)).await;
    controller.stop().await;
    cluster.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_keystone_token_is_renewed() {
    let logs = Logs::capture();
    let router = Router::new();
    let proxy = Proxy::start(router.port());
    let endpoint = format!("http://127.0.0.1:{}", proxy.port);
    let mut tokens = 0;
    // Keystone, as far as a token needs it; the first one is not good for long.
    proxy.instead(move |parts, body| {
        if parts.uri.path() == "/v3/auth/tokens" {
            if !body.contains("right-password") {
                return Some(StatusCode::UNAUTHORIZED.into_response());
            }
            tokens += 1;
            let catalog = json!([{"type": "network", "endpoints": [
                {"interface": "internal", "region": "R", "url": "http://127.0.0.1:1"},
                {"interface": "public", "region": "R", "url": endpoint},
            ]}]);
            let token =
                json!({"token": {"expires_at": "2099-01-01T00:00:00.000000Z", "catalog": catalog}});
            let header = [("x-subject-token", format!("token-{tokens}"))];
            return Some((StatusCode::CREATED, header, token.to_string()).into_response());
        }
        let token = parts
            .headers
            .get("x-auth-token")
            .and_then(|value| value.to_str().ok());
        (token != Some("token-2")).then(|| StatusCode::UNAUTHORIZED.into_response())
    });
    let backend = |password: &str| router.backend_with_password(proxy.port, password);
    assert_eq!(backend("right-password").list().await.unwrap(), []);
    let error = backend("wrong-password").list().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    assert!(error.message.contains("check the credentials"), "{error}");
    assert!(!error.message.contains("wrong"), "{error}");
    let cluster = Cluster::open().await;
    for password in ["right-password", "wrong-password"] {
        let before = proxy.calls().len();
        let controller = cluster.start(backend(password), "10.120.0.0/16");
        cluster::wait_for("it has asked", async || {
            match proxy.calls().len() - before {
                0 | 1 => Err(String::new()),
                _ => Ok(()),
            }
        })
        .await;
        controller.stop().await;
    }
    cluster.close().await;
    logs.hide(&["right-password", "wrong-password", "token-1", "token-2"]);
}
