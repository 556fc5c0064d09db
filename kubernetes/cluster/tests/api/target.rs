//! Which server the suite talks to, and what that server can do.
//!
//! `BERTH_TEST_KUBECONFIG` names the kubeconfig of a running server, `BERTH_TEST_IMAGE` an image
//! that all of its nodes have. Without the first an embedded server with three virtual nodes is
//! started, once for all tests, on a runtime of its own: it goes on whatever a test does.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use berth_apiserver::{Options, Server};
use berth_cluster::{self as cluster, Cluster, Fleet};
use berth_kit::clock::Clock;
use berth_kit::metrics::Metrics;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::ListParams;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// What some servers do beside answering requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Garbage collection, namespaces that end, a ServiceAccount in each namespace: on real
    /// clusters kube-controller-manager.
    Controllers,
    /// Nodes that are alive, more than one of them, and a scheduler that gives them pods.
    Nodes,
    /// Nodes that get pods to run, real or virtual.
    RunningPods,
    /// Nodes run nothing, and a pod waits until somebody gives it an address.
    VirtualPods,
}

pub struct Target {
    pub runtime: Runtime,
    pub client: Client,
    /// The same server, asked without credentials.
    pub stranger: Client,
    pub kubeconfig: PathBuf,
    /// Of pods that are to run. Virtual nodes take any.
    pub image: String,
    /// For what a run leaves behind, such as kubectl's caches.
    pub scratch: PathBuf,
    capabilities: BTreeSet<Capability>,
}

static TARGET: LazyLock<Target> = LazyLock::new(Target::find);

pub fn target() -> &'static Target {
    &TARGET
}

impl Target {
    fn find() -> Self {
        let runtime = Runtime::new().unwrap();
        // Statics are never dropped, so nobody would remove a directory of /tmp.
        let scratch = tempfile::Builder::new()
            .prefix("api-suite-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        let scratch = scratch.unwrap().keep();
        let named = std::env::var_os("BERTH_TEST_KUBECONFIG").map(PathBuf::from);
        let embedded = named.is_none();
        let kubeconfig = named.unwrap_or_else(|| {
            let text = runtime.block_on(start_embedded());
            write_private(&scratch, &text)
        });
        let inside = runtime.enter();
        let mut config = runtime.block_on(config(&kubeconfig));
        // What is answered is looked at, whatever it is.
        config.default_retry = false;
        let client = Client::try_from(config.clone()).unwrap();
        config.auth_info = AuthInfo::default();
        let stranger = Client::try_from(config).unwrap();
        let mut capabilities = runtime.block_on(capabilities(&client));
        if embedded {
            capabilities.insert(Capability::VirtualPods);
        }
        let image = named_image();
        if capabilities.contains(&Capability::Nodes) && (embedded || image.is_some()) {
            capabilities.insert(Capability::RunningPods);
        }
        drop(inside);
        Self {
            runtime,
            client,
            stranger,
            kubeconfig,
            image: image.unwrap_or_else(|| "x".to_owned()),
            scratch,
            capabilities,
        }
    }

    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// Whether a test can run; if not, that is said.
    pub fn has(&self, capability: Capability) -> bool {
        let has = self.can(capability);
        if !has {
            left_out(&format!("{capability:?}"));
        }
        has
    }

    /// The kubeconfig of one more embedded server, to compare with.
    pub fn beside(&self) -> PathBuf {
        let text = self.runtime.block_on(start_embedded());
        write_private(&self.scratch, &text)
    }
}

/// Says that the test of this thread does nothing, on a line of its own that can be counted.
pub fn left_out(needs: &str) {
    let thread = std::thread::current();
    let line = format!("left out: {}: needs {needs}\n", thread.name().unwrap_or_default());
    // Not `println`: the harness keeps what a passing test prints to itself.
    drop(std::io::stdout().write_all(line.as_bytes()));
}

fn write_private(directory: &Path, text: &str) -> PathBuf {
    // It is 0600 by itself.
    let file = tempfile::Builder::new().prefix("kubeconfig-").tempfile_in(directory);
    let (mut file, path) = file.unwrap().keep().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    path
}

/// Gives the kubeconfig.
async fn start_embedded() -> String {
    let server = Server::open(Options::default()).await.unwrap();
    let options = cluster::Options {
        fleet: Fleet::new(3).unwrap(),
        clock: Clock::System,
        metrics: Metrics::new("test"),
        seed: None,
        network: None,
        limit: None,
    };
    let cluster = Cluster::start(server.client(), options, CancellationToken::new())
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = server.serve(listener).unwrap();
    let kubeconfig = server.kubeconfig(address);
    tokio::spawn(async move {
        // Both live as long as the process.
        let _running = (server, cluster);
        drop(serving.await);
    });
    kubeconfig
}

async fn config(path: &Path) -> Config {
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap()
}

fn named_image() -> Option<String> {
    std::env::var("BERTH_TEST_IMAGE").ok()
}

async fn capabilities(client: &Client) -> BTreeSet<Capability> {
    let mut found = BTreeSet::new();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    // The first is made by a loop that may have just been started.
    let made = async {
        for _ in 0..200 {
            if accounts.get_opt("default").await.unwrap().is_some() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    };
    if !made.await {
        return found;
    }
    found.insert(Capability::Controllers);
    // Who names an image has nodes; a kubelet's first Lease comes seconds after its Node.
    let patience = if named_image().is_some() { 600 } else { 1 };
    for attempt in 0..patience {
        if attempt > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if living_nodes(client).await > 1 {
            found.insert(Capability::Nodes);
            break;
        }
    }
    found
}

/// Anybody can write a Node that claims to be ready; one that lives renews its Lease.
async fn living_nodes(client: &Client) -> usize {
    let nodes = Api::<Node>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    let names: BTreeSet<String> = nodes.into_iter().filter_map(|node| node.metadata.name).collect();
    let leases = Api::<Lease>::namespaced(client.clone(), "kube-node-lease");
    let leases = leases.list(&ListParams::default()).await.unwrap();
    let living = leases.into_iter().filter(|lease| {
        let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        let fresh = renewed.is_some_and(|time| {
            Timestamp::now().duration_since(time.0) < SignedDuration::from_secs(60)
        });
        let name = lease.metadata.name.as_ref();
        fresh && name.is_some_and(|name| names.contains(name))
    });
    living.count()
}
