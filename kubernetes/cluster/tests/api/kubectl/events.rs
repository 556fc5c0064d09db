//! Events: written to either group, seen in both, and shown with what they are about.

use serde_json::json;

use super::{Kubectl, each};

const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x"}]}}"#;

fn tell(kubectl: &Kubectl) {
    kubectl.fed(POD, "create -f -");
    let uid = kubectl.ok("get pod p -o jsonpath={.metadata.uid}");
    let about = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": kubectl.name, "uid": uid});
    let older = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "p.older"}, "involvedObject": about, "type": "Warning",
        "reason": "Older", "message": "told the older way", "source": {"component": "test"}, "count": 3,
        "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": jiff::Timestamp::now().strftime("%FT%TZ").to_string(),
    });
    let newer = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "p.newer"}, "regarding": about, "type": "Normal",
        "reason": "Newer", "note": "told the newer way", "action": "Tell", "reportingController": "example.com/test",
        "reportingInstance": "one", "eventTime": jiff::Timestamp::now().strftime("%FT%T.%6fZ").to_string(),
    });
    kubectl.fed(&older.to_string(), "create -f -");
    kubectl.fed(&newer.to_string(), "create -f -");
}

#[test]
fn get_events_shows_those_of_both_groups() {
    each(|kubectl| {
        tell(kubectl);
        for command in ["get events", "get events.events.k8s.io", "events"] {
            let listed = kubectl.ok(command);
            for part in ["Older", "told the older way", "Newer", "told the newer way", "pod/p"] {
                assert!(
                    listed.to_lowercase().contains(&part.to_lowercase()),
                    "{command}: {part:?} is not in\n{listed}"
                );
            }
        }
        let warnings = kubectl.ok("get events --field-selector type=Warning --no-headers");
        assert!(warnings.contains("Older") && !warnings.contains("Newer"), "{warnings}");
        let about =
            kubectl.ok("get events --field-selector involvedObject.name=p,reason=Newer -o name");
        assert_eq!(about, "event/p.newer\n");
        let sorted = kubectl.ok("get events --sort-by=.metadata.name -o name");
        assert!(sorted.ends_with("event/p.newer\nevent/p.older\n"), "{sorted}");
    });
}

#[test]
fn describe_shows_the_events_of_a_pod() {
    each(|kubectl| {
        tell(kubectl);
        let described = kubectl.ok("describe pod p");
        let events = described.split("Events:").nth(1).unwrap_or_default();
        assert!(
            events.contains("told the older way") && events.contains("told the newer way"),
            "{described}"
        );
    });
}
