//! CNS's REST API, as bytes on a connection.

use std::net::SocketAddr;

use berth_agent::compat::{Listener, router};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::scene::node::Node;

struct Served {
    node: Node,
    address: SocketAddr,
    _stop: DropGuard,
}

impl Served {
    async fn with(addresses: &[&str]) -> Self {
        let node = Node::new();
        node.deliver(addresses);
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address();
        let stop = CancellationToken::new();
        tokio::spawn(listener.serve(router(node.agent.clone()), stop.clone()));
        Self {
            node,
            address,
            _stop: stop.drop_guard(),
        }
    }

    /// What comes back, to the end of the connection.
    async fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // An answer may come before all is sent: then the rest is refused.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        Answer::read(&answer)
    }

    /// As Go's client does it.
    async fn post(&self, path: &str, body: &str) -> Answer {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost:10090\r\nUser-Agent: \
             Go-http-client/1.1\r\nContent-Length: {}\r\nContent-Type: \
             application/json\r\nAccept-Encoding: gzip\r\n\r\n",
            body.len()
        );
        self.send([head.as_bytes(), body.as_bytes()].concat().as_slice()).await
    }

    async fn get(&self, path: &str) -> Answer {
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost:10090\r\nUser-Agent: Go-http-client/1.1\r\n\r\n"
        );
        self.send(head.as_bytes()).await
    }

    async fn request(&self, container: &str) -> Answer {
        self.post("/network/requestipconfigs", &stock(container)).await
    }

    async fn release(&self, container: &str) -> Answer {
        self.post("/network/releaseipconfigs", &stock(container)).await
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self {
            status: status.unwrap_or(0),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    fn document(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    fn code_header(&self) -> &str {
        let named = self
            .head
            .lines()
            .find_map(|line| line.strip_prefix("cns_return_code: "));
        named.unwrap_or_else(|| panic!("no code in {}", self.head))
    }

    /// The code and the text of a failure, wherever the path says it.
    fn failure(&self) -> (i64, String) {
        let document = self.document();
        let outcome = if document["response"].is_object() {
            &document["response"]
        } else {
            &document["Response"]
        };
        let text = outcome["Message"].as_str().unwrap().to_owned();
        (outcome["ReturnCode"].as_i64().unwrap(), text)
    }
}

/// What azure-ipam sends for a container.
fn stock(container: &str) -> String {
    format!(
        concat!(
            r#"{{"desiredIPAddresses":null,"podInterfaceID":"{0}","infraContainerID":"{0}","#,
            r#""orchestratorContext":{{"PodName":"web-1","PodNamespace":"shop"}},"ifname":"eth0","#,
            r#""secondaryInterfacesExist":false,"BackendInterfaceExist":false,"BacknendInterfaceMacAddress":null}}"#,
            "\n"
        ),
        container
    )
}

/// The stock request with something else in one field.
fn with(container: &str, field: &str, value: Value) -> String {
    let mut request: Value = serde_json::from_str(&stock(container)).unwrap();
    request[field] = value;
    request.to_string()
}

#[tokio::test]
async fn a_stock_request_gets_an_address_with_its_subnet_and_gateway() {
    let served = Served::with(&["10.64.0.5"]).await;
    let answer = served.request("c1").await;
    let document = answer.document();
    assert_eq!(document["response"], json!({"ReturnCode": 0, "Message": ""}));
    assert_eq!(answer.code_header(), "Success");
    assert!(
        answer.head.contains("content-type: application/json"),
        "{}",
        answer.head
    );
    let info = &document["podIPInfo"];
    assert_eq!(info.as_array().unwrap().len(), 1);
    assert_eq!(
        info[0]["PodIPConfig"],
        json!({"IPAddress": "10.64.0.5", "PrefixLength": 16})
    );
    let around = &info[0]["NetworkContainerPrimaryIPConfig"];
    assert_eq!(around["IPSubnet"]["PrefixLength"], 16);
    assert_eq!(around["GatewayIPAddress"], "10.64.0.1");
    assert_eq!(info[0]["NICType"], "InfraNIC");
    // The same key again: the same address.
    assert_eq!(served.request("c1").await.document(), document);
    let holdings = served.node.agent.holdings();
    let (attachment, holding) = holdings.first_key_value().unwrap();
    assert_eq!(attachment.to_string(), "c1:eth0");
    assert_eq!(
        (holding.pod.namespace.as_str(), holding.pod.name.as_str()),
        ("shop", "web-1")
    );
}

#[tokio::test]
async fn both_families_come_together_and_not_by_the_path_for_one() {
    let served = Served::with(&["10.64.0.5", "fd64::5"]).await;
    let one = json!({"PodInterfaceID": "c1", "OrchestratorContext": {"PodName": "a", "PodNamespace": "b"}, "Ifname": "eth0"});
    let (code, text) = served
        .post("/network/requestipconfig", &one.to_string())
        .await
        .failure();
    assert_eq!(code, 23);
    assert!(text.contains("/network/requestipconfigs"), "{text}");
    assert!(served.node.agent.holdings().is_empty());
    let document = served.request("c1").await.document();
    let lengths: Vec<(&Value, &Value)> = document["podIPInfo"]
        .as_array()
        .unwrap()
        .iter()
        .map(|info| {
            (
                &info["PodIPConfig"]["IPAddress"],
                &info["NetworkContainerPrimaryIPConfig"]["IPSubnet"]["PrefixLength"],
            )
        })
        .collect();
    assert_eq!(
        lengths,
        [(&json!("10.64.0.5"), &json!(16)), (&json!("fd64::5"), &json!(64))]
    );
    // What it had before is not taken from it.
    served
        .post("/network/requestipconfig", &one.to_string())
        .await
        .failure();
    assert_eq!(served.node.agent.holdings().len(), 1);
}

#[tokio::test]
async fn the_older_paths_serve_one_address() {
    let served = Served::with(&["10.64.0.5"]).await;
    let body = r#"{"DesiredIPAddress":"","PodInterfaceID":"c1","InfraContainerID":"c1","OrchestratorContext":{"PodName":"a","PodNamespace":"b"},"Ifname":"eth0"}"#;
    let document = served.post("/network/requestipconfig", body).await.document();
    assert_eq!(document["Response"]["ReturnCode"], 0);
    assert_eq!(document["PodIpInfo"]["PodIPConfig"]["IPAddress"], "10.64.0.5");
    let document = served.post("/network/releaseipconfig", body).await.document();
    assert_eq!(
        (&document["response"]["ReturnCode"], &document["ReturnCode"]),
        (&json!(0), &json!(0))
    );
    assert!(served.node.agent.holdings().is_empty());
}

#[tokio::test]
async fn an_empty_pool_is_answered_with_code_32_and_no_address() {
    for addresses in [&[][..], &["10.64.0.5"]] {
        let served = Served::with(addresses).await;
        if !addresses.is_empty() {
            served.request("c1").await.document();
        }
        let answer = served.request("c2").await;
        let (code, text) = answer.failure();
        assert_eq!((code, answer.code_header()), (32, "FailedToAllocateIpConfig"));
        assert!(!text.is_empty());
        assert_eq!(answer.document()["podIPInfo"], json!([]));
    }
}

#[tokio::test]
async fn a_release_frees_the_address_and_is_idempotent() {
    let served = Served::with(&["10.64.0.5"]).await;
    served.request("c1").await.document();
    for container in ["c1", "c1", "unknown"] {
        let answer = served.release(container).await;
        assert_eq!(answer.failure(), (0, String::new()));
        assert_eq!(answer.code_header(), "Success");
    }
    assert!(served.node.agent.holdings().is_empty());
    // The same key may come again.
    assert_eq!(served.request("c1").await.failure().0, 0);
}

#[tokio::test]
async fn a_desired_address_is_given_if_free_or_refused_with_code_32() {
    let served = Served::with(&["10.64.0.5", "10.64.0.6"]).await;
    let desired =
        |container: &str, address: &str| with(container, "desiredIPAddresses", json!([address]));
    let document = served
        .post("/network/requestipconfigs", &desired("c1", "10.64.0.6"))
        .await
        .document();
    assert_eq!(document["podIPInfo"][0]["PodIPConfig"]["IPAddress"], "10.64.0.6");
    for address in ["10.64.0.6", "10.99.0.1"] {
        let (code, text) = served
            .post("/network/requestipconfigs", &desired("c2", address))
            .await
            .failure();
        assert_eq!(code, 32);
        assert!(text.contains(address), "{text}");
    }
    let (code, text) = served
        .post("/network/requestipconfigs", &desired("c2", "nonsense"))
        .await
        .failure();
    assert_eq!(code, 23);
    assert!(text.contains("desiredIPAddresses"), "{text}");
    assert_eq!(served.node.agent.holdings().len(), 1);
}

#[tokio::test]
async fn what_a_request_is_about_must_be_said_and_is_checked() {
    let served = Served::with(&["10.64.0.5"]).await;
    let cases = [
        (
            with("c1", "orchestratorContext", json!(null)),
            33,
            "orchestratorContext",
        ),
        (
            with("c1", "orchestratorContext", json!("shop/web-1")),
            34,
            "orchestratorContext",
        ),
        (
            with("c1", "orchestratorContext", json!({"PodName": 7})),
            34,
            "orchestratorContext",
        ),
        (
            with("c1", "orchestratorContext", json!({"PodName": "../x"})),
            34,
            "orchestratorContext",
        ),
        (stock(""), 23, "podInterfaceID"),
        (stock("../c1"), 23, "podInterfaceID"),
        (stock(&"c".repeat(300)), 23, "podInterfaceID"),
        (with("c1", "ifname", json!("a/b")), 23, "ifname"),
        (
            with("c1", "BackendInterfaceExist", json!(true)),
            43,
            "BackendInterfaceExist",
        ),
    ];
    for path in ["/network/requestipconfigs", "/network/releaseipconfigs"] {
        for (body, expected, named) in &cases {
            let answer = served.post(path, body).await;
            let (code, text) = answer.failure();
            assert_eq!(code, *expected, "{path} {body}");
            assert!(text.contains(named), "{text}");
            assert_ne!(answer.code_header(), "Success");
            if path.contains("release") {
                assert_eq!(answer.document()["ReturnCode"], *expected);
            }
        }
    }
    assert!(served.node.agent.holdings().is_empty());
    // Without an interface it is the usual one.
    served
        .post("/network/requestipconfigs", &with("c1", "ifname", json!("")))
        .await
        .document();
    assert_eq!(served.node.agent.holdings().keys().next().unwrap().interface, "eth0");
}

#[tokio::test]
async fn an_undecodable_or_oversized_body_is_refused() {
    let served = Served::with(&["10.64.0.5"]).await;
    let deep = "[".repeat(100_000);
    for path in [
        "requestipconfigs",
        "releaseipconfigs",
        "requestipconfig",
        "releaseipconfig",
    ] {
        for body in ["", "{", "[]", "\"text\"", r#"{"podInterfaceID": 7}"#, deep.as_str()] {
            let answer = served.post(&format!("/network/{path}"), body).await;
            assert_eq!(answer.status, 400, "{path} {answer:?}");
            assert!(answer.body.starts_with("Failed to decode request: "), "{}", answer.body);
        }
        let huge = format!(r#"{{"podInterfaceID": "{}"}}"#, "c".repeat(2 << 20));
        let answer = served.post(&format!("/network/{path}"), &huge).await;
        assert!(answer.status == 413 || answer.status == 0, "{answer:?}");
    }
    assert_eq!(
        served
            .post("/network/requestipconfigs", "{\"podInterfaceID\": \"\u{0}\"}")
            .await
            .status,
        400
    );
    assert!(served.node.agent.holdings().is_empty());
}

#[tokio::test]
async fn what_is_no_http_or_no_path_of_ours_changes_nothing() {
    let served = Served::with(&["10.64.0.5"]).await;
    assert_eq!(served.post("/network/createnetwork", "{}").await.status, 404);
    assert_eq!(served.get("/network/requestipconfigs").await.status, 405);
    for nonsense in [&b"\x00\x01\x02\r\n\r\n"[..], b"POST\r\n\r\n", &[b'a'; 64 << 10]] {
        let answer = served.send(nonsense).await;
        assert!(!(200..300).contains(&answer.status), "{answer:?}");
    }
    // Said to be longer than it is: the connection ends, and the agent serves on.
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head =
        b"POST /network/requestipconfigs HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{";
    stream.write_all(head).await.unwrap();
    drop(stream);
    assert_eq!(served.request("c1").await.failure().0, 0);
}

#[tokio::test]
async fn callers_that_say_nothing_do_not_hold_up_the_others_for_ever() {
    let served = Served::with(&["10.64.0.5"]).await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(TcpStream::connect(served.address).await.unwrap());
    }
    assert_eq!(served.request("c1").await.failure().0, 0);
}

#[tokio::test]
async fn the_debug_paths_show_who_has_what() {
    let served = Served::with(&["10.64.0.5", "10.64.0.6"]).await;
    served.request("c1").await.document();
    let all = served.get("/debug/ipaddresses").await.document();
    assert_eq!(all["IPConfigurationStatus"].as_array().unwrap().len(), 2);
    let filter = r#"{"IPConfigStateFilter":["Assigned"]}"#;
    let head = format!(
        "GET /debug/ipaddresses HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{filter}",
        filter.len()
    );
    let assigned = served.send(head.as_bytes()).await.document();
    assert_eq!(served.post("/debug/ipaddresses", filter).await.document(), assigned);
    let assigned = assigned["IPConfigurationStatus"].as_array().unwrap();
    assert_eq!(assigned.len(), 1);
    let info = json!({"PodName": "web-1", "PodNamespace": "shop", "PodInfraContainerID": "c1", "PodInterfaceID": "c1"});
    assert_eq!(
        (&assigned[0]["PodInfo"], &assigned[0]["state"]),
        (&info, &json!("Assigned"))
    );
    let id = assigned[0]["ID"].as_str().unwrap();
    let context = served.get("/debug/podcontext").await.document();
    assert_eq!(context["PodContext"], json!({"c1": [id]}));
    let data = served.get("/debug/restdata").await.document();
    assert_eq!(
        data["HTTPRestServiceData"]["PodIPIDByPodInterfaceKey"],
        json!({"c1": [id]})
    );
    let states = data["HTTPRestServiceData"]["PodIPConfigState"].as_object().unwrap();
    assert_eq!((states.len(), &states[id]["IPAddress"]), (2, &assigned[0]["IPAddress"]));
}

#[tokio::test]
async fn only_loopback_addresses_are_listened_on() {
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:10090"] {
        let error = Listener::bind(open.parse().unwrap()).await.unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("--compat-listen {open}: ")) && error.contains("loopback"),
            "{error}"
        );
    }
    let taken = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let error = Listener::bind(taken.address()).await.unwrap_err().to_string();
    assert!(
        error.contains("--compat-listen") && error.contains("another process"),
        "{error}"
    );
}
