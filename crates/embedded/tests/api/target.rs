//! Which server the suite talks to, and what that server can do.
//!
//! `BERTH_TEST_KUBECONFIG` names the kubeconfig of a running server. Without it an embedded server with three virtual nodes is started, once
//! for all tests, on a runtime of its own: it goes on whatever a test does.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use berth_embedded::cluster::{self, Cluster, Fleet};
use berth_embedded::{Options, Server};
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
    /// Garbage collection, namespaces that end, a ServiceAccount in each namespace: on real clusters kube-controller-manager.
    Controllers,
    /// Nodes that are alive, and a scheduler that gives them pods.
    Nodes,
    /// Nodes run nothing, and a pod waits until somebody gives it an address.
    VirtualPods,
}

pub struct Target {
    pub runtime: Runtime,
    pub client: Client,
    /// The same server, asked without credentials.
    pub stranger: Client,
    pub kubeconfig: PathBuf,
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
            let path = scratch.join("kubeconfig");
            write_private(&path, &runtime.block_on(start_embedded()));
            path
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
        drop(inside);
        Self {
            runtime,
            client,
            stranger,
            kubeconfig,
            scratch,
            capabilities,
        }
    }

    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// Whether a test can run; if not, that is said once for each capability, past the harness that hides what a passing test prints.
    pub fn has(&self, capability: Capability) -> bool {
        static TOLD: Mutex<BTreeSet<Capability>> = Mutex::new(BTreeSet::new());
        let has = self.can(capability);
        if !has && TOLD.lock().unwrap().insert(capability) {
            say(&format!(
                "skipped: tests that need {capability:?}, which this server does not have"
            ));
        }
        has
    }
}

/// A line that is shown even though the test passes.
pub fn say(line: &str) {
    // Not `eprintln`, which the harness keeps to itself.
    drop(std::io::stderr().write_all(format!("{line}\n").as_bytes()));
}

fn write_private(path: &Path, text: &str) {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Gives the kubeconfig.
async fn start_embedded() -> String {
    let server = Server::open(Options::default()).await.unwrap();
    let options = cluster::Options {
        fleet: Fleet::new(3).unwrap(),
        clock: cluster::Clock::System,
        metrics: Metrics::new("test"),
        seed: None,
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

async fn capabilities(client: &Client) -> BTreeSet<Capability> {
    let mut found = BTreeSet::new();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    // The first is made by a loop that may have just been started; a server without it has been up for long.
    let made = async {
        for _ in 0..20 {
            if accounts.get_opt("default").await.unwrap().is_some() {
                return true;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        false
    };
    if !made.await {
        return found;
    }
    found.insert(Capability::Controllers);
    if has_living_node(client).await {
        found.insert(Capability::Nodes);
    }
    found
}

/// Anybody can write a Node that claims to be ready; one that lives renews its Lease.
async fn has_living_node(client: &Client) -> bool {
    let nodes = Api::<Node>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    let names: BTreeSet<String> = nodes.into_iter().filter_map(|node| node.metadata.name).collect();
    let leases = Api::<Lease>::namespaced(client.clone(), "kube-node-lease");
    let leases = leases.list(&ListParams::default()).await.unwrap();
    leases.into_iter().any(|lease| {
        let renewed = lease.spec.and_then(|spec| spec.renew_time);
        let fresh = renewed.is_some_and(|time| Timestamp::now().duration_since(time.0) < SignedDuration::from_secs(60));
        fresh && lease.metadata.name.is_some_and(|name| names.contains(&name))
    })
}
