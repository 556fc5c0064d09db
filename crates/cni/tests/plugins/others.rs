//! CHECK, GC, STATUS and VERSION of `berth-ipam`.

use serde_json::{Value, json};

use crate::call::{CNI, Call, IPAM, cni_conf, ipam_conf};
use crate::server::{Manner, Server};

fn status(ready: bool, message: &str) -> Value {
    json!({
        "node": "n1", "ready": ready, "message": message, "demand": 3, "requested": 16, "exhausted": false,
        "pool": {"free": 0, "coolingDown": 0, "assigned": 16, "releasing": 0, "quarantined": 0},
    })
}

#[test]
fn a_check_asks_for_the_addresses_of_the_result() {
    let directory = tempfile::tempdir().unwrap();
    let no = json!({"reason": "Mismatch", "message": "10.64.0.5 is another's"});
    let manners = [Manner::answers(200, &json!({"released": 0})), Manner::answers(409, &no)];
    let server = Server::start(directory.path(), &manners);
    let mut conf = ipam_conf(directory.path());
    conf["prevResult"] = json!({"cniVersion": "1.1.0", "ips": [{"address": "10.64.0.5/16"}, {"address": "fd64::5/64"}]});
    Call::new(IPAM, "CHECK").run(&conf).silent();
    let (code, text) = Call::new(IPAM, "CHECK").run(&conf).failure();
    assert!(code == 101 && text.contains("another's"), "{text}");
    let asked = server.asked();
    assert_eq!(asked[0].line, "POST /v1/check HTTP/1.1");
    let expected = json!({
        "attachment": {"container": "c1", "interface": "eth0"}, "addresses": ["10.64.0.5", "fd64::5"],
    });
    assert_eq!(asked[0].body, expected);
    drop(server);
    assert_eq!(Call::new(IPAM, "CHECK").run(&conf).code(), 11);
}

#[test]
fn a_gc_says_what_is_valid_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[Manner::answers(200, &json!({"released": 2}))]);
    let mut conf = ipam_conf(directory.path());
    conf["cni.dev/valid-attachments"] = json!([{"containerID": "c1", "ifname": "eth0"}]);
    let gc = || {
        Call::new(IPAM, "GC")
            .unset("CNI_CONTAINERID")
            .unset("CNI_IFNAME")
            .unset("CNI_NETNS")
    };
    gc().run(&conf).silent();
    conf["cni.dev/valid-attachments"] = json!([]);
    gc().run(&conf).silent();
    let asked = server.asked();
    assert_eq!(asked[0].line, "POST /v1/gc HTTP/1.1");
    assert_eq!(asked[0].body["network"], "pods");
    assert_eq!(
        asked[0].body["valid"],
        json!([{"container": "c1", "interface": "eth0"}])
    );
    assert!(asked[0].body["started"].as_u64().unwrap() > 0);
    assert_eq!(asked[1].body["valid"], json!([]));
    drop(server);
    // To be called again: by then other attachments may be valid, so nothing is queued.
    assert_eq!(gc().run(&conf).code(), 11);
    assert!(!directory.path().join("queue").exists());
}

#[test]
fn a_gc_does_without_what_only_others_need() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path(), &[Manner::answers(200, &json!({"released": 0}))]);
    for program in [IPAM, CNI] {
        let mut conf = if program == IPAM {
            ipam_conf(directory.path())
        } else {
            cni_conf(directory.path())
        };
        conf["cni.dev/valid-attachments"] = json!([]);
        conf["runtimeConfig"] = json!({"ips": 7});
        conf["mtu"] = json!("1450");
        Call::new(program, "GC").run(&conf).silent();
    }
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_status_tells_the_truth() {
    let cases = [
        (Some(Manner::answers(200, &status(true, ""))), None),
        (
            Some(Manner::answers(503, &status(false, "all 16 addresses are taken"))),
            Some("all 16 addresses are taken"),
        ),
        (
            Some(Manner::answers(200, &status(false, "no container yet"))),
            Some("no container yet"),
        ),
        (
            Some(Manner::answers(200, &status(false, ""))),
            Some("can't serve an ADD"),
        ),
        (
            Some(Manner::answers(
                503,
                &json!({"reason": "Forbidden", "message": "too much"}),
            )),
            Some("too much"),
        ),
        (Some(Manner::Answers(500, "oops".to_owned())), Some("500")),
        (Some(Manner::Closes), Some("does not answer")),
        (None, Some("does not answer")),
    ];
    for program in [IPAM, CNI] {
        for (manner, expected) in cases.clone() {
            let directory = tempfile::tempdir().unwrap();
            let server = manner.map(|manner| Server::start(directory.path(), &[manner]));
            let conf = if program == IPAM {
                ipam_conf(directory.path())
            } else {
                cni_conf(directory.path())
            };
            let done = Call::new(program, "STATUS").unset("CNI_CONTAINERID").run(&conf);
            match expected {
                None => done.silent(),
                Some(expected) => {
                    let (code, text) = done.failure();
                    assert!(code == 50 && text.contains(expected), "{text}");
                }
            }
            if let Some(server) = server {
                assert_eq!(server.asked()[0].line, "GET /v1/status HTTP/1.1");
            }
        }
    }
}

#[test]
fn the_versions_are_told_to_anybody() {
    let supported = json!(["0.3.1", "0.4.0", "1.0.0", "1.1.0"]);
    for program in [IPAM, CNI] {
        for (conf, version) in [
            ("{\"cniVersion\": \"1.0.0\"}", "1.0.0"),
            ("{\"cniVersion\": \"9.0.0\"}", "1.1.0"),
            ("", "1.1.0"),
            ("nonsense", "1.1.0"),
        ] {
            let answer = Call::new(program, "VERSION").run_bytes(conf.as_bytes()).result();
            assert_eq!(answer, json!({"cniVersion": version, "supportedVersions": supported}));
        }
    }
}
