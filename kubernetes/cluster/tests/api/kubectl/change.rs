//! Changing things: patch, label, annotate, scale, replace, edit, set.

use serde_json::json;

use super::each;

#[test]
fn patch_takes_all_four_types() {
    each(|kubectl| {
        kubectl.ok("create deployment web --image=x --replicas=0");
        let containers = |what: &str| {
            let text = kubectl.json("get deployment web")["spec"]["template"]["spec"]["containers"]
                .clone();
            assert!(text.is_array(), "{what}");
            text
        };
        let strategic =
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"more","image":"y"}]}}}}"#;
        assert_eq!(
            kubectl.ok(["patch", "deployment", "web", "-p", strategic]),
            "deployment.apps/web patched\n"
        );
        assert_eq!(containers("strategic").as_array().unwrap().len(), 2);

        let merge =
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"only","image":"z"}]}}}}"#;
        kubectl.ok(["patch", "deployment", "web", "--type=merge", "-p", merge]);
        assert_eq!(containers("merge")[0]["name"], "only");
        assert_eq!(containers("merge").as_array().unwrap().len(), 1);

        let operations = r#"[{"op":"test","path":"/spec/replicas","value":0},{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"w"}]"#;
        kubectl.ok(["patch", "deployment", "web", "--type=json", "-p", operations]);
        assert_eq!(containers("json")[0]["image"], "w");
        let failing = r#"[{"op":"test","path":"/spec/replicas","value":7}]"#;
        let said = kubectl.fails(["patch", "deployment", "web", "--type=json", "-p", failing]);
        assert!(
            said.contains("the server rejected our request due to an error in our request"),
            "{said}"
        );

        let applied = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"minReadySeconds":7}}"#;
        kubectl.fed(applied, "apply --server-side -f -");
        assert_eq!(kubectl.json("get deployment web")["spec"]["minReadySeconds"], 7);
    });
}

#[test]
fn patch_says_when_nothing_has_changed() {
    each(|kubectl| {
        kubectl.ok("create configmap a");
        let patch = ["patch", "configmap", "a", "-p", r#"{"data":{"x":"1"}}"#];
        assert_eq!(kubectl.ok(patch), "configmap/a patched\n");
        assert_eq!(kubectl.ok(patch), "configmap/a patched (no change)\n");
    });
}

#[test]
fn patch_reaches_the_status_by_its_subresource_alone() {
    each(|kubectl| {
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x"}]}}"#;
        kubectl.fed(pod, "create -f -");
        let message = r#"{"status":{"message":"hello"}}"#;
        kubectl.ok(["patch", "pod", "p", "--type=merge", "-p", message]);
        assert_eq!(kubectl.ok("get pod p -o jsonpath={.status.message}"), "");
        kubectl.ok([
            "patch",
            "pod",
            "p",
            "--subresource=status",
            "--type=merge",
            "-p",
            message,
        ]);
        assert_eq!(kubectl.ok("get pod p -o jsonpath={.status.message}"), "hello");
    });
}

#[test]
fn label_and_annotate_set_replace_and_remove() {
    each(|kubectl| {
        kubectl.ok("create configmap a");
        for (verb, field) in [("label", "labels"), ("annotate", "annotations")] {
            let read = || kubectl.json("get configmap a")["metadata"][field].clone();
            kubectl.ok([verb, "configmap", "a", "k=v", "l=w"]);
            assert_eq!(read(), json!({"k": "v", "l": "w"}));
            let refused = kubectl.fails([verb, "configmap", "a", "k=other"]);
            assert!(refused.contains("--overwrite is false"), "{refused}");
            kubectl.ok([verb, "configmap", "a", "k=other", "--overwrite"]);
            kubectl.ok([verb, "configmap", "a", "l-"]);
            assert_eq!(read(), json!({"k": "other"}));
        }
    });
}

#[test]
fn scale_sets_replicas_and_minds_the_current_ones() {
    each(|kubectl| {
        kubectl.ok("create deployment web --image=x --replicas=0");
        assert_eq!(
            kubectl.ok("scale deployment web --replicas=2"),
            "deployment.apps/web scaled\n"
        );
        assert_eq!(kubectl.ok("get deployment web -o jsonpath={.spec.replicas}"), "2");
        let wrong = kubectl.fails("scale deployment web --current-replicas=5 --replicas=1");
        assert!(wrong.contains("Expected replicas to be 5, was 2"), "{wrong}");
        assert_eq!(
            kubectl.ok("get deployment web --subresource=scale -o jsonpath={.spec.replicas}"),
            "2"
        );
        kubectl.ok("scale deployment web --current-replicas=2 --replicas=0");
        assert_eq!(kubectl.ok("get deployment web -o jsonpath={.spec.replicas}"), "0");
        // A Scale leaves out a zero.
        assert_eq!(
            kubectl.ok("get deployment web --subresource=scale -o jsonpath={.spec}"),
            "{}"
        );
    });
}

#[test]
fn set_changes_a_template() {
    each(|kubectl| {
        kubectl.ok("create deployment web --image=x --replicas=0");
        assert_eq!(
            kubectl.ok("set image deployment/web x=y:2"),
            "deployment.apps/web image updated\n"
        );
        assert_eq!(
            kubectl.ok("set env deployment/web K=V"),
            "deployment.apps/web env updated\n"
        );
        let container =
            &kubectl.json("get deployment web")["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], "y:2");
        assert_eq!(container["env"], json!([{"name": "K", "value": "V"}]));
    });
}

#[test]
fn replace_puts_an_object_in_place_of_another() {
    each(|kubectl| {
        kubectl.ok("create configmap a --from-literal=x=1");
        let uid = kubectl.ok("get configmap a -o jsonpath={.metadata.uid}");
        let text = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"y": "2"}}"#;
        assert_eq!(kubectl.fed(text, "replace -f -"), "configmap/a replaced\n");
        let object = kubectl.json("get configmap a");
        assert_eq!(object["data"], json!({"y": "2"}));
        assert_eq!(object["metadata"]["uid"], uid);
        let forced = kubectl.fed(text, "replace --force -f -");
        assert!(forced.contains("configmap/a replaced"), "{forced}");
        assert_ne!(kubectl.ok("get configmap a -o jsonpath={.metadata.uid}"), uid);
        let missing = kubectl.fails_fed(&text.replace("\"a\"", "\"b\""), "replace -f -");
        assert!(missing.contains("(NotFound)"), "{missing}");
    });
}

#[test]
fn edit_sends_what_the_editor_changed() {
    each(|kubectl| {
        kubectl.ok("create configmap a --from-literal=x=before");
        let edited =
            kubectl.run("edit configmap a", "", &[("KUBE_EDITOR", "sed -i s/before/after/")]);
        assert_eq!(edited.out, "configmap/a edited\n", "{}", edited.err);
        assert_eq!(kubectl.ok("get configmap a -o jsonpath={.data.x}"), "after");
        let same = kubectl.run("edit configmap a", "", &[("KUBE_EDITOR", "true")]);
        assert!(same.err.contains("Edit cancelled, no changes made"), "{}", same.err);
    });
}
