//! What the service refuses: with which code, in which words, and that nothing has changed.

use std::time::Duration;

use berth_nodenet::allocator::{Allocator, AllocatorError, Registry};
use berth_nodenet::client::RemoteAllocator;
use berth_nodenet::service::Limits;
use berth_testkit::certificates::{Authority, Pair};
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, date_time_ymd};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::raw::{self, ask, exchange};
use super::world::{CLUSTER, World, node, of, plan, request};

const CONTAINER: &str = "/networks/prod/subnets/pods/containers/blue/a/uid-of-a";

/// A service with a subnet and a node in it, and the certificate of the node's cluster.
async fn world() -> (World, Pair) {
    world_with(Limits::default()).await
}

async fn world_with(limits: Limits) -> (World, Pair) {
    let world = World::with(limits).await;
    let client = world.client(CLUSTER);
    client
        .set_subnet("pods", &plan(&["10.64.0.0/24"]), Duration::ZERO)
        .await
        .unwrap();
    client.create("pods", &node("a")).await.unwrap();
    let pair = world.authority.client(CLUSTER);
    (world, pair)
}

/// For clients, with as many Common Names as there are clusters.
fn certificate_for(clusters: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    // rcgen holds one of each type: the second is a Common Name by its number.
    let types = [DnType::CommonName, DnType::CustomDnType(vec![2, 5, 4, 3])];
    for (cluster, kind) in clusters.iter().zip(types) {
        params.distinguished_name.push(kind, *cluster);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn service_error(error: AllocatorError) -> String {
    match error {
        AllocatorError::Service { address, why }
        | AllocatorError::WrongCluster { address, why }
        | AllocatorError::Invalid { address, why } => format!("{address} {why}"),
        other => panic!("{other:?}"),
    }
}

fn text(problem: &Value) -> &str {
    problem["error"].as_str().unwrap()
}

#[tokio::test]
async fn a_client_certificate_of_another_ca_is_refused_with_the_fix() {
    let (world, _) = world().await;
    let stranger = Authority::make(world.directory.path(), "strangers").client(CLUSTER);
    let client = world.client_with(&world.authority.file(), &stranger);
    let error = service_error(client.counts("pods").await.unwrap_err());
    assert!(error.contains(&stranger.certificate.display().to_string()), "{error}");
    assert!(
        error.contains("of cluster blue") && error.contains("--client-ca"),
        "{error}"
    );
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_refused_and_named() {
    let (world, _) = world().await;
    let mut params = certificate_for(&[CLUSTER]);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2020, 2, 1);
    let expired = world.authority.sign("expired", &params);
    let client = world.client_with(&world.authority.file(), &expired);
    let error = service_error(client.counts("pods").await.unwrap_err());
    assert!(error.contains("expired.crt") && error.contains("Expired"), "{error}");
}

#[tokio::test]
async fn a_certificate_for_servers_is_refused() {
    let (world, _) = world().await;
    let mut server = world.authority.server();
    // It has a name, so that our client takes it.
    assert!(
        RemoteAllocator::connect(
            &world.url(),
            &world.authority.file(),
            &server.certificate,
            &server.key
        )
        .is_ok()
    );
    server = world.authority.server();
    let refused = exchange(&world, Some(&server), b"GET / HTTP/1.0\r\n\r\n")
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("fatal alert"), "{refused}");
}

#[tokio::test]
async fn who_has_no_certificate_is_not_heard() {
    let (world, _) = world().await;
    let refused = exchange(&world, None, b"GET /networks/prod/subnets/pods HTTP/1.0\r\n\r\n").await;
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("CertificateRequired"), "{refused}");
}

#[tokio::test]
async fn a_client_refuses_a_service_of_an_untrusted_ca() {
    let (world, pair) = world().await;
    let strangers = Authority::make(world.directory.path(), "strangers").file();
    let client = world.client_with(&strangers, &pair);
    let error = service_error(client.counts("pods").await.unwrap_err());
    assert!(
        error.contains("not to be trusted") && error.contains("strangers.ca.crt"),
        "{error}"
    );
}

#[tokio::test]
async fn a_certificate_for_two_clusters_is_for_none() {
    let (world, _) = world().await;
    let ambiguous = world.authority.sign("ambiguous", &certificate_for(&[CLUSTER, "green"]));
    for method in ["GET", "PUT", "DELETE"] {
        let (code, problem) = ask(&world, &ambiguous, method, CONTAINER, "").await;
        assert_eq!(
            (code, &problem["reason"], &problem["field"]),
            (403, &json!("WrongCluster"), &json!("cluster"))
        );
    }
}

#[tokio::test]
async fn a_container_of_another_cluster_is_refused_and_kept() {
    let (world, _) = world().await;
    let green = world.client("green");
    let node = node("a");
    let errors = [
        green.create("pods", &node).await.unwrap_err(),
        green.update("pods", &node, request(1, 4)).await.unwrap_err(),
        green.delete("pods", &node).await.unwrap_err(),
        green.get("pods", &node).await.unwrap_err(),
    ];
    for error in errors {
        let error = service_error(error);
        assert!(
            error.contains(
                r#"the certificate is for cluster "green", and the request is for cluster "blue""#
            ),
            "{error}"
        );
    }
    let kept = world.client(CLUSTER).get("pods", &node).await.unwrap().unwrap();
    assert_eq!((kept.primary.len(), kept.secondaries.len()), (1, 0));
    let pair = world.authority.client("green");
    assert_eq!(ask(&world, &pair, "GET", CONTAINER, "").await.0, 403);
}

#[tokio::test]
async fn clusters_with_nodes_of_one_name_do_not_see_each_other() {
    let (world, _) = world().await;
    let green = world.client("green");
    let theirs = green.create("pods", &of("green", "a")).await.unwrap();
    let ours = world.client(CLUSTER).get("pods", &node("a")).await.unwrap().unwrap();
    assert_ne!(theirs.primary, ours.primary);
    green.delete("pods", &of("green", "a")).await.unwrap();
    assert_eq!(world.client(CLUSTER).get("pods", &node("a")).await.unwrap(), Some(ours));
}

#[tokio::test]
async fn an_update_of_a_container_that_is_not_there_leases_nothing() {
    let (world, pair) = world().await;
    let path = "/networks/prod/subnets/pods/containers/blue/b/uid-of-b";
    let body = json!({"request": "00000000-0000-0000-0000-000000000001", "count": 4}).to_string();
    let (code, problem) = ask(&world, &pair, "PATCH", path, &body).await;
    assert_eq!(
        (code, &problem["reason"], &problem["field"]),
        (404, &json!("NoContainer"), &json!("container"))
    );
    assert!(
        text(&problem).contains("node b") && text(&problem).contains("create it first"),
        "{problem}"
    );
    let (_, made) = ask(&world, &pair, "PUT", path, "").await;
    assert_eq!(made["secondaries"], json!([]));
}

#[tokio::test]
async fn a_subnet_that_is_full_or_not_there_has_a_code_of_its_own() {
    let (world, pair) = world().await;
    world
        .client(CLUSTER)
        .update("pods", &node("a"), request(1, 300))
        .await
        .unwrap();
    let path = "/networks/prod/subnets/pods/containers/blue/b/uid";
    let (code, problem) = ask(&world, &pair, "PUT", path, "").await;
    assert_eq!(
        (code, &problem["reason"], &problem["field"]),
        (507, &json!("SubnetFull"), &json!("subnet"))
    );
    let (code, problem) =
        ask(&world, &pair, "GET", "/networks/prod/subnets/nowhere/utilization", "").await;
    assert_eq!(
        (code, &problem["reason"], &problem["field"]),
        (404, &json!("NoSubnet"), &json!("subnet"))
    );
    assert!(text(&problem).contains("prod.nowhere"), "{problem}");
}

#[tokio::test]
async fn a_bad_update_names_the_field_and_changes_nothing() {
    let (world, pair) = world().await;
    let id = "00000000-0000-0000-0000-000000000001";
    for (body, field) in [
        (json!({"request": id, "count": -1}).to_string(), "count"),
        (json!({"request": id, "count": 65_537}).to_string(), "count"),
        (json!({"request": id, "count": 1.5}).to_string(), "count"),
        (
            format!(r#"{{"request": "{id}", "count": 100000000000000000000000000}}"#),
            "count",
        ),
        (json!({"request": "no id", "count": 1}).to_string(), "request"),
        (
            json!({"request": id, "count": 1, "giveBack": [id, 7]}).to_string(),
            "giveBack[1]",
        ),
        (json!({"count": 1}).to_string(), "body"),
        (json!("two").to_string(), "body"),
        (String::new(), "body"),
        ("\u{0}\u{1} garbage".to_owned(), "body"),
        (json!({"request": id, "count": 1}).to_string() + "{}", "body"),
    ] {
        let (code, problem) = ask(&world, &pair, "PATCH", CONTAINER, &body).await;
        assert_eq!((code, &problem["field"]), (400, &json!(field)), "{body}: {problem}");
        assert!(text(&problem).starts_with(field), "{problem}");
    }
    let (_, container) = ask(&world, &pair, "GET", CONTAINER, "").await;
    assert_eq!(container["secondaries"], json!([]));
}

#[tokio::test]
async fn a_bad_name_in_a_path_names_the_part() {
    let (world, pair) = world().await;
    for (path, code, field) in [
        ("/networks/Prod/subnets/pods", 400, "network"),
        ("/networks/prod/subnets/po%2Fds", 400, "subnet"),
        (
            "/networks/prod/subnets/pods/containers/blue/a%2Fb/uid",
            400,
            "container",
        ),
        ("/networks/prod/subnets/pods/containers/blue/%ff/uid", 400, "path"),
        ("/networks/prod/subnets/pods/freed?seen=-1", 400, "seen"),
        ("/networks/prod/subnets/pods/freed", 400, "seen"),
        ("/networks/prod", 404, "path"),
        ("/", 404, "path"),
    ] {
        let (answered, problem) = ask(&world, &pair, "GET", path, "").await;
        assert_eq!(
            (answered, &problem["field"]),
            (code, &json!(field)),
            "{path}: {problem}"
        );
    }
    let (code, problem) = ask(&world, &pair, "POST", CONTAINER, "").await;
    assert_eq!((code, &problem["reason"]), (405, &json!("NoOperation")));
}

#[tokio::test]
async fn what_is_no_request_at_all_ends_that_connection_only() {
    let (world, pair) = world().await;
    let answer = exchange(&world, Some(&pair), b"\x16\x03\x01 this is not HTTP\r\n\r\n").await;
    assert!(answer.is_err() || answer.is_ok_and(|text| text.is_empty() || text.contains(" 400 ")));
    assert_eq!(ask(&world, &pair, "GET", CONTAINER, "").await.0, 200);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let limits = Limits {
        body: 1024,
        ..Limits::default()
    };
    let (world, pair) = world_with(limits).await;
    let body = json!({
        "request": "00000000-0000-0000-0000-000000000001", "count": 1, "padding": "x".repeat(2000),
    });
    let (code, problem) = ask(&world, &pair, "PATCH", CONTAINER, &body.to_string()).await;
    assert_eq!(
        (code, &problem["reason"], &problem["field"]),
        (413, &json!("TooLarge"), &json!("body"))
    );

    // As long as it says, and endless.
    let head = format!(
        "PATCH {CONTAINER} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    let mut stream = raw::connect(&world, Some(&pair)).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("800\r\n{}\r\n", "x".repeat(0x800));
    stream.write_all(chunk.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let limits = Limits {
        body_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let (world, pair) = world_with(limits).await;
    let head =
        format!("PATCH {CONTAINER} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{{");
    let mut stream = raw::connect(&world, Some(&pair)).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[tokio::test]
async fn who_connects_and_says_nothing_makes_room_for_others() {
    let limits = Limits {
        connections: 2,
        handshake: Duration::from_millis(50),
        ..Limits::default()
    };
    let (world, pair) = world_with(limits).await;
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(tokio::net::TcpStream::connect(world.address).await.unwrap());
    }
    assert_eq!(ask(&world, &pair, "GET", CONTAINER, "").await.0, 200);
}

#[tokio::test]
async fn more_waiters_than_there_may_be_are_told_to_come_back() {
    let limits = Limits {
        waiters: 0,
        ..Limits::default()
    };
    let (world, pair) = world_with(limits).await;
    let (code, problem) =
        ask(&world, &pair, "GET", "/networks/prod/subnets/pods/freed?seen=1", "").await;
    assert_eq!((code, &problem["reason"]), (503, &json!("Busy")));
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_said_after_a_few_attempts() {
    let (mut world, _) = world().await;
    let client = world.client(CLUSTER);
    world.stop().await;
    let error = service_error(client.counts("pods").await.unwrap_err());
    assert!(
        error.contains(&world.address.to_string()) && error.contains("refused"),
        "{error}"
    );
}

#[tokio::test]
async fn what_a_client_cannot_use_is_said_before_it_calls() {
    let (world, pair) = world().await;
    let ca = world.authority.file();
    let other = world.authority.client("green");
    let missing = world.directory.path().join("missing");
    let connect = |url: &str, ca: &std::path::Path, pair: &Pair| {
        RemoteAllocator::connect(url, ca, &pair.certificate, &pair.key)
            .unwrap_err()
            .to_string()
    };
    for url in [
        "http://localhost:1",
        "localhost:1",
        "https://localhost:1/somewhere",
        "https://",
    ] {
        assert!(connect(url, &ca, &pair).contains("https://HOST:PORT"), "{url}");
    }
    assert!(connect(&world.url(), &missing, &pair).contains("missing"));
    assert!(connect(&world.url(), &pair.key, &pair).contains("no certificate in it"));
    let mixed = Pair {
        key: other.key,
        ..pair.clone()
    };
    let error = connect(&world.url(), &ca, &mixed);
    assert!(error.contains("green.key") && error.contains("blue.crt"), "{error}");
    let nameless = world.authority.sign("nameless", &certificate_for(&[]));
    assert!(connect(&world.url(), &ca, &nameless).contains("Common Name"));
}
