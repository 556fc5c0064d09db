//! Custom resources: definitions, then their objects.

use std::path::Path;

use berth_testkit::until_so;
use kube::ResourceExt;
use serde_json::json;

use super::{Kubectl, each, row};
use crate::definitions;
use crate::namespace::unique;
use crate::target::target;

fn definition(kubectl: &Kubectl, group: &str, short: &str) {
    let text = format!(
        r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: boats.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: boats, singular: boat, kind: Boat, shortNames: [{short}]}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {{}}
      scale: {{specReplicasPath: .spec.oars, statusReplicasPath: .status.oars}}
    additionalPrinterColumns:
    - {{name: Size, type: integer, jsonPath: .spec.size}}
    - {{name: Age, type: date, jsonPath: .metadata.creationTimestamp}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What is wanted of a boat.
            required: [size]
            properties:
              size: {{type: integer, description: Length in metres., minimum: 1}}
              oars: {{type: integer, default: 2}}
          status:
            type: object
            properties:
              oars: {{type: integer}}
"#
    );
    kubectl.with(format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.{group}"
    ));
    assert_eq!(
        kubectl.fed(&text, "apply -f -"),
        format!("customresourcedefinition.apiextensions.k8s.io/boats.{group} created\n")
    );
    let line = format!("wait --for=condition=Established crd/boats.{group} --timeout=300s");
    assert!(kubectl.ok(&line).contains("condition met"));
    known(kubectl, &format!("boats.{group}"));
}

/// A real server publishes names and schema of a definition some time after it is established.
fn known(kubectl: &Kubectl, resource: &str) {
    until_so("discovery and schema are published", || {
        let (get, explain) = (format!("get {resource}"), format!("explain {resource}"));
        [get, explain].iter().all(|line| kubectl.run(line, "", &[]).code == 0)
    });
}

#[test]
fn a_definition_and_then_its_resources_can_be_applied() {
    each(|kubectl| {
        let group = format!("{}.example.com", unique("g"));
        let short = unique("bt");
        definition(kubectl, &group, &short);
        let boat = |spec: &str| {
            format!("apiVersion: {group}/v1\nkind: Boat\nmetadata: {{name: a}}\nspec: {spec}\n")
        };
        assert_eq!(
            kubectl.fed(&boat("{size: 7}"), "apply -f -"),
            format!("boat.{group}/a created\n")
        );
        assert_eq!(
            kubectl.fed(&boat("{size: 7}"), "apply -f -"),
            format!("boat.{group}/a unchanged\n")
        );
        assert_eq!(
            kubectl.fed(&boat("{size: 8}"), "apply -f -"),
            format!("boat.{group}/a configured\n")
        );
        let table = kubectl.ok(["get", &short]);
        assert!(table.starts_with("NAME   SIZE   AGE\n"), "{table}");
        assert_eq!(row(&table, "a")[1], "8");
        let resource = format!("boats.{group}");
        let object = kubectl.json(&format!("get {resource} a"));
        assert_eq!(object["spec"], json!({"size": 8, "oars": 2}));
        assert_eq!(object["metadata"]["generation"], 2);

        kubectl.ok(["scale", &resource, "a", "--replicas=6"]);
        assert_eq!(kubectl.ok(["get", &resource, "a", "-o", "jsonpath={.spec.oars}"]), "6");
        let explained = kubectl.ok(["explain", &format!("{resource}.spec")]);
        assert!(explained.contains("What is wanted of a boat."), "{explained}");
        assert!(explained.contains("size\t<integer> -required-"), "{explained}");
        let refused = kubectl.fails_fed(&boat("{size: 0}"), "apply -f -");
        assert!(refused.contains("spec.size: Invalid value: 0"), "{refused}");
        let unknown = kubectl.fails_fed(&boat("{size: 1, sails: 3}"), "apply -f -");
        assert!(unknown.contains("unknown field \"spec.sails\""), "{unknown}");

        kubectl.ok(["delete", "crd", &resource]);
        until_so("discovery forgets it", || {
            let gone = kubectl.run(["get", &resource], "", &[]);
            gone.err.contains("the server doesn't have a resource type")
        });
    });
}

fn crds() -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
    directory.to_string_lossy().into_owned()
}

#[test]
fn the_projects_own_definitions_can_be_applied_and_used() {
    each(|kubectl| {
        definitions::serve();
        let count = std::fs::read_dir(crds()).unwrap().count();
        let applied = kubectl.ok(["apply", "-f", &crds()]);
        assert_eq!(applied.lines().count(), count, "{applied}");
        let crd = "crd/nodenetworkconfigs.acn.azure.com";
        kubectl.ok(["wait", "--for=condition=Established", crd, "--timeout=300s"]);
        known(kubectl, "nnc");

        let config = "apiVersion: acn.azure.com/v1alpha\nkind: NodeNetworkConfig\nmetadata: {name: \
                      a}\nspec: {requestedIPCount: 16}\n";
        kubectl.fed(config, "apply -f -");
        assert!(kubectl.ok("get nnc").contains("NC MODE"));
        kubectl.ok([
            "patch",
            "nnc",
            "a",
            "--type=merge",
            "-p",
            r#"{"spec":{"requestedIPCount":32}}"#,
        ]);
        assert_eq!(kubectl.json("get nnc a")["spec"]["requestedIPCount"], 32);
        let refused = kubectl.fails([
            "patch",
            "nnc",
            "a",
            "--type=merge",
            "-p",
            r#"{"spec":{"requestedIPCount":-1}}"#,
        ]);
        assert!(refused.contains("spec.requestedIPCount"), "{refused}");
        assert_eq!(
            kubectl.ok(["apply", "-f", &crds()]).matches(" unchanged").count(),
            count
        );
    });
}

#[test]
fn kubectl_explain_of_our_crds_matches_the_embedded_server() {
    each(|kubectl| {
        definitions::serve();
        let beside = target().beside();
        let beside = format!("--kubeconfig={}", beside.display());
        kubectl.ok([&beside, "apply", "-f", &crds()]);
        for definition in berth_api::crds::all() {
            let resource = definition.name_any();
            known(kubectl, &resource);
            // A part that a kind does not have is refused alike.
            for what in ["", ".spec", ".status", " --recursive"] {
                let line = format!("explain {resource}{what}");
                let here = kubectl.run(&line, "", &[]);
                let there = kubectl.run(&format!("{beside} {line}"), "", &[]);
                assert_eq!(
                    (here.code, here.out, here.err),
                    (there.code, there.out, there.err),
                    "{line}"
                );
            }
        }
        let explained = kubectl.ok("explain nnc.spec");
        assert!(explained.contains("requestedIPCount\t<integer>"), "{explained}");
        assert!(explained.contains("FIELD: spec <Object>"), "{explained}");
    });
}
