//! The plugins' conf.

use berth_testkit::fuzz::run_seeded;
use proptest::prelude::*;

use crate::conf;

/// Fields that mean something, with values that some field would take: random bytes hardly ever get
/// past the first brace.
fn value(depth: u32) -> BoxedStrategy<String> {
    let word = prop::sample::select(vec![
        "1.1.0",
        "0.3.1",
        "0.4.0",
        "9.9.9",
        "pods",
        "..",
        "/run/a.sock",
        "a.sock",
        "5s",
        "0s",
        "500ms",
        "60s",
        "61s",
        "x",
        "10.64.0.5",
        "10.64.0.5/16",
        "fd64::5/64",
        "10.0.0.0/8",
        "c1",
        "eth0",
        "a/b",
        "berth-ipam",
        "\\u0000",
        "ä",
    ]);
    let leaf = prop_oneof![
        6 => word.prop_map(|word| format!("\"{word}\"")),
        2 => any::<i64>().prop_map(|number| number.to_string()),
        1 => prop::sample::select(vec!["null", "true", "1e99", "1500", "68"]).prop_map(str::to_owned),
        1 => "[a-z\\\\\"{}\\[\\]]{0,3}",
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let field = prop::sample::select(vec![
        "cniVersion",
        "name",
        "type",
        "ipam",
        "socket",
        "queueDir",
        "timeout",
        "wait",
        "reconnect",
        "mtu",
        "routes",
        "dst",
        "gw",
        "runtimeConfig",
        "ips",
        "args",
        "cni",
        "prevResult",
        "interfaces",
        "address",
        "gateway",
        "interface",
        "mac",
        "sandbox",
        "dns",
        "cni.dev/valid-attachments",
        "cni.dev/attachments",
        "containerID",
        "ifname",
    ]);
    let member =
        (field, value(depth - 1)).prop_map(|(field, value)| format!("\"{field}\":{value}"));
    let object = prop::collection::vec(member, 0..6)
        .prop_map(|members| format!("{{{}}}", members.join(",")));
    let list = prop::collection::vec(value(depth - 1), 0..3)
        .prop_map(|values| format!("[{}]", values.join(",")));
    prop_oneof![3 => leaf, 5 => object, 3 => list].boxed()
}

/// Mostly valid where the reader stops at an error, so that it reads the rest.
fn conf_like() -> impl Strategy<Value = Vec<u8>> {
    let fields = [
        "ipam",
        "socket",
        "queueDir",
        "timeout",
        "wait",
        "mtu",
        "runtimeConfig",
        "args",
        "prevResult",
        "cni.dev/valid-attachments",
        "name",
        "cniVersion",
    ];
    let member = (prop::sample::select(fields.to_vec()), value(3))
        .prop_map(|(field, value)| format!("\"{field}\":{value}"));
    let members = prop::collection::vec(member, 0..5);
    let document = members.prop_map(|members| {
        let start = "\"cniVersion\":\"1.1.0\",\"name\":\"pods\"".to_owned();
        let members: Vec<String> = std::iter::once(start).chain(members).collect();
        format!("{{{}}}", members.join(",")).into_bytes()
    });
    prop_oneof![
        7 => document,
        2 => value(4).prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..64),
    ]
}

#[test]
fn a_conf_of_anything_is_read_or_refused_5_000_times() {
    run_seeded(5_000, conf_like(), conf::run);
}
