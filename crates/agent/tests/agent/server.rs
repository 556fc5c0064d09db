//! The agent's socket: what is asked rightly, and what is not.

use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;

use berth_agent::server::{ListenError, Listener};
use serde_json::{Value, json};

use crate::scene::socket::{Served, add, send};

fn attachment(n: u32) -> Value {
    json!({"container": format!("c{n}"), "interface": "eth0"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_from_request_to_release() {
    let served = Served::new(&["10.64.0.10", "10.64.0.11", "fd64::a", "fd64::b"]).await;
    let (code, granted) = add(&served, 1).await;
    assert_eq!(code, 200);
    assert_eq!(
        granted["addresses"][0],
        json!({"address": "10.64.0.10", "length": 16, "gateway": "10.64.0.1"})
    );
    assert_eq!(granted["addresses"][1]["address"], "fd64::a");
    let check = json!({"attachment": attachment(1), "addresses": ["fd64::a", "10.64.0.10"]});
    assert_eq!(served.post("/v1/check", &check).await.0, 200);
    let wrong = json!({"attachment": attachment(1), "addresses": ["10.64.0.10"]});
    let (code, refusal) = served.post("/v1/check", &wrong).await;
    assert_eq!((code, &refusal["reason"]), (409, &json!("Mismatch")));
    let (code, status) = served.get("/v1/status").await;
    assert_eq!((code, &status["pool"]["assigned"]), (200, &json!(1)));
    let (_, lines) = served.get("/v1/addresses").await;
    assert_eq!(lines[0]["attachment"], attachment(1));
    assert_eq!(lines[0]["state"], "Assigned");
    let release = json!({"attachment": attachment(1)});
    assert_eq!(
        served.post("/v1/release", &release).await,
        (200, json!({"released": 2}))
    );
    assert_eq!(
        served.post("/v1/release", &release).await,
        (200, json!({"released": 0}))
    );
    add(&served, 2).await;
    let gc = json!({"network": "pods", "valid": []});
    assert_eq!(served.post("/v1/gc", &gc).await, (200, json!({"released": 2})));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interface_may_be_called_by_a_dash() {
    let served = Served::new(&["10.64.0.10"]).await;
    let attachment = json!({"container": "c1", "interface": "-"});
    let request = json!({"attachment": attachment, "network": "pods"});
    assert_eq!(served.post("/v1/request", &request).await.0, 200);
    assert_eq!(served.reopened().holdings(), served.node.agent.holdings());
    let release = json!({"attachment": attachment});
    assert_eq!(
        served.post("/v1/release", &release).await,
        (200, json!({"released": 1}))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_pool_says_so_and_the_status_stays_ready() {
    let served = Served::new(&[]).await;
    let (code, refusal) = add(&served, 1).await;
    assert_eq!((code, &refusal["reason"]), (503, &json!("PoolEmpty")));
    let (code, status) = served.get("/v1/status").await;
    assert_eq!((code, &status["ready"]), (200, &json!(true)));
    assert!(
        status["message"].as_str().unwrap().contains("no IPv4 address is free"),
        "{status}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named_and_changes_nothing() {
    let served = Served::new(&["10.64.0.10"]).await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = "x".repeat(2 << 20);
    let bodies: &[(&str, &str, u16, &str)] = &[
        ("/v1/request", "", 400, "body"),
        ("/v1/request", "nonsense", 400, "body"),
        ("/v1/request", "{}", 400, "attachment"),
        ("/v1/request", &deep, 400, "body"),
        ("/v1/request", &long, 400, "body"),
        (
            "/v1/request",
            r#"{"attachment":{"container":"../a","interface":"eth0"}}"#,
            400,
            "attachment.container",
        ),
        (
            "/v1/request",
            r#"{"attachment":{"container":"","interface":"eth0"}}"#,
            400,
            "attachment.container",
        ),
        (
            "/v1/request",
            r#"{"attachment":{"container":"a","interface":"a/b"}}"#,
            400,
            "attachment.interface",
        ),
        (
            "/v1/request",
            r#"{"attachment":{"container":"a","interface":"eth0"},"network":"a b"}"#,
            400,
            "network",
        ),
        (
            "/v1/request",
            r#"{"attachment":{"container":"a","interface":"eth0"},"pod":{"name":"a b"}}"#,
            400,
            "pod",
        ),
        (
            "/v1/request",
            r#"{"attachment":{"container":"a","interface":"eth0"},"desired":["10.9.9.9"]}"#,
            409,
            "10.9.9.9",
        ),
        (
            "/v1/request",
            r#"{"attachment":{"container":"a","interface":"eth0"},"desired":["10.64.0.10","10.64.0.10"]}"#,
            400,
            "twice",
        ),
        (
            "/v1/request",
            r#"{"attachment":{"container":"a","interface":"eth0"},"desired":["x"]}"#,
            400,
            "body",
        ),
        (
            "/v1/release",
            r#"{"attachment":{"container":"a b","interface":"eth0"}}"#,
            400,
            "attachment.container",
        ),
        ("/v1/release", r#"{"attachment":7}"#, 400, "body"),
        (
            "/v1/check",
            r#"{"attachment":{"container":"a","interface":"eth0"},"addresses":[]}"#,
            409,
            "no address",
        ),
        ("/v1/gc", r#"{"network":"","valid":[]}"#, 400, "network"),
        ("/v1/gc", r#"{"network":"pods"}"#, 400, "valid"),
        (
            "/v1/gc",
            r#"{"network":"pods","valid":[{"container":"..","interface":"eth0"}]}"#,
            400,
            "attachment.container",
        ),
        ("/v1/nothing", "{}", 404, "nothing here"),
        ("/v1/status", "{}", 404, "nothing here"),
    ];
    for (path, body, code, named) in bodies {
        let (got, refusal) = send(&served.path, "POST", path, body).await.unwrap();
        let message = refusal["message"].as_str().unwrap_or_default();
        assert_eq!(got, *code, "{path} {}: {refusal}", &body[..body.len().min(80)]);
        assert!(message.contains(named), "{path}: {message}");
    }
    assert!(served.node.agent.holdings().is_empty());
    assert_eq!(add(&served, 1).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_say_nothing_or_no_http_hold_up_nobody() {
    let served = Served::new(&["10.64.0.10"]).await;
    let mut silent: Vec<UnixStream> =
        (0..200).map(|_| UnixStream::connect(&served.path).unwrap()).collect();
    for stream in silent.iter_mut().take(50) {
        std::io::Write::write_all(stream, &[0xff; 4096]).unwrap();
    }
    assert_eq!(add(&served, 1).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_at_once_get_each_an_address_of_its_own() {
    let addresses: Vec<String> = (0..100).map(|n| format!("10.64.1.{n}")).collect();
    let listed: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let served = Served::new(&listed).await;
    // Each asked for twice, at once.
    let calls = (0..200).map(|n| add(&served, n % 100));
    let answers = futures::future::join_all(calls).await;
    let given: BTreeSet<String> = answers
        .iter()
        .map(|(_, granted)| granted["addresses"][0]["address"].to_string())
        .collect();
    assert!(answers.iter().all(|(code, _)| *code == 200));
    assert_eq!(given.len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_socket_is_its_owners_and_of_one_agent() {
    let served = Served::new(&[]).await;
    let metadata = std::fs::metadata(&served.path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let error = Listener::bind(&served.path).await.unwrap_err();
    assert!(matches!(error, ListenError::InUse { .. }), "{error}");
    let long = served.node.path(&"x".repeat(200));
    let error = Listener::bind(&long).await.unwrap_err();
    assert!(error.to_string().contains("longer than 107 bytes"), "{error}");
    // One that nobody serves any more is taken over.
    let left = served.node.path("left.sock");
    drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
    assert!(left.exists());
    Listener::bind(&left).await.unwrap();
}
