//! A pod's row in a table. Its status is one word for the pod, its init containers and its
//! containers: the one that explains most.

use berth_apimachinery::columns::{AGE, Column, NAME, list, number, or, since_text, text};
use jiff::Timestamp;
use serde_json::{Value, json};

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::made("Ready", |pod, _| {
        let tally = Tally::of(pod);
        json!(format!("{}/{}", tally.ready, tally.containers))
    }),
    Column::made("Status", |pod, _| json!(Tally::of(pod).status)),
    Column::made("Restarts", |pod, now| json!(Tally::of(pod).restarts.shown(now))),
    AGE,
    Column::text_or("IP", "/status/podIP", "<none>").wide(),
    Column::text_or("Node", "/spec/nodeName", "<none>").wide(),
    Column::text_or("Nominated Node", "/status/nominatedNodeName", "<none>").wide(),
    Column::made("Readiness Gates", readiness_gates).wide(),
];

fn readiness_gates(pod: &Value, _: Timestamp) -> Value {
    let gates = list(pod, "/spec/readinessGates");
    let met = gates
        .iter()
        .filter(|gate| condition_is_true(pod, text(gate, "/conditionType")))
        .count();
    match gates.len() {
        0 => json!("<none>"),
        all => json!(format!("{met}/{all}")),
    }
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    list(pod, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
}

fn condition_is_true(pod: &Value, kind: &str) -> bool {
    condition(pod, kind).is_some_and(|condition| text(condition, "/status") == "True")
}

#[derive(Clone, Debug, Default)]
struct Restarts<'a> {
    count: i64,
    /// RFC 3339 in UTC, so the later time is the greater text.
    last: &'a str,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, container: &'a Value) {
        self.count += number(container, "/restartCount");
        self.last = self.last.max(text(container, "/lastState/terminated/finishedAt"));
    }

    fn shown(&self, now: Timestamp) -> String {
        if self.count != 0 && !self.last.is_empty() {
            format!("{} ({} ago)", self.count, since_text(self.last, now))
        } else {
            self.count.to_string()
        }
    }
}

struct Tally<'a> {
    status: String,
    containers: usize,
    ready: usize,
    restarts: Restarts<'a>,
}

impl<'a> Tally<'a> {
    fn of(pod: &'a Value) -> Self {
        let phase = text(pod, "/status/phase");
        let gated =
            condition(pod, "PodScheduled").is_some_and(|c| text(c, "/reason") == "SchedulingGated");
        let status = if gated {
            "SchedulingGated"
        } else {
            or(text(pod, "/status/reason"), phase)
        };
        let mut tally = Self {
            status: status.to_owned(),
            containers: list(pod, "/spec/containers").len(),
            ready: 0,
            restarts: Restarts::default(),
        };
        let mut of_sidecars = Restarts::default();
        let initializing = tally.count_init(pod, &mut of_sidecars);
        if !initializing || condition_is_true(pod, "Initialized") {
            // Once the pod is initialized, only sidecars among its init containers count.
            tally.restarts = of_sidecars;
            tally.count_main(pod);
        }
        if pod.pointer("/metadata/deletionTimestamp").is_some() {
            if text(pod, "/status/reason") == "NodeLost" {
                tally.status = "Unknown".to_owned();
            } else if !["Succeeded", "Failed"].contains(&phase) {
                tally.status = "Terminating".to_owned();
            }
        }
        tally
    }

    /// Counts the init containers. Returns whether the pod still waits for one.
    fn count_init(&mut self, pod: &'a Value, of_sidecars: &mut Restarts<'a>) -> bool {
        let specs = list(pod, "/spec/initContainers");
        // A sidecar is an init container that keeps running. It counts as a container.
        let is_sidecar = |spec: &Value| text(spec, "/restartPolicy") == "Always";
        self.containers += specs.iter().filter(|spec| is_sidecar(spec)).count();
        for (index, container) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            self.restarts.add(container);
            let spec = specs
                .iter()
                .find(|spec| text(spec, "/name") == text(container, "/name"));
            let sidecar = spec.is_some_and(is_sidecar);
            if sidecar {
                of_sidecars.add(container);
            }
            let terminated = container.pointer("/state/terminated");
            if terminated.is_some_and(|end| number(end, "/exitCode") == 0) {
                continue;
            }
            if sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            let waiting = text(container, "/state/waiting/reason");
            self.status = if let Some(end) = terminated {
                format!("Init:{}", ended(end))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{index}/{}", specs.len())
            };
            return true;
        }
        false
    }

    fn count_main(&mut self, pod: &'a Value) {
        let mut running = false;
        for container in list(pod, "/status/containerStatuses").iter().rev() {
            self.restarts.add(container);
            let waiting = text(container, "/state/waiting/reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(end) = container.pointer("/state/terminated") {
                self.status = ended(end);
            } else if container["ready"] == true && container.pointer("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.status == "Completed" && running {
            let status = if condition_is_true(pod, "Ready") {
                "Running"
            } else {
                "NotReady"
            };
            self.status = status.to_owned();
        }
    }
}

fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_apimachinery::columns::cells;

    const NOW: &str = "2026-01-02T00:00:00Z";

    fn container(name: &str, state: Value) -> Value {
        let running = state.get("running").is_some();
        json!({"name": name, "state": state, "ready": running, "started": running, "restartCount": 0})
    }

    fn pod(phase: &str, inits: Value, containers: Value) -> Value {
        let spec = |statuses: &Value| -> Vec<Value> {
            let names = statuses
                .as_array()
                .into_iter()
                .flatten()
                .map(|status| status["name"].clone());
            names
                .map(|name| json!({"name": name, "restartPolicy": if name == "sidecar" { "Always" } else { "" }}))
                .collect()
        };
        json!({
            "metadata": {"name": "p"},
            "spec": {"initContainers": spec(&inits), "containers": spec(&containers)},
            "status": {"phase": phase, "initContainerStatuses": inits, "containerStatuses": containers},
        })
    }

    fn shown(pod: &Value) -> String {
        let cells = cells(COLUMNS, pod, NOW.parse().unwrap());
        let text: Vec<&str> = cells[1..4].iter().map(|cell| cell.as_str().unwrap()).collect();
        text.join(" ")
    }

    #[test]
    fn one_word_says_how_the_containers_are() {
        let running = || json!({"running": {}});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let ended =
            |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
        for (phase, a, b, expected) in [
            ("Pending", json!({}), json!({}), "0/2 Pending 0"),
            ("Running", running(), running(), "2/2 Running 0"),
            (
                "Running",
                waiting("CrashLoopBackOff"),
                running(),
                "1/2 CrashLoopBackOff 0",
            ),
            ("Running", ended(0, "Completed"), running(), "1/2 NotReady 0"),
            (
                "Succeeded",
                ended(0, "Completed"),
                ended(0, "Completed"),
                "0/2 Completed 0",
            ),
            ("Failed", ended(3, ""), ended(0, "Completed"), "0/2 ExitCode:3 0"),
            (
                "Failed",
                json!({"terminated": {"signal": 9}}),
                json!({}),
                "0/2 Signal:9 0",
            ),
        ] {
            let pod = pod(phase, json!([]), json!([container("a", a), container("b", b)]));
            assert_eq!(shown(&pod), expected);
        }
    }

    #[test]
    fn an_init_container_that_is_not_done_comes_before_all_else() {
        let done = || json!({"terminated": {"exitCode": 0}});
        for (first, second, expected) in [
            (json!({"running": {}}), json!({}), "0/1 Init:0/2 0"),
            (
                done(),
                json!({"waiting": {"reason": "PodInitializing"}}),
                "0/1 Init:1/2 0",
            ),
            (
                json!({"waiting": {"reason": "ImagePullBackOff"}}),
                json!({}),
                "0/1 Init:ImagePullBackOff 0",
            ),
            (
                json!({"terminated": {"exitCode": 1, "reason": "Error"}}),
                json!({}),
                "0/1 Init:Error 0",
            ),
            (
                json!({"terminated": {"exitCode": 4}}),
                json!({}),
                "0/1 Init:ExitCode:4 0",
            ),
            (done(), done(), "0/1 PodInitializing 0"),
        ] {
            let inits = json!([container("i", first), container("j", second)]);
            let main = json!([container("a", json!({"waiting": {"reason": "PodInitializing"}}))]);
            assert_eq!(shown(&pod("Pending", inits, main)), expected);
        }
    }

    #[test]
    fn a_sidecar_counts_among_the_containers() {
        let up = pod(
            "Running",
            json!([container("sidecar", json!({"running": {}}))]),
            json!([container("a", json!({"running": {}}))]),
        );
        assert_eq!(shown(&up), "2/2 Running 0");
        let mut down = pod(
            "Running",
            json!([container("sidecar", json!({"waiting": {"reason": "CrashLoopBackOff"}}))]),
            json!([container("a", json!({"running": {}}))]),
        );
        assert_eq!(shown(&down), "0/2 Init:CrashLoopBackOff 0");
        down["status"]["conditions"] = json!([{"type": "Initialized", "status": "True"}]);
        assert_eq!(shown(&down), "1/2 Init:CrashLoopBackOff 0");
    }

    #[test]
    fn restarts_say_when_the_last_one_was() {
        let mut pod = pod(
            "Running",
            json!([]),
            json!([
                container("a", json!({"running": {}})),
                container("b", json!({"running": {}}))
            ]),
        );
        for (index, (count, at)) in [(2, "2026-01-01T23:00:00Z"), (1, "2026-01-01T12:00:00Z")]
            .into_iter()
            .enumerate()
        {
            pod["status"]["containerStatuses"][index]["restartCount"] = count.into();
            pod["status"]["containerStatuses"][index]["lastState"] =
                json!({"terminated": {"finishedAt": at}});
        }
        assert_eq!(shown(&pod), "2/2 Running 3 (60m ago)");
    }

    #[test]
    fn a_pod_being_deleted_shows_terminating_unless_it_has_ended() {
        let mut pod = pod("Running", json!([]), json!([container("a", json!({"running": {}}))]));
        pod["metadata"]["deletionTimestamp"] = NOW.into();
        assert_eq!(shown(&pod), "1/1 Terminating 0");
        pod["status"]["reason"] = "NodeLost".into();
        assert_eq!(shown(&pod), "1/1 Unknown 0");
        pod["status"] = json!({"phase": "Failed", "reason": "Evicted"});
        assert_eq!(shown(&pod), "0/1 Evicted 0");
    }

    #[test]
    fn a_gated_pod_says_so() {
        let mut pod = pod("Pending", json!([]), json!([]));
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
        assert_eq!(shown(&pod), "0/0 SchedulingGated 0");
    }

    #[test]
    fn the_wide_cells_are_none_until_they_are_known() {
        let wide = |pod: &Value| json!(cells(COLUMNS, pod, NOW.parse().unwrap())[5..]);
        assert_eq!(wide(&json!({})), json!(["<none>", "<none>", "<none>", "<none>"]));
        let pod = json!({
            "spec": {"nodeName": "n", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
            "status": {"podIP": "10.0.0.1", "nominatedNodeName": "m", "conditions": [{"type": "a", "status": "True"}]},
        });
        assert_eq!(wide(&pod), json!(["10.0.0.1", "n", "m", "1/2"]));
    }
}
