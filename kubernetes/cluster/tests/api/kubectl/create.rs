//! Making things, by commands and from files.

use serde_json::json;

use super::each;
use crate::namespace::unique;

#[test]
fn create_namespace_makes_one_and_refuses_a_second() {
    each(|kubectl| {
        let name = unique("made");
        kubectl.with(format!("/api/v1/namespaces/{name}"));
        assert_eq!(
            kubectl.ok(["create", "namespace", &name]),
            format!("namespace/{name} created\n")
        );
        let listed = kubectl.ok(["get", "namespace", &name]);
        assert!(listed.contains("Active"), "{listed}");
        let again = kubectl.fails(["create", "namespace", &name]);
        assert!(again.contains("Error from server (AlreadyExists)"), "{again}");
        let bad = kubectl.fails("create namespace Not_a_name");
        assert!(
            bad.contains("is invalid: metadata.name: Invalid value: \"Not_a_name\""),
            "{bad}"
        );
    });
}

#[test]
fn create_job_makes_one_that_selects_its_pods_by_its_uid() {
    each(|kubectl| {
        let suspended = kubectl.ok("create job once --image=x --dry-run=client --output=yaml");
        let suspended =
            suspended.replace("spec:\n  template:", "spec:\n  suspend: true\n  template:");
        assert_eq!(
            kubectl.fed(&suspended, "create --filename=-"),
            "job.batch/once created\n"
        );
        let job = kubectl.json("get job once");
        let uid = &job["metadata"]["uid"];
        let selector = json!({"batch.kubernetes.io/controller-uid": uid});
        assert_eq!(job["spec"]["selector"]["matchLabels"], selector);
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "once");
        assert_eq!(job["spec"]["backoffLimit"], 6);
        let listed = kubectl.ok("get jobs");
        assert!(listed.contains("COMPLETIONS") && listed.contains("0/1"), "{listed}");
        let always = r#"{"spec": {"template": {"spec": {"restartPolicy": "Always"}}}}"#;
        let refused = kubectl.fails(["patch", "job", "once", "--patch", always]);
        assert!(
            refused.contains("spec.template.spec.restartPolicy: Required value"),
            "{refused}"
        );
    });
}

#[test]
fn create_deployment_makes_one_with_image_and_replicas() {
    each(|kubectl| {
        let said = kubectl.ok("create deployment web --image=x --replicas=3 --dry-run=server");
        assert_eq!(said, "deployment.apps/web created (server dry run)\n");
        assert_eq!(
            kubectl.ok("create deployment web --image=x --replicas=3"),
            "deployment.apps/web created\n"
        );
        let web = kubectl.json("get deployment web");
        assert_eq!(web["spec"]["replicas"], 3);
        assert_eq!(web["spec"]["selector"]["matchLabels"], json!({"app": "web"}));
        assert_eq!(web["spec"]["template"]["spec"]["containers"][0]["image"], "x");
        assert_eq!(
            web["spec"]["strategy"]["rollingUpdate"],
            json!({"maxSurge": "25%", "maxUnavailable": "25%"})
        );
        assert_eq!(web["metadata"]["generation"], 1);
    });
}

#[test]
fn create_configmap_secret_and_serviceaccount() {
    each(|kubectl| {
        assert_eq!(
            kubectl.ok("create configmap a --from-literal=x=1 --from-literal=y=2"),
            "configmap/a created\n"
        );
        assert_eq!(kubectl.json("get configmap a")["data"], json!({"x": "1", "y": "2"}));
        assert_eq!(
            kubectl.ok("create secret generic a --from-literal=x=1"),
            "secret/a created\n"
        );
        let secret = kubectl.json("get secret a");
        assert_eq!(secret["data"], json!({"x": "MQ=="}));
        assert_eq!(secret["type"], "Opaque");
        kubectl.ok("create secret docker-registry b --docker-server=s --docker-username=u \
                    --docker-password=p");
        assert_eq!(kubectl.json("get secret b")["type"], "kubernetes.io/dockerconfigjson");
        assert_eq!(kubectl.ok("create serviceaccount a"), "serviceaccount/a created\n");
        assert_eq!(kubectl.ok("get serviceaccount a -o name"), "serviceaccount/a\n");
    });
}

#[test]
fn create_role_and_rolebinding() {
    each(|kubectl| {
        let made =
            kubectl.ok("create role reader --verb=get,list --resource=pods,deployments.apps");
        assert_eq!(made, "role.rbac.authorization.k8s.io/reader created\n");
        let rules = &kubectl.json("get role reader")["rules"];
        assert_eq!(
            rules[0],
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]})
        );
        assert_eq!(rules[1]["apiGroups"], json!(["apps"]));
        let account = format!("--serviceaccount={}:default", kubectl.name);
        let made = kubectl.ok(["create", "rolebinding", "readers", "--role=reader", &account]);
        assert_eq!(made, "rolebinding.rbac.authorization.k8s.io/readers created\n");
        let binding = kubectl.json("get rolebinding readers");
        assert_eq!(
            binding["roleRef"],
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"})
        );
        assert_eq!(binding["subjects"][0]["namespace"], kubectl.name.as_str());
    });
}

#[test]
fn run_makes_a_pod_with_its_defaults() {
    each(|kubectl| {
        assert_eq!(
            kubectl.ok("run p --image=x:1 --port=80 --labels=a=b --env=K=V"),
            "pod/p created\n"
        );
        let pod = kubectl.json("get pod p");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        assert_eq!(container["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
        assert_eq!(container["env"], json!([{"name": "K", "value": "V"}]));
        assert_eq!(pod["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(pod["spec"]["restartPolicy"], "Always");
        assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2);
        assert_eq!(pod["status"]["qosClass"], "BestEffort");
    });
}

#[test]
fn expose_makes_a_service_for_a_deployment() {
    each(|kubectl| {
        kubectl.ok("create deployment web --image=x --replicas=0");
        let said =
            kubectl.ok("expose deployment web --port=80 --target-port=8080 --cluster-ip=None");
        assert_eq!(said, "service/web exposed\n");
        let service = kubectl.json("get service web");
        assert_eq!(service["spec"]["selector"], json!({"app": "web"}));
        assert_eq!(
            service["spec"]["ports"],
            json!([{"port": 80, "protocol": "TCP", "targetPort": 8080}])
        );
        let listed = kubectl.ok("get service web");
        assert!(listed.contains("ClusterIP") && listed.contains("80/TCP"), "{listed}");
    });
}

#[test]
fn create_from_a_file_with_several_objects() {
    each(|kubectl| {
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: \
                    v1\nkind: Secret\nmetadata: {name: b}\nstringData: {x: z}\n";
        assert_eq!(
            kubectl.fed(text, "create -f -"),
            "configmap/a created\nsecret/b created\n"
        );
        assert_eq!(kubectl.json("get secret b")["data"], json!({"x": "eg=="}));
    });
}

#[test]
fn create_with_generate_name_makes_a_new_one_each_time() {
    each(|kubectl| {
        let text =
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}"#;
        let (one, two) = (
            kubectl.fed(text, "create -f - -o name"),
            kubectl.fed(text, "create -f - -o name"),
        );
        assert!(
            one.starts_with("configmap/made-") && two.starts_with("configmap/made-"),
            "{one} {two}"
        );
        assert_ne!(one, two);
        assert_eq!(
            kubectl.ok(["get", one.trim(), two.trim(), "-o", "name"]),
            format!("{one}{two}")
        );
    });
}

#[test]
fn a_server_side_dry_run_changes_nothing() {
    each(|kubectl| {
        let said = kubectl.ok("create configmap a --from-literal=x=1 --dry-run=server");
        assert_eq!(said, "configmap/a created (server dry run)\n");
        assert_eq!(kubectl.ok("get configmap a --ignore-not-found"), "");
        kubectl.ok("create configmap a --from-literal=x=1");
        let before = kubectl.json("get configmap a");
        kubectl.ok("label configmap a l=m --dry-run=server");
        kubectl.ok([
            "patch",
            "configmap",
            "a",
            "--dry-run=server",
            "-p",
            r#"{"data":{"x":"2"}}"#,
        ]);
        kubectl.ok("delete configmap a --dry-run=server");
        assert_eq!(kubectl.json("get configmap a"), before);
    });
}

#[test]
fn validation_finds_unknown_fields() {
    each(|kubectl| {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  extra: 1\n  \
                    containers: [{name: c, image: x}]\n";
        for how in ["--validate=true", "--validate=strict"] {
            let said = kubectl.fails_fed(text, ["create", how, "-f", "-"]);
            assert!(said.contains("unknown field \"spec.extra\""), "{said}");
        }
        assert_eq!(kubectl.ok("get pod p --ignore-not-found"), "");
        let warned = kubectl.run("create --validate=warn -f -", text, &[]);
        assert_eq!(warned.out, "pod/p created\n");
        assert!(
            warned.err.contains("Warning: unknown field \"spec.extra\""),
            "{}",
            warned.err
        );
        let ignored = kubectl.run(
            "create --validate=ignore -f -",
            &text.replace("name: p", "name: q"),
            &[],
        );
        assert_eq!(ignored.out, "pod/q created\n");
        assert!(!ignored.err.contains("unknown field"), "{}", ignored.err);
    });
}
