//! Apply, by the client's own three-way merge and by the server's; diff.

use serde_json::json;

use super::each;

fn map(data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {data}\n")
}

#[test]
fn apply_creates_changes_and_removes_what_it_no_longer_says() {
    each(|kubectl| {
        let apply = |data: &str| kubectl.fed(&map(data), "apply -f -");
        assert_eq!(apply("{x: '1', w: '2'}"), "configmap/a created\n");
        assert_eq!(apply("{x: '1', w: '2'}"), "configmap/a unchanged\n");
        kubectl.ok(["patch", "configmap", "a", "-p", r#"{"data":{"z":"3"}}"#]);
        assert_eq!(apply("{x: '9'}"), "configmap/a configured\n");
        assert_eq!(kubectl.json("get configmap a")["data"], json!({"x": "9", "z": "3"}));
        let last = kubectl.ok("apply view-last-applied configmap a");
        assert!(last.contains("x: \"9\""), "{last}");
    });
}

#[test]
fn apply_of_a_deployment_merges_lists_by_their_keys() {
    each(|kubectl| {
        let text = |env: &str| {
            format!(
                r#"{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {{"name": "web"}}, "spec": {{"replicas": 0, "selector": {{"matchLabels": {{"a": "b"}}}}, "template": {{"metadata": {{"labels": {{"a": "b"}}}}, "spec": {{"containers": [{{"name": "c", "image": "x", "env": {env}}}]}}}}}}}}"#
            )
        };
        kubectl.fed(
            &text(r#"[{"name": "K", "value": "1"}, {"name": "L", "value": "2"}]"#),
            "apply -f -",
        );
        let sidecar =
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"sidecar","image":"s"}]}}}}"#;
        kubectl.ok(["patch", "deployment", "web", "-p", sidecar]);
        kubectl.fed(&text(r#"[{"name": "L", "value": "3"}]"#), "apply -f -");
        let containers =
            kubectl.json("get deployment web")["spec"]["template"]["spec"]["containers"].clone();
        let find = |name: &str| {
            containers
                .as_array()
                .unwrap()
                .iter()
                .find(|c| c["name"] == name)
                .cloned()
                .unwrap()
        };
        assert_eq!(find("c")["env"], json!([{"name": "L", "value": "3"}]));
        assert_eq!(find("sidecar")["image"], "s");
    });
}

#[test]
fn server_side_apply_conflicts_with_other_owners_unless_forced() {
    each(|kubectl| {
        let apply = |data: &str, more: &str| {
            let line = format!("apply --server-side -f - {more}");
            kubectl.run(&line, &map(data), &[])
        };
        let first = apply("{x: '1'}", "--field-manager=one");
        assert_eq!(first.out, "configmap/a serverside-applied\n", "{}", first.err);
        let managers = kubectl.ok("get configmap a --show-managed-fields -o \
                                   jsonpath={.metadata.managedFields[*].manager}");
        assert_eq!(managers, "one");
        let second = apply("{x: '2'}", "--field-manager=two");
        assert_eq!(second.code, 1);
        assert!(second.err.contains("conflict with \"one\": .data.x"), "{}", second.err);
        assert_eq!(kubectl.ok("get configmap a -o jsonpath={.data.x}"), "1");
        let forced = apply("{x: '2'}", "--field-manager=two --force-conflicts");
        assert_eq!(forced.code, 0, "{}", forced.err);
        assert_eq!(kubectl.ok("get configmap a -o jsonpath={.data.x}"), "2");
        // Who no longer applies a field that nobody else owns takes it along.
        apply("{w: '3'}", "--field-manager=two");
        assert_eq!(kubectl.json("get configmap a")["data"], json!({"w": "3"}));
    });
}

#[test]
fn server_side_apply_takes_over_from_client_side_apply() {
    each(|kubectl| {
        kubectl.fed(&map("{x: '1', w: '2'}"), "apply -f -");
        let taken = kubectl.run("apply --server-side -f -", &map("{x: '5'}"), &[]);
        assert_eq!(taken.code, 0, "{}", taken.err);
        assert_eq!(kubectl.json("get configmap a")["data"], json!({"x": "5"}));
    });
}

#[test]
fn diff_shows_what_apply_would_change() {
    each(|kubectl| {
        kubectl.fed(&map("{x: '1'}"), "apply -f -");
        let same = kubectl.run("diff -f -", &map("{x: '1'}"), &[]);
        assert_eq!((same.code, same.out.as_str()), (0, ""), "{}", same.err);
        let other = kubectl.run("diff -f -", &map("{x: '2'}"), &[]);
        assert_eq!(other.code, 1, "{}", other.err);
        assert!(other.out.contains("-  x: \"1\"\n+  x: \"2\""), "{}", other.out);
        let other = kubectl.run("diff --server-side --force-conflicts -f -", &map("{x: '2'}"), &[]);
        assert_eq!(other.code, 1, "{}", other.err);
        assert!(other.out.contains("+  x: \"2\""), "{}", other.out);
        assert_eq!(kubectl.ok("get configmap a -o jsonpath={.data.x}"), "1");
    });
}
