//! Every cause that Berth can report is explained. The tests read the reasons from the sources and
//! make each of them happen: the explanation must have a next step.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use berth_inspect::explain::{self, Explanation, GOOD, REFUSALS, STEPS, step};
use berth_kit::watch::Key;
use serde_json::json;

use super::scene::{Scene, key};

/// Where a reason is seen.
#[derive(Clone, Copy)]
enum At {
    /// In a warning about an object of this kind.
    Event(&'static str),
    /// In a condition of the object, of this type and status.
    Node(&'static str, &'static str),
    Subnet(&'static str, &'static str),
    /// In the condition NetworkAllocated.
    Machine,
    /// In the phase of a machine that is not gated any more.
    Provider,
    /// In the condition Ready.
    Claim,
}

use At::{Claim, Event, Machine, Node, Provider, Subnet};

const AVAILABLE: At = Node("berth.dev/PodAddressesAvailable", "False");

const REPORTED: &[(&str, &[At])] = &[
    ("NoSubnet", &[Event("Node"), Event("NodeNetworkConfig")]),
    ("SubnetFull", &[Event("Node"), Event("NodeNetworkConfig"), AVAILABLE]),
    ("SubnetGone", &[Event("NodeNetworkConfig")]),
    ("SubnetChanged", &[Event("Node"), Event("NodeNetworkConfig")]),
    ("TooManyRequested", &[Event("NodeNetworkConfig")]),
    ("NotAdopted", &[Event("NodeNetworkConfig")]),
    ("PodCIDRNotRecorded", &[Event("Node")]),
    (
        "Reclaimed",
        &[Event("NodeNetworkConfig"), Event("Subnet"), Event("Machine")],
    ),
    ("NoNetworkContainer", &[AVAILABLE]),
    ("Quarantined", &[AVAILABLE]),
    ("MaxIPCountReached", &[AVAILABLE]),
    ("AllocatablePodsReached", &[AVAILABLE]),
    ("PodCIDRFull", &[AVAILABLE]),
    ("WrongMachine", &[Event("Node")]),
    ("AddressReclaimed", &[Event("Node")]),
    ("NoRouteCreated", &[Node("NetworkUnavailable", "True")]),
    ("FailedToCreateRoute", &[Event("Node")]),
    ("Invalid", &[Subnet("Ready", "False")]),
    (
        "Overlapping",
        &[Subnet("Ready", "False"), Subnet("Overlapping", "True")],
    ),
    ("ServiceCIDR", &[Subnet("Overlapping", "True")]),
    ("InUse", &[Subnet("Ready", "False")]),
    ("WrongCluster", &[Subnet("Ready", "False")]),
    ("Deleting", &[Subnet("Ready", "False")]),
    ("SubnetInUse", &[Event("Subnet")]),
    ("NotReady", &[Subnet("Exhausted", "Unknown")]),
    ("Exhausted", &[Subnet("Exhausted", "True")]),
    ("AddressesAwaited", &[Subnet("Exhausted", "True")]),
    (
        "AddressConflict",
        &[Subnet("Conflict", "True"), Event("NodeNetworkConfig"), Machine],
    ),
    ("LedgerRestored", &[Event("Subnet")]),
    ("NoFreeAddress", &[Machine, Event("Machine")]),
    ("NoNetwork", &[Machine, Event("Machine")]),
    ("InvalidNetwork", &[Machine, Event("Machine")]),
    ("NetworkOutside", &[Event("Machine")]),
    ("NetworkDiffers", &[Event("Subnet")]),
    ("Failed", &[Provider]),
    ("InvalidMachineNetwork", &[Event("Cluster")]),
    ("NoGate", &[Event("Cluster")]),
    ("AllocationFailed", &[Claim, Event("IPAddressClaim")]),
    ("PoolNotReady", &[Claim, Event("IPAddressClaim")]),
    ("PoolExhausted", &[Claim, Event("IPAddressClaim")]),
    ("FailedCreatePodSandBox", &[Event("Pod")]),
    ("FailedKillPod", &[Event("Pod")]),
];

/// Reasons of a kubelet: our sources do not give them.
const OTHERS: [&str; 2] = ["FailedCreatePodSandBox", "FailedKillPod"];

/// Words of the sources that look like a reason and are none: kinds, types and statuses of
/// conditions, actions of events, fields, names of types. A new word is a reason, or goes here.
const NO_REASONS: &[&str] = &[
    "AdmissionReview",
    "Adopt",
    "AgentContext",
    "Allocate",
    "AllocateCIDR",
    "Apply",
    "Claim",
    "CloudControllerManagerWatchBasedRoutesReconciliation",
    "Cluster",
    "Conflict",
    "CreateRoute",
    "CustomResourceDefinition",
    "Delete",
    "Deployment",
    "Equivalent",
    "Error",
    "Fail",
    "False",
    "IfNeeded",
    "InternalIP",
    "ListPodSandbox",
    "MutatingAdmissionPolicy",
    "MutatingWebhookConfiguration",
    "NetworkAllocated",
    "NetworkUnavailable",
    "Node",
    "None",
    "NumPDBViolations",
    "Options",
    "PascalCase",
    "PodIps",
    "PodName",
    "PodNamespace",
    "PodSandboxStatus",
    "PodUID",
    "Ready",
    "Reclaim",
    "Record",
    "Register",
    "Routes",
    "RuntimeDefault",
    "Secret",
    "Serve",
    "ServiceAccount",
    "Session",
    "Subnet",
    "True",
    "Unknown",
    "View",
    "WaitList",
];

fn sources(directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        // What a cloud answers is in the note of FailedToCreateRoute.
        if path.is_dir() && name != "tests" && name != "backend" {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).unwrap();
            found.push(text.split("#[cfg(test)]").next().unwrap().to_owned());
        }
    }
}

fn of_crates(names: &[&str]) -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for name in names {
        sources(&crates.join(name).join("src"), &mut found);
    }
    assert!(!found.is_empty());
    found
}

/// Every literal that is one word in CamelCase.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    literals.filter(|word| {
        let mut letters = word.chars();
        letters.next().is_some_and(|first| first.is_ascii_uppercase())
            && letters.next().is_some_and(|second| second.is_ascii_lowercase())
            && word.chars().all(|letter| letter.is_ascii_alphanumeric())
    })
}

#[test]
fn every_reason_in_the_sources_is_explained() {
    let sources = of_crates(&["agent", "nodenet", "machines", "routes", "scheduler"]);
    let mut given: BTreeSet<&str> = sources.iter().flat_map(|text| words(text)).collect();
    for word in NO_REASONS {
        assert!(
            given.remove(word),
            "{word} is in no source any more: take it out of NO_REASONS"
        );
    }
    let known: BTreeSet<&str> = STEPS.iter().map(|(reason, _)| *reason).collect();
    let explained: BTreeSet<&str> = known
        .iter()
        .chain(GOOD)
        .copied()
        .filter(|one| !OTHERS.contains(one))
        .collect();
    let missing: Vec<&&str> = given.difference(&explained).collect();
    assert!(missing.is_empty(), "no next step in explain/reason.rs for {missing:?}");
    let unused: Vec<&&str> = explained.difference(&given).collect();
    assert!(unused.is_empty(), "nobody gives {unused:?} any more");
    let reported: BTreeSet<&str> = REPORTED.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(reported, known, "each is made to happen below");
}

#[test]
fn each_reason_is_told_with_what_was_said_and_the_next_step() {
    for (reason, places) in REPORTED {
        for at in *places {
            let said = format!("because of {reason}.");
            let told = happens(*at, reason, &said);
            let text = told.sentences.join(" ");
            let expected = match at {
                // The message of the condition says no more than this.
                Subnet("Exhausted", "True") => "It is exhausted: nodes keep one spare address",
                _ => &said,
            };
            assert!(text.contains(expected), "{reason}: {text}");
            assert!(!text.contains(".."), "{reason}: {text}");
            let step = step(reason).unwrap().to_owned();
            assert!(told.next_steps.contains(&step), "{reason}: {told:?}");
        }
    }
}

/// Makes the reason happen, and explains its object.
fn happens(at: At, reason: &str, message: &str) -> Explanation {
    let mut scene = Scene::healthy();
    let condition = |kind: &str, status: &str| {
        let condition = json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-11-16T00:00:00Z",
        });
        json!([condition])
    };
    match at {
        Event(kind) => return warned(&mut scene, kind, reason, message),
        Node(kind, status) => {
            scene.node("n1", condition(kind, status));
            explain::node(&scene.facts(), "n1")
        }
        Subnet(kind, status) => {
            scene.conditions("pods", condition(kind, status));
            explain::subnet(&scene.facts(), "pods")
        }
        Machine | Provider => {
            let gated = matches!(at, Machine);
            scene.failed_machine("m1", gated, reason, message);
            explain::machine(&scene.facts(), &key("", "m1"))
        }
        Claim => {
            scene.claim("c1", reason, message);
            explain::claim(&scene.facts(), &key("default", "c1"))
        }
    }
    .unwrap()
}

fn warned(scene: &mut Scene, kind: &str, reason: &str, message: &str) -> Explanation {
    let about: Key = match kind {
        "Node" => key("", "n1"),
        "NodeNetworkConfig" => key("kube-system", "n1"),
        "Subnet" => key("", "pods"),
        "Machine" => key("", "m1"),
        "IPAddressClaim" => key("default", "c1"),
        "Cluster" => key("", "c1"),
        _ => key("default", "web"),
    };
    scene.machine("m1", Some("10.20.0.5"), "");
    scene.claim("c1", "", "");
    scene.cluster("c1");
    scene.warning(kind, about.clone(), reason, message);
    let facts = scene.facts();
    let told = match kind {
        "Node" | "NodeNetworkConfig" => explain::node(&facts, "n1"),
        "Subnet" => explain::subnet(&facts, "pods"),
        "Machine" => explain::machine(&facts, &about),
        "IPAddressClaim" => explain::claim(&facts, &about),
        "Cluster" => explain::cluster(&facts, "c1"),
        _ => explain::pod(&facts, &about),
    };
    let told = told.unwrap();
    let text = told.sentences.join(" ");
    assert!(text.contains(&format!("{reason}, 14 s ago: because")), "{text}");
    told
}

#[test]
fn of_several_warnings_the_last_of_each_reason_is_told() {
    let mut scene = Scene::healthy();
    for note in ["first", "second"] {
        scene.warning("Node", key("", "n1"), "WrongMachine", note);
    }
    scene.warning("Node", key("", "n2"), "WrongMachine", "of another node");
    scene.warning("Node", key("", "n1"), "Rebooted", "not ours");
    let told = explain::node(&scene.facts(), "n1").unwrap().sentences.join(" ");
    assert_eq!(told.matches("WrongMachine").count(), 1, "{told}");
    assert!(!told.contains("another node") && !told.contains("not ours"), "{told}");
}

#[test]
fn every_text_of_the_scheduler_has_a_next_step() {
    let scheduler = of_crates(&["scheduler"]);
    let refusals = scheduler.iter().find(|text| text.contains("pub enum Refusal")).unwrap();
    let texts: Vec<String> = refusals
        .lines()
        .filter_map(|line| line.trim().strip_prefix("#[error(\"")?.strip_suffix("\")]"))
        .map(|text| text.replace("{subnet}", "pods").replace("{node}", "n2"))
        .collect();
    assert_eq!(texts.len(), refusals.matches("#[error(").count());
    let mut used = BTreeSet::new();
    for text in &texts {
        let said = REFUSALS.iter().filter(|(part, _)| text.contains(part));
        let said: Vec<_> = said.collect();
        assert_eq!(said.len(), 1, "{text}: {said:?}");
        used.insert(said[0].0);
        let mut scene = Scene::healthy();
        scene.unschedulable("web", &format!("0/3 nodes are available: 3 {text}."));
        let told = explain::pod(&scene.facts(), &key("default", "web")).unwrap();
        assert!(told.sentences.join(" ").contains(text), "{told:?}");
        assert!(told.next_steps.contains(&said[0].1.to_owned()), "{told:?}");
    }
    assert_eq!(used.len(), REFUSALS.len(), "each is said by the scheduler");
}
