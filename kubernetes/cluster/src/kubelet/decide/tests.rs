use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Time {
    Time(jiff::Timestamp::from_second(second).unwrap())
}

fn pod(mut spec: Value) -> Pod {
    if spec.get("nodeName").is_none() {
        spec["nodeName"] = "berth-node-1".into();
    }
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c", "image": "x"}]);
    }
    let pod =
        json!({"metadata": {"namespace": "default", "name": "a", "generation": 1}, "spec": spec});
    serde_json::from_value(pod).unwrap()
}

/// Without a network.
fn act(pod: &Pod) -> Option<Action> {
    act_on(pod, &Attachment::Unneeded)
}

fn act_on(pod: &Pod, attachment: &Attachment) -> Option<Action> {
    decide(pod, Fleet::new(2).unwrap(), true, attachment, &at(100))
}

const UNKNOWN: Attachment = Attachment::Unknown { tried: false };

fn attached(ips: &[&str]) -> Attachment {
    Attachment::Attached(ips.iter().map(|ip| ip.parse().unwrap()).collect())
}

/// The pod once the node has reported on it.
fn reported(pod: Pod, second: i64) -> Pod {
    reported_on(pod, &Attachment::Unneeded, second)
}

fn reported_on(mut pod: Pod, attachment: &Attachment, second: i64) -> Pod {
    match decide(&pod, Fleet::new(2).unwrap(), true, attachment, &at(second)) {
        Some(Action::Report(status)) => pod.status = Some(*status),
        other => panic!("{other:?}"),
    }
    pod
}

fn condition(pod: &Pod, type_: &str) -> (String, Option<String>) {
    let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    let found = conditions.iter().find(|c| c.type_ == type_).unwrap();
    (found.status.clone(), found.reason.clone())
}

fn with_addresses(mut pod: Pod, ips: &[&str]) -> Pod {
    let ips: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let status = pod.status.get_or_insert_default();
    status.pod_ips = Some(serde_json::from_value(json!(ips)).unwrap());
    pod
}

#[test]
fn a_pod_without_an_address_waits_and_says_what_for() {
    let pod = reported(pod(json!({})), 100);
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Pending"));
    assert_eq!(status.host_ip.as_deref(), Some("198.18.0.1"));
    assert_eq!(status.pod_ip, None);
    assert!(status.message.as_ref().unwrap().contains("waits for an address"));
    let (ready, reason) = condition(&pod, "PodReadyToStartContainers");
    assert_eq!(
        (ready.as_str(), reason.as_deref()),
        ("False", Some("WaitingForAddress"))
    );
    let state = &serde_json::to_value(status).unwrap()["containerStatuses"][0]["state"];
    assert_eq!(state["waiting"]["reason"], "ContainerCreating");
    assert_eq!(act(&pod), None, "said once");
}

#[test]
fn a_pod_runs_and_is_ready_once_it_has_an_address() {
    let pod = reported(
        with_addresses(reported(pod(json!({})), 100), &["10.64.0.9", "fd64::9"]),
        200,
    );
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.pod_ip.as_deref(), Some("10.64.0.9"));
    assert_eq!(status.pod_ips.as_ref().unwrap().len(), 2);
    assert_eq!(status.start_time, Some(at(100)));
    assert_eq!(status.message, None);
    for type_ in [
        "Ready",
        "ContainersReady",
        "PodReadyToStartContainers",
        "Initialized",
        "PodScheduled",
    ] {
        assert_eq!(condition(&pod, type_).0, "True", "{type_}");
    }
    let container = &status.container_statuses.as_ref().unwrap()[0];
    assert!(container.ready && container.started == Some(true));
    assert_eq!(act(&pod), None);
}

#[test]
fn a_pod_on_the_hosts_network_needs_no_address_of_its_own() {
    let pod = reported(pod(json!({"hostNetwork": true})), 100);
    let status = pod.status.as_ref().unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.pod_ip.as_deref(), Some("198.18.0.1"));
}

#[test]
fn init_containers_are_done_and_sidecars_run_once_the_pod_does() {
    let spec = json!({"initContainers": [{"name": "i", "image": "x"}, {"name": "s", "image": "x", "restartPolicy": "Always"}]});
    let waiting = reported(pod(spec), 100);
    assert_eq!(condition(&waiting, "Initialized").0, "False");
    let running = reported(with_addresses(waiting, &["10.64.0.9"]), 200);
    let status = serde_json::to_value(running.status.as_ref().unwrap()).unwrap();
    let init = &status["initContainerStatuses"];
    assert_eq!(init[0]["state"]["terminated"]["reason"], "Completed");
    assert!(init[1]["state"]["running"].is_object());
}

#[test]
fn a_readiness_gate_holds_back_ready_and_nothing_else() {
    let gated = pod(json!({"readinessGates": [{"conditionType": "mine"}]}));
    let mut gated = reported(with_addresses(gated, &["10.64.0.9"]), 100);
    assert_eq!(condition(&gated, "Ready").0, "False");
    assert_eq!(condition(&gated, "ContainersReady").0, "True");
    let mine = json!({"type": "mine", "status": "True"});
    let conditions = gated.status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions.push(serde_json::from_value(mine).unwrap());
    let gated = reported(gated, 200);
    assert_eq!(condition(&gated, "Ready").0, "True");
    assert_eq!(condition(&gated, "mine").0, "True", "conditions of others stay");
}

#[test]
fn a_deleted_pod_is_finished_at_once_and_only_once() {
    let mut deleted = pod(json!({}));
    deleted.metadata.deletion_timestamp = Some(at(50));
    deleted.metadata.deletion_grace_period_seconds = Some(30);
    assert_eq!(act(&deleted), Some(Action::Finish));
    deleted.metadata.deletion_grace_period_seconds = Some(0);
    assert_eq!(act(&deleted), None);
}

#[test]
fn a_pod_whose_node_was_deleted_is_finished() {
    let fleet = Fleet::new(2).unwrap();
    let action = decide(&pod(json!({})), fleet, false, &Attachment::Unneeded, &at(100));
    assert_eq!(action, Some(Action::Finish));
}

#[test]
fn finished_pods_and_pods_of_other_nodes_are_left_alone() {
    assert_eq!(act(&pod(json!({"nodeName": "worker-1"}))), None);
    assert_eq!(act(&pod(json!({"nodeName": "berth-node-3"}))), None);
    let mut done = pod(json!({}));
    done.status.get_or_insert_default().phase = Some("Succeeded".into());
    assert_eq!(act(&done), None);
}

#[test]
fn a_pod_runs_with_its_addresses_once_it_is_attached() {
    let waiting = reported_on(pod(json!({})), &UNKNOWN, 100);
    let message = waiting.status.as_ref().unwrap().message.clone().unwrap();
    assert!(message.contains("its node asks for one"), "{message}");
    assert_eq!(act_on(&waiting, &UNKNOWN), Some(Action::Attach));
    let has = attached(&["10.64.0.9", "fd64::9"]);
    let running = reported_on(waiting, &has, 200);
    let status = running.status.as_ref().unwrap();
    assert_eq!(
        (status.phase.as_deref(), status.pod_ip.as_deref(), &status.message),
        (Some("Running"), Some("10.64.0.9"), &None)
    );
    assert_eq!(status.pod_ips.as_ref().unwrap()[1].ip, "fd64::9");
    assert_eq!(act_on(&running, &has), None);
}

#[test]
fn a_pod_attached_again_reports_only_a_changed_address() {
    let running = reported_on(pod(json!({})), &attached(&["10.64.0.9"]), 100);
    assert_eq!(act_on(&running, &UNKNOWN), Some(Action::Attach));
    assert_eq!(act_on(&running, &attached(&["10.64.0.9"])), None);
    let moved = reported_on(running, &attached(&["10.64.0.5"]), 200);
    assert_eq!(moved.status.unwrap().pod_ip.as_deref(), Some("10.64.0.5"));
}

#[test]
fn the_network_knows_better_than_what_somebody_wrote() {
    let has = attached(&["10.64.0.9"]);
    let running = reported_on(pod(json!({})), &has, 100);
    let forged = with_addresses(running, &["192.0.2.1"]);
    let again = reported_on(forged, &has, 200);
    assert_eq!(again.status.unwrap().pod_ip.as_deref(), Some("10.64.0.9"));
}

#[test]
fn a_deleted_or_finished_pod_is_detached_before_anything_else() {
    let mut deleted = pod(json!({}));
    deleted.metadata.deletion_timestamp = Some(at(50));
    deleted.metadata.deletion_grace_period_seconds = Some(30);
    let mut held = deleted.clone();
    held.metadata.deletion_grace_period_seconds = Some(0);
    let mut done = pod(json!({}));
    done.status.get_or_insert_default().phase = Some("Succeeded".into());
    let mut elsewhere = deleted.clone();
    elsewhere.spec.as_mut().unwrap().node_name = Some("berth-node-3".into());
    for attachment in [UNKNOWN, attached(&["10.64.0.9"])] {
        for pod in [&deleted, &held, &done, &elsewhere] {
            assert_eq!(act_on(pod, &attachment), Some(Action::Detach));
        }
        let fleet = Fleet::new(2).unwrap();
        let without_node = decide(&pod(json!({})), fleet, false, &attachment, &at(100));
        assert_eq!(without_node, Some(Action::Detach));
    }
    let detached = Attachment::Detached;
    assert_eq!(act_on(&deleted, &detached), Some(Action::Finish));
    assert_eq!(act_on(&elsewhere, &detached), Some(Action::Finish));
    assert_eq!(act_on(&held, &detached), None);
    assert_eq!(act_on(&done, &detached), None);
}

#[test]
fn a_pod_on_a_node_that_does_not_run_keeps_what_it_has() {
    let pod = pod(json!({"nodeName": "berth-node-3"}));
    for attachment in [UNKNOWN, attached(&["10.64.0.9"])] {
        assert_eq!(act_on(&pod, &attachment), None);
    }
}
