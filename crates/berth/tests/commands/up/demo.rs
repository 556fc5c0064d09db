//! `berth up --demo`: each act says when it can be seen, and it can.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex};

use berth_api::Subnet;
use berth_testkit::until_ok;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::Value;

use super::berth;

/// One round. What follows a number is what was seen.
const ACTS: [&str; 9] = [
    "web runs with 6 pods",
    "web has grown to ",
    "the Subnet is full, and ",
    "batch is gone, and ",
    "node berth-node-2 is drained and gone",
    "node berth-node-2 is back",
    "3 machines have their network",
    "the machines are gone",
    "web has shrunk to 6 pods",
];

/// Ends with the test.
struct Demo {
    process: Child,
    lines: Receiver<String>,
}

impl Demo {
    fn start() -> Self {
        let mut command = berth();
        command.args(["up", "--demo", "--demo-interval", "1s", "--nodes", "2"]);
        command.args(["--api-listen", "127.0.0.1:0", "--dashboard-listen", "127.0.0.1:0"]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut lines = output.lines().map_while(Result::ok);
            lines.all(|line| sender.send(line).is_ok());
        });
        Self { process, lines }
    }

    /// Its next line. One that does not come says what the threads of the process wait for.
    async fn next(&self, what: &str) -> String {
        let look = async || match self.lines.try_recv() {
            Ok(line) => Ok(Some(line)),
            Err(TryRecvError::Disconnected) => Ok(None),
            Err(TryRecvError::Empty) => Err(threads(self.process.id())),
        };
        let line = until_ok(&format!("the demo says {what:?}"), look).await;
        line.unwrap_or_else(|| panic!("it ended before it said {what:?}"))
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Of each thread its name, and what it waits for in the kernel.
fn threads(process: u32) -> Vec<String> {
    let tasks = format!("/proc/{process}/task");
    let Ok(tasks) = std::fs::read_dir(tasks) else {
        return Vec::new();
    };
    let told = |task: &Path| {
        let read = |file| std::fs::read_to_string(task.join(file)).unwrap_or_default();
        format!(
            "{} {} {}",
            read("comm").trim(),
            read("wchan").trim(),
            read("syscall").trim()
        )
    };
    tasks.flatten().map(|task| told(&task.path())).collect()
}

/// What happened, in order.
type Seen = Arc<Mutex<Vec<String>>>;

fn watch<K>(
    api: Api<K>,
    seen: &Seen,
    tell: impl Fn(watcher::Event<K>) -> Option<String> + Send + 'static,
) where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let seen = Arc::clone(seen);
    tokio::spawn(async move {
        let events = watcher(api, watcher::Config::default());
        // It rests after an error: once the demo is gone there are only errors, and a task that
        // never waits keeps the runtime from ending.
        let mut events = std::pin::pin!(events.default_backoff());
        while let Some(event) = events.next().await {
            if let Some(line) = event.ok().and_then(&tell) {
                let mut seen = seen.lock().unwrap();
                if seen.last() != Some(&line) {
                    seen.push(line);
                }
            }
        }
    });
}

fn watch_all(client: &Client, seen: &Seen) {
    watch(Api::<Subnet>::all(client.clone()), seen, |event| {
        let watcher::Event::Apply(subnet) = event else {
            return None;
        };
        let conditions = subnet.status.as_ref().map(|status| &status.conditions)?;
        let exhausted = conditions.iter().find(|condition| condition.type_ == "Exhausted")?;
        (subnet.name_any() == "pods").then(|| format!("exhausted {}", exhausted.status))
    });
    watch(Api::<Node>::all(client.clone()), seen, |event| match event {
        watcher::Event::Delete(node) => Some(format!("{} goes", node.name_any())),
        watcher::Event::Apply(node) => {
            let is_new = node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true));
            is_new.then(|| format!("{} is there", node.name_any()))
        }
        _ => None,
    });
    let kind = GroupVersionKind::gvk("cluster.k8s.io", "v1alpha1", "Machine");
    let resource = ApiResource::from_gvk_with_plural(&kind, "machines");
    let machines: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    watch(machines, seen, |event| match event {
        watcher::Event::Delete(machine) => Some(format!("{} goes", machine.name_any())),
        watcher::Event::Apply(machine) => {
            let phase = machine.data.pointer("/status/phase").and_then(Value::as_str);
            Some(format!("{} {}", machine.name_any(), phase.unwrap_or("waits")))
        }
        _ => None,
    });
}

/// That these are in it in this order.
fn check_order(seen: &[String], lines: &[&str]) {
    let mut rest = seen.iter();
    for line in lines {
        assert!(rest.any(|seen| seen == line), "{line}: {seen:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_plays_every_act_and_each_can_be_seen() {
    let demo = Demo::start();
    let first = demo.next("that it is up").await;
    let kubeconfig = first.split_once("KUBECONFIG=").unwrap().1;
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let seen = Seen::default();
    watch_all(&client, &seen);
    for _ in 0..3 {
        demo.next("what to do next").await;
    }
    for act in ACTS {
        let line = demo.next(act).await;
        let told = line.strip_prefix("Demo:        ").unwrap();
        assert!(told.starts_with(act), "{act}: {line}");
    }
    let seen = seen.lock().unwrap().clone();
    check_order(&seen, &["exhausted True", "exhausted False"]);
    check_order(&seen, &["berth-node-2 goes", "berth-node-2 is there"]);
    for machine in ["machine-1", "machine-2", "machine-3"] {
        let provisioned = format!("{machine} Provisioned");
        let goes = format!("{machine} goes");
        check_order(&seen, &[&format!("{machine} waits"), &provisioned, &goes]);
    }
}

#[test]
fn the_demo_with_a_data_dir_is_refused_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = berth();
    command.args(["up", "--demo", "--data-dir"]).arg(directory.path());
    let output = command.output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("--demo") && text.contains("--data-dir"), "{text}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
