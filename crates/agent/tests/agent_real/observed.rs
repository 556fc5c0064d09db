//! The two observers: a real containerd with a real kubelet's pods in it, and a real API server.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use berth_agent::cri::{Cri, Sandbox};
use berth_agent::follow;
use berth_agent::reclaim::{Reclaim, ReclaimError};
use berth_api::agent::Request;
use berth_api::cni::{Attachment, PodRef};
use berth_kit::events::{EventMetrics, Recorder};
use berth_testbed::{Cluster, POD_IMAGE, logs_of};
use berth_testkit::{until, until_ok};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::events::Reporter;
use kube::{Client, Config};
use prometheus_client::registry::Registry;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;

use crate::scene::node::Node;

/// A containerd without a cluster, all of it in one directory.
struct Containerd {
    child: Child,
    directory: tempfile::TempDir,
}

impl Containerd {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let child = Self::run(directory.path());
        Self { child, directory }
    }

    fn run(directory: &Path) -> Child {
        let configuration = directory.join("config.toml");
        let cni = directory.join("cni");
        let text = format!(
            "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\nbin_dir = \
             \"{0}\"\nconf_dir = \"{0}\"\n",
            cni.display()
        );
        std::fs::write(&configuration, text).unwrap();
        let log = File::create(directory.join("log")).unwrap();
        Command::new("containerd")
            .arg("--config")
            .arg(configuration)
            .arg("--root")
            .arg(directory.join("root"))
            .arg("--state")
            .arg(directory.join("state"))
            .arg("--address")
            .arg(directory.join("containerd.sock"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("containerd.sock")
    }

    fn restart(&mut self) {
        self.end();
        self.child = Self::run(self.directory.path());
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        self.end();
    }
}

/// For a runtime that starts: it is asked again until it answers.
async fn listed(cri: &Cri) -> Vec<Sandbox> {
    until_ok("the runtime answers", async || cri.sandboxes().await).await
}

#[tokio::test]
async fn the_runtime_client_reconnects_after_a_runtime_restart() {
    let mut containerd = Containerd::start();
    let cri = Cri::connect(containerd.socket());
    assert_eq!(listed(&cri).await, []);
    assert!(cri.addresses("none").await.unwrap().is_empty());
    containerd.restart();
    assert_eq!(listed(&cri).await, []);
}

/// One node, for all tests. It ends with the program.
static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| {
    let cluster = Cluster::named("observed").nodes(1);
    cluster.logs(logs_of("observed_real").unwrap()).start().unwrap()
});

fn kubectl(arguments: &[&str]) -> String {
    let output = CLUSTER.kubectl().args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns when they run.
fn run_pods(pods: &[(&str, bool)]) {
    let mut documents = String::new();
    for (name, host_network) in pods {
        documents.push_str(&format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  \
             hostNetwork: {host_network}\n  terminationGracePeriodSeconds: 0\n  \
             containers:\n  - {{name: a, image: '{POD_IMAGE}', imagePullPolicy: Never, \
             command: [sleep, infinity]}}\n"
        ));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), documents).unwrap();
    kubectl(&["apply", "-f", file.path().to_str().unwrap()]);
    for (name, _) in pods {
        kubectl(&[
            "wait",
            &format!("pod/{name}"),
            "--for=condition=Ready",
            "--timeout=300s",
        ]);
    }
}

fn field(pod: &str, path: &str) -> String {
    kubectl(&["get", "pod", pod, "-o", &format!("jsonpath={{{path}}}")])
}

fn runtime() -> Cri {
    Cri::connect(CLUSTER.nodes()[0].path("/run/containerd/containerd.sock"))
}

fn of<'a>(sandboxes: &'a [Sandbox], pod: &str) -> &'a Sandbox {
    let mut found = sandboxes.iter().filter(|sandbox| sandbox.pod.name == pod);
    let sandbox = found.next().unwrap();
    assert!(found.next().is_none(), "{sandboxes:?}");
    sandbox
}

#[tokio::test]
async fn a_sandbox_has_its_pod_and_address_until_it_is_deleted() {
    run_pods(&[("own", false), ("hosts", true)]);
    let (uid, address) = (field("own", ".metadata.uid"), field("own", ".status.podIP"));
    let cri = runtime();
    let sandboxes = cri.sandboxes().await.unwrap();
    let own = of(&sandboxes, "own");
    assert_eq!(
        (own.pod.namespace.as_str(), own.pod.uid.as_str()),
        ("default", uid.as_str())
    );
    assert!(own.ready && own.id.len() == 64, "{own:?}");
    assert!(own.created > SystemTime::UNIX_EPOCH && own.created <= SystemTime::now());
    let address: IpAddr = address.parse().unwrap();
    // By the CRI and by the runtime's own words, and told once.
    let expected = BTreeMap::from([("eth0".to_owned(), vec![address])]);
    assert_eq!(cri.addresses(&own.id).await.unwrap(), expected);
    let hosts = of(&sandboxes, "hosts");
    assert!(cri.addresses(&hosts.id).await.unwrap().is_empty());

    kubectl(&["delete", "pod", "own"]);
    let is_listed =
        async |id: &str| cri.sandboxes().await.unwrap().iter().any(|sandbox| sandbox.id == id);
    until("the sandbox is gone", async || {
        (!is_listed(&own.id).await).then_some(())
    })
    .await;
    assert!(cri.addresses(&own.id).await.unwrap().is_empty());
}

fn request(container: &str, pod: &PodRef, started: u64) -> Request {
    Request {
        attachment: Attachment::new(container, "eth0").unwrap(),
        network: "pods".to_owned(),
        pod: pod.clone(),
        started,
        desired: Vec::new(),
        wait_ms: 0,
    }
}

async fn client() -> Client {
    let kubeconfig = Kubeconfig::read_from(CLUSTER.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Nobody listens there.
fn nowhere() -> Client {
    Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap()
}

fn holders(node: &Node) -> Vec<String> {
    node.agent
        .holdings()
        .into_keys()
        .map(|attachment| attachment.container)
        .collect()
}

#[tokio::test]
async fn what_both_observers_miss_is_taken_back_with_an_event() {
    run_pods(&[("kept", false), ("releasing", false)]);
    let client = client().await;
    let node = Node::named(CLUSTER.nodes()[0].name());
    node.deliver(&["10.64.1.1", "10.64.1.2", "10.64.1.3", "10.64.1.4", "10.64.1.5"]);
    let agent = &node.agent;
    tokio::spawn(follow::pods(client.clone(), agent.clone()));
    until("the pods are seen", async || {
        agent.pods().filter(|pods| pods.len() >= 2).map(drop)
    })
    .await;

    let sandboxes = runtime().sandboxes().await.unwrap();
    let (kept, releasing) = (of(&sandboxes, "kept"), of(&sandboxes, "releasing"));
    let ghost = PodRef {
        name: "ghost".to_owned(),
        ..kept.pod.clone()
    };
    let nobody = PodRef::default();
    let attached = [
        ("earlier", &kept.pod),
        (kept.id.as_str(), &kept.pod),
        (releasing.id.as_str(), &releasing.pod),
        ("ghost", &ghost),
        ("person", &nobody),
    ];
    for (container, pod) in attached {
        agent.request(request(container, pod, agent.now())).await.unwrap();
    }

    // A observer that can't be asked: however often, nothing happens.
    let directory = tempfile::tempdir().unwrap();
    let mut no_runtime = Reclaim::new(
        agent.clone(),
        Cri::connect(directory.path().join("none")),
        Duration::ZERO,
    );
    for _ in 0..5 {
        let error = no_runtime.pass(&client).await.unwrap_err();
        assert!(matches!(error, ReclaimError::Runtime(_)), "{error}");
    }
    let mut no_server = Reclaim::new(agent.clone(), runtime(), Duration::ZERO);
    for _ in 0..2 {
        assert_eq!(no_server.pass(&nowhere()).await.unwrap(), []);
    }
    for _ in 0..3 {
        let error = no_server.pass(&nowhere()).await.unwrap_err();
        assert!(matches!(error, ReclaimError::ApiServer { .. }), "{error}");
    }
    // And a grace period that is not over.
    let mut patient = Reclaim::new(agent.clone(), runtime(), Duration::from_secs(3600));
    for _ in 0..5 {
        assert_eq!(patient.pass(&client).await.unwrap(), []);
    }
    assert_eq!(holders(&node).len(), attached.len());

    let mut registry = Registry::default();
    let reporter = Reporter {
        controller: "berth-agent".to_owned(),
        instance: None,
    };
    let metrics = EventMetrics::register(&mut registry);
    let (events, writer) =
        Recorder::new(client.clone(), reporter, &metrics, StdRng::seed_from_u64(1));
    let stop = CancellationToken::new();
    let written = tokio::spawn(writer.run(stop.clone()));
    let reclaim =
        Reclaim::new(agent.clone(), runtime(), Duration::ZERO).every(Duration::from_millis(500));
    let running = tokio::spawn(reclaim.run(client.clone(), events, stop.clone()));
    let mut expected = vec![kept.id.clone(), releasing.id.clone(), "person".to_owned()];
    expected.sort();
    until("two are taken back", async || {
        (holders(&node) == expected).then_some(())
    })
    .await;
    kubectl(&["delete", "pod", "releasing"]);
    expected.retain(|holder| *holder != releasing.id);
    until("the third is taken back", async || {
        (holders(&node) == expected).then_some(())
    })
    .await;
    let metrics = node.metrics();
    assert!(
        metrics.contains("berth_agent_reclaimed_total") && metrics.contains("} 3\n"),
        "{metrics}"
    );
    until("there is an event on the node", async || {
        let events = kubectl(&["get", "events", "--all-namespaces", "--output=json"]);
        let words = [
            "AddressReclaimed",
            "default/ghost",
            "default/releasing",
            "its sandbox was recreated",
        ];
        words.iter().all(|word| events.contains(word)).then_some(())
    })
    .await;
    let described = kubectl(&["describe", "node", agent.node()]);
    assert!(described.contains("AddressReclaimed"), "{described}");
    stop.cancel();
    running.await.unwrap();
    written.await.unwrap();
}
