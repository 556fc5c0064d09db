//! What the chart renders is accepted by a real API server, and has the rights of `deploy/rbac`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::helm::{Helm, chart, done};

const INSTALL_DOC: &str = include_str!("../../docs/install.md");

/// The values that the documentation names: every span of code that begins with `--set`.
fn documented() -> BTreeSet<Vec<String>> {
    let spans = INSTALL_DOC.split('`').skip(1).step_by(2);
    let sets = spans.filter(|span| span.starts_with("--set "));
    let values = |span: &str| -> Vec<String> {
        let words = span.split("--set ").map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    sets.map(values).collect()
}

#[test]
fn helm_lints_the_chart_without_a_finding() {
    let helm = Helm::find();
    let said = done(helm.command(&["lint", "--strict"]).arg(chart()));
    assert!(said.contains("1 chart(s) linted, 0 chart(s) failed"), "{said}");
}

#[test]
fn every_documented_combination_is_accepted_by_the_api_server() {
    let helm = Helm::find();
    let control_plane = berth_testbed::control_plane().unwrap();
    let mut all = documented();
    assert!(all.len() > 6, "{all:?}");
    all.insert(Vec::new());
    for values in all {
        let rendered = helm
            .template(&values)
            .unwrap_or_else(|error| panic!("{values:?}: {error}"));
        let mut kubectl = control_plane.kubectl();
        kubectl.args(["apply", "--dry-run=server", "--validate=strict", "--filename=-"]);
        kubectl
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = kubectl.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(rendered.as_bytes()).unwrap();
        drop(input);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{values:?}: {said}");
    }
}

#[test]
fn a_bad_value_is_refused_by_name() {
    let helm = Helm::find();
    let bad = [
        ("controller.replica=3", "additional properties 'replica' not allowed"),
        ("controller.replicas=0", "/controller/replicas"),
        ("controller.controllers={*,machine}", "/controller/controllers/1"),
        ("agent.maxUnavailable=0", "/agent/maxUnavailable"),
        ("agent.routes=aws", "/agent/routes"),
        ("agent.cniBinDir=opt", "/agent/cniBinDir"),
        ("metrics.address=localhost", "/metrics/address"),
        ("metrics.ports.agent=70000", "/metrics/ports/agent"),
        ("podIpsPolicy=true", "add pod-ips to controller.controllers"),
        ("networkUnavailablePolicy=true", "add route to controller.controllers"),
        ("controller.hostNetwork=false", "set it to 0.0.0.0"),
    ];
    for (value, named) in bad {
        let refused = helm.template(&[value.to_owned()]).unwrap_err();
        assert!(refused.contains(named), "{value}: {refused}");
    }
    let mut elsewhere = helm.command(&["template", "berth"]);
    let output = elsewhere.arg(chart()).args(["--namespace", "berth"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("--namespace kube-system"), "{said}");
}

/// As kubectl reads them, by kind, namespace and name.
fn objects(text: &str) -> BTreeMap<String, Value> {
    let mut kubectl = berth_testbed::control_plane().unwrap().kubectl();
    kubectl.args(["create", "--dry-run=client", "--output=json", "--filename=-"]);
    kubectl
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = kubectl.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let mut all = BTreeMap::new();
    for document in documents.map(Result::unwrap) {
        let items = match document["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![document],
        };
        for item in items {
            let metadata = &item["metadata"];
            let key = format!("{} {} {}", item["kind"], metadata["namespace"], metadata["name"]);
            all.insert(key, item);
        }
    }
    all
}

const RIGHTS: [&str; 7] = [
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// Only rights that last: the hook that removes the chart has rights of its own, for a moment.
fn rights_of(values: &[&str]) -> BTreeMap<String, Value> {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    let rendered = objects(&Helm::find().template(&values).unwrap());
    let is_right = |item: &Value| {
        let hook = &item["metadata"]["annotations"]["helm.sh/hook"];
        hook.is_null() && RIGHTS.iter().any(|kind| item["kind"] == *kind)
    };
    rendered.into_iter().filter(|(_, item)| is_right(item)).collect()
}

fn rights_in(files: &[&str]) -> BTreeMap<String, Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/rbac");
    let texts = files
        .iter()
        .map(|file| std::fs::read_to_string(directory.join(format!("{file}.yaml"))).unwrap());
    objects(&texts.collect::<Vec<_>>().join("\n---\n"))
}

#[test]
fn each_component_has_the_rights_of_deploy_and_no_others() {
    assert_eq!(rights_of(&[]), rights_in(&["controller", "agent"]));
    assert_eq!(rights_of(&["agent.enabled=false"]), rights_in(&["controller"]));
    assert_eq!(rights_of(&["controller.enabled=false"]), rights_in(&["agent"]));
    let all = rights_of(&[
        "controller.controllers={*,nodeipam,route,pod-ips,claim,cluster}",
        "agent.routes=linux",
        "scheduler.enabled=true",
        "dashboard.enabled=true",
    ]);
    let files = [
        "controller",
        "nodeipam",
        "route",
        "pod-ips",
        "claim",
        "cluster",
        "agent",
        "agent-routes",
        "scheduler",
        "dashboard",
    ];
    assert_eq!(all, rights_in(&files));
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = std::fs::read_to_string(chart().join("Chart.yaml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(chart.contains(&format!("\nappVersion: \"{version}\"\n")), "{chart}");
}
