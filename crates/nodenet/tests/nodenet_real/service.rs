//! Two allocator services on one real etcd.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use berth_addr::Plan;
use berth_kit::metrics::Metrics;
use berth_kit::tls::{ServerFiles, ServerTls};
use berth_ledger::store::{EtcdDocument, EtcdStore};
use berth_ledger::{Clock, Ledger, LedgerError, LedgerMetrics};
use berth_nodenet::allocator::{
    Allocator, AllocatorError, ContainerRef, Registry, Removal, Update,
};
use berth_nodenet::client::RemoteAllocator;
use berth_nodenet::service::{Limits, PlanDocument, Service, plan};
use berth_testbed::{Cluster, logs_of};
use berth_testkit::certificates::Authority;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

fn etcd() -> String {
    static CLUSTER: LazyLock<Cluster> = LazyLock::new(|| {
        let program = env!("CARGO_CRATE_NAME");
        let cluster = Cluster::named(program).without_controllers();
        cluster.logs(logs_of(program).unwrap()).start().unwrap()
    });
    CLUSTER.control_plane().etcd().to_owned()
}

/// Services with a part of etcd of their own.
struct World {
    prefix: String,
    authority: Authority,
    _directory: TempDir,
}

impl World {
    fn new(test: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            prefix: format!("/service-real/{test}"),
            authority: Authority::make(directory.path(), "clusters"),
            _directory: directory,
        }
    }

    /// One more of them, and its client.
    async fn start(&self) -> RemoteAllocator {
        let endpoints = [etcd()];
        let store = EtcdStore::connect(&endpoints, &self.prefix, None).await.unwrap();
        let ledger = Ledger::new(Arc::new(store), Clock::system(), LedgerMetrics::unregistered());
        let document = EtcdDocument::new(&endpoints, &self.prefix, plan::etcd::NAME, None).unwrap();
        let plan = Arc::new(PlanDocument::new(document));
        let (metrics, stop) = (Metrics::new("0.0.0"), CancellationToken::new());
        let service = Service::open(ledger, plan, &metrics, Limits::default(), stop)
            .await
            .unwrap();
        let server = self.authority.server();
        let tls = ServerTls::load(ServerFiles {
            certificate: server.certificate.clone(),
            key: server.key.clone(),
            client_ca: Some(self.authority.file()),
        })
        .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        tokio::spawn(service.serve(listener, tls));
        let client = self.authority.client("blue");
        RemoteAllocator::connect(&url, &self.authority.file(), &client.certificate, &client.key)
            .unwrap()
    }
}

fn cidrs(cidrs: &[&str]) -> Plan {
    Plan {
        cidrs: cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect(),
        ..Plan::default()
    }
}

fn node() -> ContainerRef {
    ContainerRef {
        cluster: "blue".to_owned(),
        node: "a".to_owned(),
        uid: "uid".to_owned(),
    }
}

fn request(number: u128, count: usize) -> Update {
    Update {
        request: Uuid::from_u128(number),
        count,
        give_back: Vec::new(),
    }
}

async fn until_known(client: &RemoteAllocator, capacity: u128) {
    loop {
        match client.counts("pods").await {
            Ok(counts) if counts.families.values().all(|counts| counts.capacity == capacity) => {
                return;
            }
            Ok(_) | Err(AllocatorError::NoSubnet { .. }) => {
                tokio::time::sleep(Duration::from_millis(10)).await
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_subnet_of_one_service_comes_to_be_known_to_the_other() {
    let world = World::new("known");
    let (one, other) = (world.start().await, world.start().await);
    one.set_subnet("pods", &cidrs(&["10.64.0.0/24"]), Duration::ZERO)
        .await
        .unwrap();
    until_known(&other, 254).await;
    one.set_subnet("pods", &cidrs(&["10.64.0.0/24", "10.65.0.0/24"]), Duration::ZERO)
        .await
        .unwrap();
    until_known(&other, 508).await;
    until_known(&world.start().await, 508).await;
}

#[tokio::test]
async fn only_one_of_two_concurrent_overlapping_subnets_is_accepted() {
    let world = World::new("overlap");
    let (one, other) = (world.start().await, world.start().await);
    for round in 0..10_u8 {
        let (ours, theirs) = (format!("ours-{round}"), format!("theirs-{round}"));
        let plan = cidrs(&[&format!("10.{round}.0.0/16")]);
        let (ours, theirs) = tokio::join!(
            one.set_subnet(&ours, &plan, Duration::ZERO),
            other.set_subnet(&theirs, &plan, Duration::ZERO),
        );
        assert_eq!([&ours, &theirs].into_iter().filter(|set| set.is_ok()).count(), 1);
        let refused = ours.and(theirs).unwrap_err();
        assert!(
            matches!(refused, AllocatorError::Ledger(LedgerError::Overlap { .. })),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_request_sent_to_both_services_leases_only_once() {
    let world = World::new("again");
    let (one, other) = (world.start().await, world.start().await);
    one.set_subnet("pods", &cidrs(&["10.64.0.0/16"]), Duration::ZERO)
        .await
        .unwrap();
    until_known(&other, 65_534).await;
    one.create("pods", &node()).await.unwrap();
    for number in 0..20_u8 {
        let count = 4 * (usize::from(number) + 1);
        let node = node();
        let (first, second) = tokio::join!(
            one.update("pods", &node, request(number.into(), count)),
            other.update("pods", &node, request(number.into(), count)),
        );
        drop((first.unwrap(), second.unwrap()));
        let has = one.get("pods", &node).await.unwrap().unwrap();
        assert_eq!(has.secondaries.len(), count);
        assert_eq!(other.get("pods", &node).await.unwrap(), Some(has));
    }
}

#[tokio::test]
async fn only_one_of_a_concurrent_removal_and_lease_succeeds() {
    let world = World::new("removal");
    let (one, other) = (world.start().await, world.start().await);
    let (node, plan) = (node(), cidrs(&["10.64.0.0/24"]));
    for _ in 0..20 {
        one.set_subnet("pods", &plan, Duration::ZERO).await.unwrap();
        until_known(&other, 254).await;
        assert_eq!(one.get("pods", &node).await.unwrap(), None);
        let (removed, made) = tokio::join!(one.remove_subnet("pods"), other.create("pods", &node));
        if removed.unwrap() == Removal::Removed {
            let gone = made.unwrap_err();
            assert!(matches!(gone, AllocatorError::NoSubnet { .. }), "{gone}");
            continue;
        }
        assert_eq!(one.get("pods", &node).await.unwrap(), Some(made.unwrap()));
        other.delete("pods", &node).await.unwrap();
        assert_eq!(one.remove_subnet("pods").await, Ok(Removal::Removed));
    }
}
