//! What `kubectl get` has printed can be given back to create, apply, replace and delete: one
//! object of each kind that is served by itself, and all of them in one list.

mod samples;

use std::collections::BTreeSet;

use super::{Kubectl, each};
use crate::definitions;
use crate::namespace::unique;
use crate::request::get;
use crate::target::{Capability, target};
use berth_testkit::until_so;
use samples::{Sample, samples};

/// Kinds that others bring: definitions of other tests, and what a real server has besides.
fn is_expected(group: &str) -> bool {
    let core = ["", "apps", "batch"].contains(&group);
    core || group.ends_with(".k8s.io") || ["acn.azure.com", "berth.dev"].contains(&group)
}

/// `plural.group` of all that can be made, read, written and deleted.
fn served() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in ["/api", "/apis"] {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let list = get(root).header("accept", accept).send().expect(200);
        for group in list["items"].as_array().unwrap() {
            let name = group["metadata"]["name"].as_str().unwrap_or_default();
            let versions = group["versions"].as_array().unwrap().iter();
            for resource in versions.flat_map(|version| version["resources"].as_array().unwrap()) {
                let verbs = resource["verbs"].as_array().unwrap();
                let all = ["create", "delete", "get", "update"];
                if is_expected(name) && all.iter().all(|verb| verbs.contains(&(*verb).into())) {
                    let plural = resource["resource"].as_str().unwrap();
                    found.insert(format!("{plural}.{name}").trim_end_matches('.').to_owned());
                }
            }
        }
    }
    found
}

#[test]
fn no_served_kind_is_forgotten_in_these_tests() {
    definitions::serve();
    if !target().can(Capability::VirtualPods) {
        // A real server has kinds that the embedded one leaves out.
        return;
    }
    let known: BTreeSet<String> =
        samples("a", "a").into_iter().map(|sample| sample.resource).collect();
    assert_eq!(served(), known);
}

#[test]
fn one_object_of_each_kind_goes_back_as_it_was_printed() {
    definitions::serve();
    each(|kubectl| {
        // In turns: all of them in both forms are in the list below.
        let forms = ["json", "yaml"].iter().cycle();
        for (sample, form) in samples(&kubectl.name, &unique("one")).iter().zip(forms) {
            have(kubectl, sample);
            let names = [sample.reference()];
            replace(kubectl, &names, form);
            let printed = apply(kubectl, &names, form);
            kubectl.fed(&printed, "delete -f -");
            kubectl.fed(&printed, "create -f -");
        }
    });
}

#[test]
fn a_list_of_all_kinds_goes_back_as_it_was_printed() {
    definitions::serve();
    each(|kubectl| {
        let samples = samples(&kubectl.name, &unique("all"));
        let names: Vec<String> = samples.iter().map(Sample::reference).collect();
        samples.iter().for_each(|sample| have(kubectl, sample));
        for form in ["yaml", "json"] {
            replace(kubectl, &names, form);
            let printed = apply(kubectl, &names, form);
            kubectl.fed(&printed, "delete -f -");
            let made = kubectl.fed(&printed, "create -f -");
            assert_eq!(made.lines().count(), names.len(), "{made}");
        }
    });
}

/// kubectl checks the items of a list by itself, and must still find what is wrong with them.
#[test]
fn an_item_with_an_unknown_field_is_refused() {
    each(|kubectl| {
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}},
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
             "spec": {"extra": 1, "containers": [{"name": "c", "image": "x"}]}}]}"#;
        let said = kubectl.fails_fed(list, "create -f -");
        assert!(
            said.contains("unknown field \"extra\" in io.k8s.api.core.v1.PodSpec"),
            "{said}"
        );
        assert_eq!(kubectl.ok("get configmap a pod p --ignore-not-found"), "");
    });
}

fn have(kubectl: &Kubectl, sample: &Sample) {
    if let Some(path) = &sample.outside {
        kubectl.with(path);
    }
    kubectl.fed(&sample.object.to_string(), "create -f -");
}

fn printed(kubectl: &Kubectl, names: &[String], form: &str) -> String {
    let mut line: Vec<&str> = vec!["get", "-o", form];
    line.extend(names.iter().map(String::as_str));
    kubectl.ok(line)
}

/// Gives back what was printed. A controller may have written in between: then what it has written
/// is printed, and given back.
fn give_back(kubectl: &Kubectl, names: &[String], form: &str, line: &str) {
    until_so(line, || {
        let outcome = kubectl.run(line, &printed(kubectl, names, form), &[]);
        let conflict = outcome.err.contains("the object has been modified");
        assert!(
            outcome.code == 0 || conflict,
            "{}: {line}\n{}",
            kubectl.program.display(),
            outcome.err
        );
        outcome.code == 0
    });
}

fn replace(kubectl: &Kubectl, names: &[String], form: &str) {
    give_back(kubectl, names, form, "replace -f -");
}

/// Gives what is printed then.
fn apply(kubectl: &Kubectl, names: &[String], form: &str) -> String {
    give_back(kubectl, names, form, "apply -f -");
    let printed = printed(kubectl, names, form);
    let applied = printed
        .matches("kubectl.kubernetes.io/last-applied-configuration")
        .count();
    assert_eq!(applied, names.len(), "{printed}");
    printed
}
