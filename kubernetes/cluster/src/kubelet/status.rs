//! The status of a pod on a virtual node, from its spec, old status and addresses. Pure.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, HostIP, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::attachment::Attachment;

/// The addresses of a pod and its host, as far as they are known.
#[derive(Debug)]
pub struct Addresses {
    host: Option<String>,
    pod: Vec<String>,
    /// What the pod waits for when it has none.
    missing: &'static str,
}

impl Addresses {
    /// A pod has the addresses of its sandbox. Until these are known, as after a start, it has
    /// those in its status. Without a network, an outside client writes them there. A pod on the
    /// host's network has its node's address.
    pub fn of(
        spec: &PodSpec,
        status: &PodStatus,
        attachment: &Attachment,
        host: Option<Ipv4Addr>,
    ) -> Self {
        let host = host.map(|ip| ip.to_string());
        let mut pod = match attachment {
            Attachment::Attached(addresses) => addresses.iter().map(ToString::to_string).collect(),
            _ => listed(status),
        };
        if pod.is_empty() && spec.host_network == Some(true) {
            pod.extend(host.clone());
        }
        let missing = match attachment {
            Attachment::Unneeded => UNWRITTEN,
            _ => UNATTACHED,
        };
        Self { host, pod, missing }
    }
}

fn listed(status: &PodStatus) -> Vec<String> {
    let listed = status.pod_ips.iter().flatten().map(|ip| ip.ip.clone());
    let mut pod: Vec<_> = listed.filter(|ip| !ip.is_empty()).collect();
    if pod.is_empty() {
        pod.extend(status.pod_ip.clone().filter(|ip| !ip.is_empty()));
    }
    pod
}

const UNWRITTEN: &str = "The pod waits for an address: it runs once status.podIPs has one";
const UNATTACHED: &str =
    "The pod waits for an address: its node asks for one, and its events say what is in the way";

/// `before` with the fields that the node reports. Fields of others stay, and unchanged states keep
/// their times.
pub fn of(
    spec: &PodSpec,
    before: &PodStatus,
    addresses: Addresses,
    generation: Option<i64>,
    now: &Time,
) -> PodStatus {
    let running = !addresses.pod.is_empty();
    let mut status = before.clone();
    let phase = if running { "Running" } else { "Pending" };
    status.phase = Some(phase.to_owned());
    status.start_time.get_or_insert_with(|| now.clone());
    status.host_ips = addresses.host.iter().cloned().map(|ip| vec![HostIP { ip }]).next();
    status.host_ip = addresses.host;
    if running {
        status.message = status
            .message
            .filter(|message| ![UNWRITTEN, UNATTACHED].contains(&message.as_str()));
        status.pod_ip = addresses.pod.first().cloned();
        let ips = addresses.pod.into_iter().map(|ip| PodIP { ip });
        status.pod_ips = Some(ips.collect());
    } else {
        // `kubectl describe` shows the message.
        status.message = Some(addresses.missing.to_owned());
    }
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let waiting = if init.is_empty() {
        "ContainerCreating"
    } else {
        "PodInitializing"
    };
    let describe_all =
        |containers: &[Container], known: &Option<Vec<ContainerStatus>>, ends: bool| {
            let statuses = containers.iter().map(|container| {
                let sidecar = container.restart_policy.as_deref() == Some("Always");
                let state = match running {
                    false => State::Waiting(waiting),
                    true if ends && !sidecar => State::Ended,
                    true => State::Running,
                };
                let mut known = known.iter().flatten();
                describe(container, known.find(|s| s.name == container.name), state, now)
            });
            Some(statuses.collect::<Vec<_>>()).filter(|all| !all.is_empty())
        };
    status.init_container_statuses = describe_all(init, &before.init_container_statuses, true);
    status.container_statuses = describe_all(&spec.containers, &before.container_statuses, false);
    status.observed_generation = generation;
    let conditions = status.conditions.get_or_insert_default();
    let missing = (!running).then_some(addresses.missing);
    for (type_, verdict) in verdicts(spec, missing, before) {
        set(conditions, type_, verdict, generation, now);
    }
    status
}

/// `Ok` if a condition is true, else its reason and message.
type Verdict = Result<(), (&'static str, String)>;

/// `missing` says why the pod does not run yet.
fn verdicts(
    spec: &PodSpec,
    missing: Option<&str>,
    before: &PodStatus,
) -> [(&'static str, Verdict); 5] {
    let unless_running = |reason, message: String| match missing {
        None => Ok(()),
        Some(_) => Err((reason, message)),
    };
    let names = |containers: &[Container]| {
        let names: Vec<_> = containers.iter().map(|c| c.name.as_str()).collect();
        names.join(" ")
    };
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let initialized = if init.is_empty() {
        Ok(())
    } else {
        let message = format!("containers with incomplete status: [{}]", names(init));
        unless_running("ContainersNotInitialized", message)
    };
    let message = format!("containers with unready status: [{}]", names(&spec.containers));
    let containers_ready = unless_running("ContainersNotReady", message);
    let gates = spec.readiness_gates.iter().flatten();
    let mut closed = gates.filter(|gate| {
        let mut conditions = before.conditions.iter().flatten();
        !conditions.any(|c| c.type_ == gate.condition_type && c.status == "True")
    });
    let ready = match (&containers_ready, closed.next()) {
        (Ok(()), Some(gate)) => {
            let message = format!(
                "corresponding condition of pod readiness gate \"{}\" is not True",
                gate.condition_type
            );
            Err(("ReadinessGatesNotReady", message))
        }
        _ => containers_ready.clone(),
    };
    [
        (
            "PodReadyToStartContainers",
            unless_running("WaitingForAddress", missing.unwrap_or_default().to_owned()),
        ),
        ("Initialized", initialized),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Ok(())),
    ]
}

fn set(
    conditions: &mut Vec<PodCondition>,
    type_: &str,
    verdict: Verdict,
    generation: Option<i64>,
    now: &Time,
) {
    let status = if verdict.is_ok() { "True" } else { "False" };
    let (reason, message) = verdict.err().unzip();
    let known = conditions.iter().position(|c| c.type_ == type_);
    let since = known
        .and_then(|i| conditions.get(i))
        .filter(|c| c.status == status)
        .and_then(|c| c.last_transition_time.clone());
    let condition = PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.map(str::to_owned),
        message,
        observed_generation: generation,
        last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        last_probe_time: None,
    };
    match known.and_then(|i| conditions.get_mut(i)) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting(&'static str),
    Running,
    Ended,
}

fn describe(
    container: &Container,
    known: Option<&ContainerStatus>,
    state: State,
    now: &Time,
) -> ContainerStatus {
    let time = Some(now.clone());
    let since_now = match state {
        State::Waiting(reason) => ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason.to_owned()),
                message: None,
            }),
            ..ContainerState::default()
        },
        State::Running => ContainerState {
            running: Some(ContainerStateRunning { started_at: time }),
            ..ContainerState::default()
        },
        State::Ended => ContainerState {
            terminated: Some(ContainerStateTerminated {
                reason: Some("Completed".to_owned()),
                started_at: time.clone(),
                finished_at: time,
                ..ContainerStateTerminated::default()
            }),
            ..ContainerState::default()
        },
    };
    // The same state as before keeps its times.
    let same = |before: &&ContainerState| {
        before.running.is_some() == since_now.running.is_some()
            && before.terminated.is_some() == since_now.terminated.is_some()
            && before.waiting == since_now.waiting
    };
    let before = known.and_then(|k| k.state.as_ref()).filter(same).cloned();
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        ready: !matches!(state, State::Waiting(_)),
        started: Some(state == State::Running),
        state: Some(before.unwrap_or(since_now)),
        ..ContainerStatus::default()
    }
}
