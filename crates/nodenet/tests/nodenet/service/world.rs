//! An allocator in this process, and one behind TLS on loopback.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Plan;
use berth_kit::metrics::Metrics;
use berth_kit::tls::{ServerFiles, ServerTls};
use berth_ledger::store::{MemoryStore, Store};
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::allocator::{Allocator, ContainerRef, Registry, Update};
use berth_nodenet::client::RemoteAllocator;
use berth_nodenet::service::{Limits, PlanFile, PlanStore, Service};
use berth_testkit::certificates::{Authority, Pair};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The cluster that tests act for, if they say nothing else.
pub const CLUSTER: &str = "blue";

pub fn plan(cidrs: &[&str]) -> Plan {
    Plan {
        cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        ..Plan::default()
    }
}

pub fn node(name: &str) -> ContainerRef {
    of(CLUSTER, name)
}

pub fn of(cluster: &str, name: &str) -> ContainerRef {
    ContainerRef {
        cluster: cluster.to_owned(),
        node: name.to_owned(),
        uid: format!("uid-of-{name}"),
    }
}

/// The request with this number: another number is another request.
pub fn request(number: u128, count: usize) -> Update {
    Update {
        request: Uuid::from_u128(number),
        count,
        give_back: Vec::new(),
    }
}

/// As a controller does after a start, with nothing to claim that the store does not have.
pub async fn claim(client: &RemoteAllocator, subnet: &str) {
    let generation = client.generation(subnet, client.cluster()).await.unwrap();
    let opened = client.open_gate(subnet, client.cluster(), generation).await;
    assert!(opened.unwrap());
}

/// One of the two sides, with a subnet `pods`. Whatever it needs lives as long as it does.
pub struct Side {
    pub allocator: Arc<dyn Allocator>,
    _world: Option<World>,
}

impl Side {
    pub async fn local(cidrs: &[&str]) -> Self {
        let ledger = ledger(Arc::new(MemoryStore::default()));
        ledger.set_subnet("pods", &plan(cidrs), Duration::ZERO).await.unwrap();
        Self {
            allocator: Arc::new(LocalAllocator::new(ledger)),
            _world: None,
        }
    }

    pub async fn remote(cidrs: &[&str]) -> Self {
        let world = World::start().await;
        let allocator = world.client(CLUSTER);
        allocator
            .set_subnet("pods", &plan(cidrs), Duration::ZERO)
            .await
            .unwrap();
        Self {
            allocator: Arc::new(allocator),
            _world: Some(world),
        }
    }
}

fn ledger(store: Arc<dyn Store>) -> Ledger {
    Ledger::new(store, Clock::system(), LedgerMetrics::unregistered())
}

/// A service that can be stopped and started again, on what it has kept.
pub struct World {
    pub address: SocketAddr,
    pub authority: Authority,
    pub directory: TempDir,
    store: Arc<dyn Store>,
    plan: Arc<dyn PlanStore>,
    limits: Limits,
    running: Option<Running>,
}

struct Running {
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl World {
    pub async fn start() -> Self {
        Self::with(Limits::default()).await
    }

    pub async fn with(limits: Limits) -> Self {
        Self::over(Arc::new(MemoryStore::default()), limits).await
    }

    pub async fn over(store: Arc<dyn Store>, limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plan = PlanFile::beside(&directory.path().join("ledger"));
        Self::of(store, Arc::new(plan), limits, directory).await
    }

    /// One of several processes, on what they share.
    pub async fn beside(store: Arc<dyn Store>, plan: Arc<dyn PlanStore>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::of(store, plan, Limits::default(), directory).await
    }

    async fn of(
        store: Arc<dyn Store>,
        plan: Arc<dyn PlanStore>,
        limits: Limits,
        directory: TempDir,
    ) -> Self {
        let authority = Authority::make(directory.path(), "clusters");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut world = Self {
            address: listener.local_addr().unwrap(),
            authority,
            directory,
            store,
            plan,
            limits,
            running: None,
        };
        world.run(listener).await;
        world
    }

    async fn run(&mut self, listener: TcpListener) {
        let server = self.authority.server();
        let tls = ServerTls::load(ServerFiles {
            certificate: server.certificate.clone(),
            key: server.key.clone(),
            client_ca: Some(self.authority.file()),
        })
        .unwrap();
        let stop = CancellationToken::new();
        let metrics = Metrics::new("0.0.0");
        let service = Service::open(
            ledger(Arc::clone(&self.store)),
            Arc::clone(&self.plan),
            &metrics,
            self.limits.clone(),
            stop.clone(),
        );
        let serving = tokio::spawn(service.await.unwrap().serve(listener, tls));
        self.running = Some(Running { stop, serving });
    }

    /// Returns when all that was under way is done.
    pub async fn stop(&mut self) {
        let Running { stop, serving } = self.running.take().unwrap();
        stop.cancel();
        serving.await.unwrap();
    }

    /// At the same address, with nothing in its memory.
    pub async fn start_again(&mut self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.run(listener).await;
    }

    pub fn url(&self) -> String {
        format!("https://{}/networks/prod", self.address)
    }

    pub fn client(&self, cluster: &str) -> RemoteAllocator {
        self.client_with(&self.authority.file(), &self.authority.client(cluster))
    }

    pub fn client_with(&self, ca: &Path, pair: &Pair) -> RemoteAllocator {
        RemoteAllocator::connect(&self.url(), ca, &pair.certificate, &pair.key).unwrap()
    }
}
