//! Waiting and watching.

use super::{Kubectl, each};

const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x"}]}}"#;

fn set_ready(kubectl: &Kubectl) {
    let ready = r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
    kubectl.ok(["patch", "pod", "p", "--subresource=status", "-p", ready]);
}

#[test]
fn wait_for_a_condition_ends_when_it_holds() {
    each(|kubectl| {
        kubectl.fed(POD, "create -f -");
        let late = kubectl.fails("wait --for=condition=Ready pod/p --timeout=1s");
        assert!(late.contains("timed out waiting for the condition"), "{late}");
        let waiting = kubectl.start("wait --for=condition=Ready pod/p --timeout=300s");
        set_ready(kubectl);
        assert_eq!(waiting.succeeds(), "pod/p condition met");
        assert_eq!(
            kubectl.ok("wait --for=condition=Ready pod/p --timeout=300s"),
            "pod/p condition met\n"
        );
    });
}

#[test]
fn wait_for_a_value_ends_when_it_is_there() {
    each(|kubectl| {
        kubectl.ok("create configmap a --from-literal=x=1");
        let waiting = kubectl.start("wait --for=jsonpath={.data.x}=2 configmap/a --timeout=300s");
        kubectl.ok(["patch", "configmap", "a", "-p", r#"{"data":{"x":"2"}}"#]);
        assert_eq!(waiting.succeeds(), "configmap/a condition met");
    });
}

#[test]
fn wait_for_a_deletion_ends_when_the_object_is_gone() {
    each(|kubectl| {
        kubectl.ok("create configmap a");
        kubectl.ok([
            "patch",
            "configmap",
            "a",
            "-p",
            r#"{"metadata":{"finalizers":["example.com/hold"]}}"#,
        ]);
        kubectl.ok("delete configmap a --wait=false");
        let late = kubectl.fails("wait --for=delete configmap/a --timeout=1s");
        assert!(late.contains("timed out waiting for the condition"), "{late}");
        let waiting = kubectl.start("wait --for=delete configmap/a --timeout=300s");
        kubectl.ok(["patch", "configmap", "a", "-p", r#"{"metadata":{"finalizers":null}}"#]);
        // Nothing is said when it had gone before the wait began.
        waiting.succeeds();
        kubectl.ok("wait --for=delete configmap/a --timeout=300s");
    });
}

#[test]
fn a_watch_prints_a_row_for_each_change() {
    each(|kubectl| {
        kubectl.fed(POD, "create -f -");
        let watch = kubectl.start("get pods -w");
        assert!(watch.line_with("NAME").starts_with("NAME   READY   STATUS"));
        watch.line_with("p ");
        kubectl.fed(&POD.replace("\"name\": \"p\"", "\"name\": \"late\""), "create -f -");
        let line = watch.line_with("late");
        assert_eq!(
            line.split_whitespace().take(3).collect::<Vec<_>>(),
            ["late", "0/1", "Pending"]
        );
        let running = r#"{"status":{"phase":"Running"}}"#;
        kubectl.ok(["patch", "pod", "late", "--subresource=status", "-p", running]);
        let line = watch.line_with("Running");
        assert!(line.starts_with("late"), "{line}");
    });
}

#[test]
fn a_watch_tells_what_has_happened() {
    each(|kubectl| {
        kubectl.ok("create configmap a");
        let watch = kubectl.start("get configmap a -w --output-watch-events");
        watch.line_with("ADDED");
        kubectl.ok("label configmap a x=y");
        watch.line_with("MODIFIED");
        kubectl.ok("delete configmap a");
        watch.line_with("DELETED");
    });
}
