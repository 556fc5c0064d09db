//! Every environment and every conf that is wrong has its own code, and names what is wrong.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::call::{CNI, Call, IPAM, cni_conf, ipam_conf};

const BOTH: [&str; 2] = [IPAM, CNI];

fn conf_of(program: &str) -> Value {
    let directory = Path::new("/nonexistent");
    if program == IPAM {
        ipam_conf(directory)
    } else {
        cni_conf(directory)
    }
}

#[test]
fn a_variable_that_is_missing_or_wrong_is_error_4_and_named() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "ADD",
            "CNI_CONTAINERID",
            &["", "../../etc/passwd", ".hidden", "a b", "a:b", "a/b", "-a", "ä"],
        ),
        (
            "ADD",
            "CNI_IFNAME",
            &["", "a/b", "a:b", "a b", "a\tb", ".", "..", "sixteen-letters!"],
        ),
        ("ADD", "CNI_NETNS", &[""]),
        (
            "ADD",
            "CNI_ARGS",
            &["K8S_POD_NAME", "K8S_POD_NAME=a/b", "K8S_POD_NAMESPACE=..;X=1"],
        ),
        ("CHECK", "CNI_CONTAINERID", &["", "a/b"]),
        ("CHECK", "CNI_IFNAME", &["", "a/b"]),
        ("CHECK", "CNI_NETNS", &[""]),
        ("DEL", "CNI_CONTAINERID", &["", "a/b", "..", "a\nb"]),
        ("DEL", "CNI_IFNAME", &["", "a/b", "../../x"]),
        ("GC", "CNI_PATH", &[""]),
        ("STATUS", "CNI_PATH", &[""]),
        ("ADD", "CNI_COMMAND", &["", "add", "REMOVE", "ADD "]),
    ];
    for program in BOTH {
        for (command, variable, values) in cases {
            for value in *values {
                let done = Call::new(program, command).set(variable, value).run(&conf_of(program));
                let (code, text) = done.failure();
                assert_eq!(code, 4, "{command} {variable}={value:?}: {text}");
                assert!(text.contains(variable), "{text}");
            }
            let (code, text) = Call::new(program, command)
                .unset(variable)
                .run(&conf_of(program))
                .failure();
            // Without CNI_ARGS nothing is missing.
            assert!(
                code == 4 && text.contains(variable) || *variable == "CNI_ARGS",
                "{text}"
            );
        }
    }
}

#[test]
fn a_plugin_started_by_hand_names_cni_command_at_once() {
    for program in BOTH {
        let mut child = Command::new(program)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Kept open, as a terminal is.
        let stdin = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(stdin);
        assert!(String::from_utf8(output.stdout).unwrap().contains("CNI_COMMAND"));
        assert!(!output.status.success());
    }
}

#[test]
fn a_conf_that_can_not_be_decoded_is_error_6() {
    let huge = format!("{{\"a\": \"{}\"}}", "x".repeat(1 << 20));
    let deep = "[".repeat(100_000);
    for program in BOTH {
        for text in [
            &b""[..],
            b"{",
            b"[]",
            b"7",
            b"\xff\xfe{}",
            b"{} {}",
            huge.as_bytes(),
            deep.as_bytes(),
        ] {
            assert_eq!(
                Call::new(program, "ADD").run_bytes(text).code(),
                6,
                "{:?}",
                &text[..text.len().min(9)]
            );
        }
    }
}

#[test]
fn a_conf_that_can_not_be_read_is_error_5() {
    for program in BOTH {
        assert_eq!(Call::new(program, "ADD").run_file(Path::new("/")).code(), 5);
    }
}

#[test]
fn an_unsupported_version_or_command_is_error_1() {
    for program in BOTH {
        for version in [json!("0.1.0"), json!("0.2.0"), json!("2.0.0"), json!(""), json!(null)] {
            let mut conf = conf_of(program);
            conf["cniVersion"] = version;
            assert_eq!(Call::new(program, "ADD").run(&conf).code(), 1, "{conf}");
        }
        for (command, version) in [("CHECK", "0.3.1"), ("GC", "1.0.0"), ("STATUS", "0.4.0")] {
            let mut conf = conf_of(program);
            conf["cniVersion"] = json!(version);
            let done = Call::new(program, command).run(&conf);
            let (code, text) = done.failure();
            assert!(code == 1 && text.contains(command), "{text}");
            let document: Value = serde_json::from_str(&done.stdout).unwrap();
            assert_eq!(document["cniVersion"], version);
        }
    }
}

#[test]
fn a_field_that_is_wrong_is_error_7_and_named() {
    let with = |mut conf: Value, path: &str, value: Value| {
        *conf.pointer_mut(path).unwrap() = value;
        conf
    };
    let (ipam, cni) = (conf_of(IPAM), conf_of(CNI));
    let cases = [
        (IPAM, with(ipam.clone(), "/name", json!(null)), "name"),
        (IPAM, with(ipam.clone(), "/name", json!("../etc")), "name"),
        (IPAM, with(ipam.clone(), "/ipam", json!("berth-ipam")), "ipam"),
        (
            IPAM,
            with(ipam.clone(), "/ipam/socket", json!("agent.sock")),
            "ipam.socket",
        ),
        (
            IPAM,
            with(ipam.clone(), "/ipam/queueDir", json!(["/x"])),
            "ipam.queueDir",
        ),
        (IPAM, with(ipam.clone(), "/ipam/timeout", json!("soon")), "ipam.timeout"),
        (CNI, with(cni.clone(), "/name", json!("")), "name"),
        (CNI, with(cni.clone(), "/socket", json!("agent.sock")), "socket"),
        (CNI, with(cni.clone(), "/timeout", json!("0ms")), "timeout"),
    ];
    for (program, conf, field) in cases {
        let (code, text) = Call::new(program, "ADD").run(&conf).failure();
        assert!(code == 7 && text.starts_with(field), "{text}");
    }
    let mut conf = cni;
    conf["mtu"] = json!("big");
    assert_eq!(Call::new(CNI, "ADD").run(&conf).code(), 7);
}

#[test]
fn the_main_plugin_refuses_a_conf_with_another_ipam_plugin() {
    let mut conf = conf_of(CNI);
    conf["ipam"] = json!({"type": "host-local"});
    let (code, text) = Call::new(CNI, "ADD").run(&conf).failure();
    assert!(
        code == 2 && text.contains("ipam") && text.contains("host-local"),
        "{text}"
    );
}

#[test]
fn a_check_without_a_result_and_a_gc_without_a_list_are_error_7() {
    for program in BOTH {
        let (code, text) = Call::new(program, "CHECK").run(&conf_of(program)).failure();
        assert!(code == 7 && text.contains("prevResult"), "{text}");
        // An empty list would detach everything.
        let (code, text) = Call::new(program, "GC").run(&conf_of(program)).failure();
        assert!(code == 7 && text.contains("cni.dev/valid-attachments"), "{text}");
    }
}

#[test]
fn a_network_namespace_that_is_none_is_error_4() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let paths = ["/nonexistent", file.path().to_str().unwrap(), "/", "/proc/self/ns/net"];
    for path in paths {
        let (code, text) = Call::new(CNI, "ADD")
            .set("CNI_NETNS", path)
            .run(&conf_of(CNI))
            .failure();
        assert!(code == 4 && text.contains("CNI_NETNS"), "{text}");
    }
}

#[test]
fn an_answer_that_can_not_be_written_is_no_success() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = Call::new(IPAM, "VERSION")
        .command()
        .stdin(Stdio::null())
        .stdout(full)
        .status()
        .unwrap();
    assert!(!status.success());
}
