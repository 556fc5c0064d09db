//! The example of machines, as a person applies it and looks at it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::pods::{has_kubectl, kubectl};
use super::{Running, up};

const NAMES: [&str; 3] = ["machine1", "machine2", "machine3"];

/// Every version of every Machine that comes from now on.
async fn watch(client: Client) -> mpsc::UnboundedReceiver<DynamicObject> {
    let (versions, receiver) = mpsc::unbounded_channel();
    let (begun, begins) = oneshot::channel();
    let kind = GroupVersionKind::gvk("cluster.k8s.io", "v1alpha1", "Machine");
    let resource = ApiResource::from_gvk_with_plural(&kind, "machines");
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    tokio::spawn(async move {
        let mut begun = Some(begun);
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()));
        while let Some(event) = events.next().await {
            match event.unwrap() {
                watcher::Event::Apply(machine) => drop(versions.send(machine)),
                watcher::Event::InitDone => drop(begun.take().map(|begun| begun.send(()))),
                _ => {}
            }
        }
    });
    begins.await.unwrap();
    receiver
}

/// Where it is on its way.
fn step(machine: &DynamicObject) -> &'static str {
    let annotation = "machine-controller.kubermatic.io/initializers";
    let waits_for = machine.annotations().get(annotation).map(String::as_str);
    let network = machine.data.pointer("/spec/providerSpec/value/network");
    let phase = machine.data.pointer("/status/phase").and_then(Value::as_str);
    match (waits_for.unwrap_or_default(), network, phase) {
        ("ipam.berth.dev", _, None) => "gated",
        ("", Some(_), None) => "open",
        ("", Some(_), Some("Provisioned")) => "provisioned",
        other => panic!("{}: {other:?}", machine.name_any()),
    }
}

/// Of several threads: kubectl blocks one.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_machines_shows_the_workflow_step_by_step() {
    if !has_kubectl() {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let mut command = up(parent.path());
    command.args(["--nodes", "1", "--in-memory"]);
    let berth = Running::start(command);
    let mut versions = watch(berth.client().await).await;
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/machines.yaml");
    kubectl(&berth, &format!("apply -f {}", example.display()));
    let mut steps: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    let done = |steps: &BTreeMap<String, Vec<&str>>| {
        NAMES.iter().all(|name| {
            steps
                .get(*name)
                .is_some_and(|steps| steps.last() == Some(&"provisioned"))
        })
    };
    while !done(&steps) {
        let machine = versions.recv().await.unwrap();
        let seen = steps.entry(machine.name_any()).or_default();
        let step = step(&machine);
        if seen.last() != Some(&step) {
            seen.push(step);
        }
    }
    for (name, steps) in &steps {
        assert_eq!(*steps, ["gated", "open", "provisioned"], "{name}");
    }

    // Also when the condition, which is for people only, comes last.
    let shown = loop {
        let shown = kubectl(&berth, "get machines -o wide");
        if shown.matches("Allocated").count() == NAMES.len() {
            break shown;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let rows: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "ADDRESS", "NETWORK", "PHASE", "WAITS-FOR", "AGE"]);
    let mut addresses: BTreeMap<&str, &str> = BTreeMap::new();
    for row in &rows[1..] {
        assert_eq!(row[2..4], ["Allocated", "Provisioned"], "{row:?}");
        addresses.insert(row[0], row[1]);
    }
    assert_eq!(addresses.len(), NAMES.len());
    assert_eq!(addresses["machine3"], "192.168.1.200/25", "set by hand");
    let mut given = vec![addresses["machine1"], addresses["machine2"]];
    given.sort_unstable();
    let older = loop {
        let line = "get machines.machine.k8s.io machine4 -o jsonpath={..network.ip}";
        let older = kubectl(&berth, line);
        if !older.is_empty() {
            break older;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    given.push(&older);
    let lowest = ["192.168.1.129", "192.168.1.130", "192.168.1.131"];
    assert!(
        given.iter().all(|ip| lowest.iter().any(|low| ip.starts_with(low))),
        "{given:?}"
    );
    let document = kubectl(
        &berth,
        "get secret machine-machine1 -o go-template={{.data.userData|base64decode}}",
    );
    assert!(document.starts_with("#cloud-config"), "{document}");
    assert!(document.contains(addresses["machine1"]), "{document}");
}
