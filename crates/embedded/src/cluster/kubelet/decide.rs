//! What a virtual node does about a pod that is bound to it. Pure: state in, action out.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::status::{self, Addresses};
use crate::cluster::nodes::Fleet;

#[derive(Debug, PartialEq)]
pub enum Action {
    /// Nothing of it is left on the node: it may go from the API.
    Finish,
    /// Write this status.
    Report(Box<PodStatus>),
}

/// What to do about `pod`, or nothing when all is as it should be.
pub fn decide(pod: &Pod, fleet: Fleet, node_exists: bool, now: &Time) -> Option<Action> {
    let node = bound_to(pod)?;
    if pod.metadata.deletion_timestamp.is_some() {
        // Finished already and held only by its finalizers, or nothing of it ever ran here: both need no wait.
        let finished = pod.metadata.deletion_grace_period_seconds == Some(0);
        return (!finished).then_some(Action::Finish);
    }
    if !node_exists {
        return Some(Action::Finish);
    }
    let before = pod.status.clone().unwrap_or_default();
    if !fleet.runs(node) || matches!(before.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let spec = pod.spec.as_ref()?;
    let addresses = Addresses::of(spec, &before, Fleet::address(node));
    let after = status::of(spec, &before, addresses, pod.metadata.generation, now);
    (after != before).then(|| Action::Report(Box::new(after)))
}

/// The virtual node that the pod is on.
pub fn bound_to(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    Fleet::owns(node).then_some(node)
}

#[cfg(test)]
mod tests {
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
        let pod = json!({"metadata": {"namespace": "default", "name": "a", "generation": 1}, "spec": spec});
        serde_json::from_value(pod).unwrap()
    }

    fn act(pod: &Pod) -> Option<Action> {
        decide(pod, Fleet::new(2).unwrap(), true, &at(100))
    }

    /// The pod once the node has reported on it.
    fn reported(mut pod: Pod, second: i64) -> Pod {
        match decide(&pod, Fleet::new(2).unwrap(), true, &at(second)) {
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
        let action = decide(&pod(json!({})), fleet, false, &at(100));
        assert_eq!(action, Some(Action::Finish));
    }

    #[test]
    fn pods_on_nodes_of_others_or_not_run_any_more_and_finished_pods_are_left_alone() {
        assert_eq!(act(&pod(json!({"nodeName": "worker-1"}))), None);
        assert_eq!(act(&pod(json!({"nodeName": "berth-node-3"}))), None);
        let mut done = pod(json!({}));
        done.status.get_or_insert_default().phase = Some("Succeeded".into());
        assert_eq!(act(&done), None);
    }
}
