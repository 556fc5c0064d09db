//! The agent's calls and its journal.

use berth_testkit::fuzz::run_seeded;
use proptest::prelude::*;

use crate::{agent_api, agent_journal};

/// Calls that are nearly valid, as random bytes hardly ever get past the first brace.
fn calls() -> impl Strategy<Value = Vec<u8>> {
    let container = prop::sample::select(vec!["a", "b", "../c", "", "a b", "é", "a:b"]);
    let interface = prop::sample::select(vec!["eth0", "eth1", "", "sixteen-letters!", "a/b"]);
    let number =
        prop::sample::select(vec!["0", "1", "5", "18446744073709551615", "-1", "1e9", "\"x\""]);
    let list = prop::sample::select(vec![
        "[]",
        "[\"10.64.0.1\"]",
        "[\"10.64.0.1\",\"10.64.0.1\"]",
        "[\"::1\"]",
        "[7]",
        "{}",
    ]);
    let network = prop::sample::select(vec!["pods", "", "other", "a b", "-"]);
    let call = (0..4_u8, container, interface, number, list, network);
    let line = call.prop_map(|(kind, container, interface, number, list, network)| {
        let attachment = format!("{{\"container\":\"{container}\",\"interface\":\"{interface}\"}}");
        let kind = char::from(b'0' + kind);
        format!(
            "{kind}{{\"attachment\":{attachment},\"network\":\"{network}\",\"started\":{number},\"desired\":{list},\"addresses\":{list},\"valid\":[{attachment}]}}"
        )
        .into_bytes()
    });
    let lines = prop::collection::vec(line, 0..12).prop_map(|lines| lines.join(&b'\n'));
    prop_oneof![9 => lines, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

fn lines() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("berth-journal-1 boot 0000000000000001\n".to_owned()),
        Just("5 released 4 c1 eth0\n".to_owned()),
        Just("5 assigned 4 c1 eth0 pods - - - a=10.0.0.1\n".to_owned()),
        Just("5 releasing a,b\n".to_owned()),
        ".{0,20}",
    ];
    let sum = prop::sample::select(vec!["00000000 00021 ", "ffffffff 00005 ", "", "0 0 "]);
    let line = (sum, piece).prop_map(|(sum, piece)| format!("{sum}{piece}").into_bytes());
    let text = prop::collection::vec(line, 0..6).prop_map(|lines| lines.concat());
    let anything = prop::collection::vec(any::<u8>(), 0..300);
    (any::<u8>(), prop_oneof![text, anything]).prop_map(|(how, mut bytes)| {
        bytes.insert(0, how);
        bytes
    })
}

#[test]
fn calls_survive_1_000_inputs() {
    run_seeded(1_000, calls(), agent_api::run);
}

#[test]
fn journals_survive_2_000_inputs() {
    run_seeded(2_000, lines(), agent_journal::run);
}
