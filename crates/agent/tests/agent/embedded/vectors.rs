//! The shared vectors, through an agent's own step.

use berth_agent::Agent;
use berth_api::{NodeNetworkConfig, ObservedPod};
use serde_json::{Value, json};

use super::scene::BOOT;

fn agent(directory: &std::path::Path) -> Agent {
    let storage = berth_agent::Storage {
        node: "n1".to_owned(),
        state_dir: directory.join("state"),
        mark: directory.join("mark"),
        boot: BOOT.to_owned(),
        clock: berth_agent::Clock::Boot,
        rest: std::time::Duration::from_secs(30),
    };
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = berth_agent::AgentMetrics::register(&mut registry);
    Agent::open(&storage, metrics.of("n1")).unwrap().0
}

fn nnc(count: u64, requested: u64, not_in_use: u64, scaler: Value) -> NodeNetworkConfig {
    let name = |n: u64| uuid::Uuid::from_u128(u128::from(n) + 1).to_string();
    let listed: Vec<Value> = (0..count)
        .map(|n| json!({"name": name(n), "ip": format!("10.64.{}.{}", n / 250, n % 250)}))
        .collect();
    let names: Vec<String> = (0..not_in_use).map(name).collect();
    serde_json::from_value(json!({
        "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
        "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "5"},
        "spec": {"requestedIPCount": requested, "ipsNotInUse": names},
        "status": {"scaler": scaler, "networkContainers": [{
            "id": "c1", "primaryIP": "10.65.0.1", "subnetName": "pods", "subnetAddressSpace": "10.64.0.0/15", "ipAssignments": listed,
        }]},
    }))
    .unwrap()
}

fn pods(phases: &[&str]) -> Vec<ObservedPod> {
    let pod = |(n, phase): (usize, &&str)| {
        let pod = json!({"metadata": {"name": format!("p{n}"), "namespace": "default"}, "status": {"phase": phase}});
        serde_json::from_value(pod).unwrap()
    };
    phases.iter().enumerate().map(pod).collect()
}

fn vectors(name: &str) -> Vec<Value> {
    let all: Value =
        serde_json::from_str(include_str!("../../../../addr/tests/vectors/pool-scaling.json"))
            .unwrap();
    let vectors = all[name].as_array().unwrap().clone();
    assert!(!vectors.is_empty());
    vectors
}

fn usual() -> Value {
    json!({"batchSize": 16, "requestThresholdPercent": 50, "releaseThresholdPercent": 150, "maxIPCount": 250})
}

#[test]
fn every_reconcile_vector_is_what_an_agent_writes() {
    for vector in vectors("reconcile") {
        let number = |key: &str| vector[key].as_u64().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let agent = agent(directory.path());
        let pending = number("pendingRelease");
        // What is pending is delivered beside what is asked for.
        agent.apply_nnc(&nnc(
            number("requested") + pending,
            number("requested"),
            pending,
            usual(),
        ));
        agent.set_pods(&pods(&vec!["Running"; usize::try_from(number("demand")).unwrap()]));
        let request = agent.next_request();
        let (requested, names) = request.map_or((number("requested"), pending), |request| {
            (
                u64::try_from(request.requested).unwrap(),
                request.not_in_use.len() as u64,
            )
        });
        assert_eq!(
            (requested, names),
            (number("wantRequested"), number("wantNotInUse")),
            "{vector}"
        );
    }
}

#[test]
fn every_target_vector_is_what_an_agent_asks_for() {
    for vector in vectors("target") {
        let number = |key: &str| vector[key].as_i64().unwrap();
        let buffer = vector["buffer"].as_f64().unwrap();
        #[allow(clippy::cast_possible_truncation, reason = "0 to 100")]
        let percent = (buffer * 100.0).round() as i64;
        let scaler = json!({"batchSize": number("batch"), "requestThresholdPercent": percent, "maxIPCount": number("max")});
        let directory = tempfile::tempdir().unwrap();
        let agent = agent(directory.path());
        let exhausted = vector["exhausted"].as_bool().unwrap_or(false);
        let state = json!({"metadata": {"name": "pods"}, "status": {"exhausted": exhausted, "timestamp": ""}});
        agent.set_states(&[serde_json::from_value(state).unwrap()]);
        agent.apply_nnc(&nnc(0, 0, 0, scaler));
        agent.set_pods(&pods(&vec!["Pending"; usize::try_from(number("demand")).unwrap()]));
        assert_eq!(agent.next_request().unwrap().requested, number("want"), "{vector}");
    }
}

#[test]
fn every_demand_vector_is_what_an_agent_counts() {
    for vector in vectors("demand") {
        let phases: Vec<&str> = vector["phases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|phase| phase.as_str().unwrap())
            .collect();
        let directory = tempfile::tempdir().unwrap();
        let agent = agent(directory.path());
        agent.apply_nnc(&nnc(0, 0, 0, usual()));
        assert_eq!(
            agent.next_request(),
            None,
            "nothing is asked for before the pods are known"
        );
        agent.set_pods(&pods(&phases));
        agent.next_request().unwrap();
        assert_eq!(agent.status().demand, vector["want"].as_u64().unwrap(), "{vector}");
    }
}

#[test]
fn nothing_is_given_back_before_the_pods_are_known() {
    let directory = tempfile::tempdir().unwrap();
    let agent = agent(directory.path());
    agent.apply_nnc(&nnc(48, 48, 0, usual()));
    assert_eq!(agent.next_request(), None);
    agent.set_pods(&pods(&["Running"; 25]));
    assert_eq!(agent.next_request(), None, "48 are what 25 pods need");
    assert_eq!(agent.status().pool.free, 48);
}

#[test]
fn an_nnc_with_a_lower_version_number_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let agent = agent(directory.path());
    let of = |version: &str, count: u64| {
        let mut nnc = nnc(count, 16, 0, usual());
        nnc.metadata.resource_version = Some(version.to_owned());
        nnc
    };
    agent.apply_nnc(&of("9", 4));
    agent.apply_nnc(&of("10", 8));
    assert_eq!(agent.status().pool.free, 8);
    agent.apply_nnc(&of("9", 4));
    assert_eq!(agent.status().pool.free, 8);
}
