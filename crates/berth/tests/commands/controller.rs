//! `berth controller` with an allocator that is another process, and called wrongly.

mod leaders;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_api::names::NAMESPACE;
use berth_api::nnc::NetworkContainer;
use berth_api::{NodeNetworkConfig, Subnet, SubnetSpec};
use berth_apiserver::{Options, Server};
use berth_testkit::certificates::{Authority, Pair};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Ended with the test, however that ends.
pub struct Process(pub Child);

impl Process {
    /// SIGKILL: no handler runs, no buffer is flushed.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

pub fn berth(command: &str) -> Command {
    let mut berth = Command::new(env!("CARGO_BIN_EXE_berth"));
    // The tests' own environment must not decide.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BERTH_") || name == "KUBECONFIG" {
            berth.env_remove(name);
        }
    }
    berth.arg(command);
    berth
}

/// An allocator on redb. Returns when it says that it is up.
fn start_allocator(directory: &Path, authority: &Authority, listen: &str) -> (Process, SocketAddr) {
    let server = authority.server();
    let mut command = berth("allocator");
    command.args(["--listen", listen, "--store"]);
    command.arg(format!("redb={}", directory.join("ledger.redb").display()));
    command.arg("--tls-cert").arg(&server.certificate);
    command.arg("--tls-key").arg(&server.key);
    command.arg("--client-ca").arg(authority.file());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().rsplit("https://").next().unwrap().parse();
    (Process(child), address.unwrap_or_else(|_| panic!("{line:?}")))
}

/// The flags of a controller that uses the service.
fn controller(allocator: &str, ca: &Path, pair: &Pair) -> Command {
    let mut command = berth("controller");
    command.args(["--allocator", allocator, "--allocator-ca"]).arg(ca);
    command.arg("--allocator-cert").arg(&pair.certificate);
    command.arg("--allocator-key").arg(&pair.key);
    command
}

/// A Kubernetes API with Berth's kinds, and nothing that acts on them.
pub struct Cluster {
    pub client: Client,
    pub kubeconfig: PathBuf,
}

impl Cluster {
    pub async fn start(directory: &Path) -> Self {
        let server = Server::open(Options::default()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubeconfig = directory.join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig(listener.local_addr().unwrap())).unwrap();
        let client = server.client();
        tokio::spawn(server.serve(listener).unwrap());
        let api = Api::<CustomResourceDefinition>::all(client.clone());
        let params = PatchParams::apply("test").force();
        for crd in berth_api::crds::all() {
            let name = crd.name_any();
            api.patch(&name, &params, &Patch::Apply(&crd)).await.unwrap();
            let established = await_condition(api.clone(), &name, conditions::is_crd_established());
            established.await.unwrap();
        }
        Self { client, kubeconfig }
    }

    pub async fn join(&self, name: &str) {
        let node = json!({"metadata": {"name": name}});
        let node: Node = serde_json::from_value(node).unwrap();
        let api = Api::<Node>::all(self.client.clone());
        api.create(&PostParams::default(), &node).await.unwrap();
        let address =
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
        let params = PatchParams::default();
        api.patch_status(name, &params, &Patch::Merge(address)).await.unwrap();
    }

    /// Once the node has one.
    async fn container(&self, node: &str) -> NetworkContainer {
        let configs = Api::<NodeNetworkConfig>::namespaced(self.client.clone(), NAMESPACE);
        loop {
            let status = configs.get_opt(node).await.unwrap().and_then(|config| config.status);
            if let Some(container) =
                status.and_then(|status| status.network_containers.into_iter().next())
            {
                return container;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_gets_a_network_container_after_an_allocator_restart() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::make(directory.path(), "clusters");
    let cluster = Cluster::start(directory.path()).await;
    let (allocator, address) = start_allocator(directory.path(), &authority, "127.0.0.1:0");
    let url = format!("https://{address}/networks/prod");
    let mut command = controller(&url, &authority.file(), &authority.client("blue"));
    command.arg("--kubeconfig").arg(&cluster.kubeconfig);
    let _controller = Process(command.spawn().unwrap());

    let spec = SubnetSpec {
        cidrs: vec!["10.64.0.0/24".to_owned()],
        ..SubnetSpec::default()
    };
    let subnets = Api::<Subnet>::all(cluster.client.clone());
    let subnet = Subnet::new("pods", spec);
    subnets.create(&PostParams::default(), &subnet).await.unwrap();
    cluster.join("n1").await;
    let first = cluster.container("n1").await;
    assert_eq!(
        (first.subnet_name.as_str(), first.primary_ip.as_str()),
        ("pods", "10.64.0.1")
    );
    // It is the service that keeps it, in the name of the certificate's cluster.
    let plan = std::fs::read_to_string(directory.path().join("ledger.redb.subnets.json")).unwrap();
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["subnets"]["prod.pods"]["cluster"], "blue", "{plan}");

    allocator.kill();
    let (_allocator, _) = start_allocator(directory.path(), &authority, &address.to_string());
    cluster.join("n2").await;
    assert_ne!(cluster.container("n2").await.primary_ip, first.primary_ip);
}

fn refused(mut command: Command, words: &[&str]) {
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(error.lines().count(), 1, "{error}");
    for word in words {
        assert!(error.contains(word), "{word} is not in: {error}");
    }
}

#[test]
fn conflicting_or_missing_flags_are_refused_with_the_fix() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::make(directory.path(), "clusters");
    let (ca, blue) = (authority.file(), authority.client("blue"));
    let nowhere = "https://127.0.0.1:1";
    let with = |arguments: &[&str]| {
        let mut command = controller(nowhere, &ca, &blue);
        command.args(arguments);
        command
    };
    refused(
        with(&["--store", "kubernetes"]),
        &["--allocator", "--store kubernetes", "leave out one of the two"],
    );
    let mut from_environment = with(&[]);
    from_environment.env("BERTH_STORE", "redb=ledger");
    refused(from_environment, &["--allocator", "--store redb=ledger"]);
    refused(
        with(&["--controllers", "*,nodeipam"]),
        &["--controllers nodeipam", "no podCIDRs", "leave it out"],
    );
    refused(
        with(&["--cluster-name", "green"]),
        &[
            "--cluster-name green",
            "--allocator-cert",
            "cluster blue",
            "leave --cluster-name out",
        ],
    );
    let mut without_url = berth("controller");
    without_url.arg("--allocator-ca").arg(&ca);
    refused(without_url, &["--allocator-ca", "give --allocator URL"]);
    let mut without_files = berth("controller");
    without_files.args(["--allocator", nowhere]);
    refused(without_files, &["--allocator-ca", "give --allocator-ca FILE"]);
    refused(
        controller("http://127.0.0.1:1", &ca, &blue),
        &["--allocator", "http://127.0.0.1:1", "https://HOST:PORT"],
    );
}

#[test]
fn a_missing_or_wrong_file_is_named_with_its_flag_and_the_fix() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::make(directory.path(), "clusters");
    let (ca, blue) = (authority.file(), authority.client("blue"));
    let nowhere = "https://127.0.0.1:1";
    let missing = directory.path().join("missing.pem");
    let path = missing.to_str().unwrap();
    refused(
        controller(nowhere, &missing, &blue),
        &["--allocator-ca", path, "give a PEM file"],
    );
    let pair = |certificate: &Path, key: &Path| Pair {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    };
    refused(
        controller(nowhere, &ca, &pair(&missing, &blue.key)),
        &["--allocator-cert", path, "give a PEM file"],
    );
    refused(
        controller(nowhere, &ca, &pair(&blue.certificate, &missing)),
        &["--allocator-key", path, "give a PEM file"],
    );
    refused(
        controller(nowhere, &ca, &pair(&blue.key, &blue.key)),
        &["--allocator-cert", blue.key.to_str().unwrap(), "no certificate in it"],
    );
}

#[tokio::test]
async fn a_tls_mismatch_ends_the_controller_with_file_and_fix() {
    let directory = TempDir::new().unwrap();
    let authority = Authority::make(directory.path(), "clusters");
    let strangers = Authority::make(directory.path(), "strangers");
    let cluster = Cluster::start(directory.path()).await;
    let (_allocator, address) = start_allocator(directory.path(), &authority, "127.0.0.1:0");
    let url = format!("https://{address}");
    let stranger = strangers.client("blue");
    let of_cluster = |mut command: Command| {
        command.arg("--kubeconfig").arg(&cluster.kubeconfig);
        command
    };
    refused(
        of_cluster(controller(&url, &authority.file(), &stranger)),
        &["--allocator", stranger.certificate.to_str().unwrap(), "have it signed"],
    );
    let wrong_ca = strangers.file();
    refused(
        of_cluster(controller(&url, &wrong_ca, &authority.client("blue"))),
        &["--allocator", "give the CA that signed it", wrong_ca.to_str().unwrap()],
    );
}
