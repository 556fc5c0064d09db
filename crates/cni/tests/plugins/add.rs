//! ADD of `berth-ipam`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::call::{Call, IPAM, ipam_conf};
use crate::server::{Manner, Server};

fn granted() -> Value {
    json!({"addresses": [
        {"address": "10.64.0.5", "length": 16, "gateway": "10.64.0.1"},
        {"address": "fd64::5", "length": 64},
    ]})
}

#[test]
fn the_result_has_the_shape_of_the_version_and_no_interfaces() {
    let directory = tempfile::tempdir().unwrap();
    let _server = Server::start(directory.path(), &[Manner::answers(200, &granted())]);
    for version in ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let mut conf = ipam_conf(directory.path());
        conf["cniVersion"] = json!(version);
        conf["ipam"]["routes"] = json!([{"dst": "0.0.0.0/0"}]);
        let mut expected = json!({
            "cniVersion": if version == "0.3.0" { "0.3.1" } else { version },
            "ips": [{"address": "10.64.0.5/16", "gateway": "10.64.0.1"}, {"address": "fd64::5/64"}],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dns": {},
        });
        if version < "1.0.0" {
            expected["ips"][0]["version"] = json!("4");
            expected["ips"][1]["version"] = json!("6");
        }
        assert_eq!(Call::new(IPAM, "ADD").run(&conf).result(), expected, "{version}");
    }
}

#[test]
fn one_question_on_one_connection_says_all_that_the_agent_needs() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[Manner::answers(200, &granted())]);
    let mut conf = ipam_conf(directory.path());
    conf["ipam"]["wait"] = json!("1500ms");
    conf["runtimeConfig"] = json!({"ips": ["10.64.0.5/16"]});
    let call = Call::new(IPAM, "ADD")
        .set("CNI_ARGS", "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1;K8S_POD_UID=7d44");
    call.run(&conf).result();
    call.run(&conf).result();
    let asked = server.asked();
    assert_eq!((asked.len(), asked[0].line.as_str()), (2, "POST /v1/request HTTP/1.1"));
    let started: Vec<u64> = asked
        .iter()
        .map(|asked| asked.body["started"].as_u64().unwrap())
        .collect();
    assert!(0 < started[0] && started[0] < started[1], "{started:?}");
    let mut body = asked[0].body.clone();
    body.as_object_mut().unwrap().remove("started");
    let expected = json!({
        "attachment": {"container": "c1", "interface": "eth0"},
        "network": "pods",
        "pod": {"namespace": "shop", "name": "web-1", "uid": "7d44"},
        "desired": ["10.64.0.5"],
        "waitMs": 1500,
    });
    assert_eq!(body, expected);
}

#[test]
fn an_agent_that_refuses_is_quoted_with_the_code_that_fits() {
    let cases = [
        (503, "PoolEmpty", 11),
        (400, "Invalid", 100),
        (403, "Forbidden", 100),
        (404, "NotFound", 100),
        (409, "Mismatch", 101),
        (409, "Detached", 102),
        (409, "Taken", 103),
        (507, "Storage", 104),
    ];
    for (status, reason, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        let body = json!({"reason": reason, "message": "this is why"});
        let _server = Server::start(directory.path(), &[Manner::answers(status, &body)]);
        let (code, text) = Call::new(IPAM, "ADD").run(&ipam_conf(directory.path())).failure();
        assert_eq!(code, expected, "{reason}");
        assert!(text.contains("this is why"), "{text}");
    }
}

#[test]
fn a_refusal_in_unknown_words_is_a_refusal() {
    for (status, body) in [
        (500, "oops"),
        (418, "{\"reason\": \"Teapot\", \"message\": \"x\"}"),
        (301, ""),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let _server = Server::start(directory.path(), &[Manner::Answers(status, body.to_owned())]);
        let (code, text) = Call::new(IPAM, "ADD").run(&ipam_conf(directory.path())).failure();
        assert!(code == 100 && text.contains(&status.to_string()), "{text}");
    }
}

#[test]
fn success_without_an_address_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let _server =
        Server::start(directory.path(), &[Manner::answers(200, &json!({"addresses": []}))]);
    assert_eq!(Call::new(IPAM, "ADD").run(&ipam_conf(directory.path())).code(), 11);
}

#[test]
fn waiting_for_an_address_is_not_taken_for_silence() {
    let directory = tempfile::tempdir().unwrap();
    let later = Manner::AnswersLater(Duration::from_millis(600), 200, granted().to_string());
    let _server = Server::start(directory.path(), &[later]);
    let mut conf = ipam_conf(directory.path());
    conf["ipam"]["timeout"] = json!("200ms");
    assert_eq!(Call::new(IPAM, "ADD").run(&conf).code(), 11);
    conf["ipam"]["wait"] = json!("60s");
    Call::new(IPAM, "ADD").run(&conf).result();
}

#[test]
fn an_agent_that_is_being_updated_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut conf = ipam_conf(directory.path());
    conf["ipam"]["reconnect"] = json!("60s");
    let call = Call::new(IPAM, "ADD");
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| call.run(&conf).result());
        // The old one ends with the call in its hands, and the new one answers.
        let old = Server::start(directory.path(), &[Manner::Closes]);
        while old.asked().is_empty() {
            std::thread::yield_now();
        }
        drop(old);
        let new = Server::start(directory.path(), &[Manner::answers(200, &granted())]);
        assert_eq!(adding.join().unwrap()["ips"][0]["address"], "10.64.0.5/16");
        assert_eq!(new.asked().len(), 1);
    });
    // A silent one is not waited for any longer than without it.
    let silent = Server::start(directory.path(), &[Manner::Silent]);
    conf["ipam"]["timeout"] = json!("200ms");
    assert_eq!(call.run(&conf).code(), 11);
    assert_eq!(silent.asked().len(), 1);
}

#[test]
fn an_add_that_gets_no_answer_asks_to_retry_and_queues_nothing() {
    for manner in [
        None,
        Some(Manner::Silent),
        Some(Manner::Closes),
        Some(Manner::Says(b"HTTP/1.1 200 OK\r\n".to_vec())),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let _server = manner.map(|manner| Server::start(directory.path(), &[manner]));
        let mut conf = ipam_conf(directory.path());
        conf["ipam"]["timeout"] = json!("300ms");
        let (code, text) = Call::new(IPAM, "ADD").run(&conf).failure();
        assert!(code == 11 && text.contains("agent.sock"), "{text}");
        assert!(!directory.path().join("queue").exists());
    }
}
