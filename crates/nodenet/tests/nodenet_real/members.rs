//! Two clusters on one address plan: two allocator services on an etcd with three members, each in
//! a network namespace, of which one after the other is killed, stands still and is cut off.

mod etcd;
mod load;

use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_addr::Plan;
use berth_kit::metrics::Metrics;
use berth_kit::tls::{ServerFiles, ServerTls};
use berth_ledger::store::{EtcdDocument, EtcdStore, EtcdTls};
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::allocator::Registry;
use berth_nodenet::client::RemoteAllocator;
use berth_nodenet::service::{Limits, PlanDocument, Service, plan};
use berth_testkit::certificates::Authority;
use etcd::{Etcd, Fault};
use load::{Load, Owners};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const PREFIX: &str = "/members";

/// A service, and the client of a cluster that uses it. Over mutual TLS, as all that is said to
/// etcd.
async fn serve(
    clusters: &Authority,
    cluster: &str,
    urls: &[String],
    tls: &EtcdTls,
) -> RemoteAllocator {
    let store = EtcdStore::connect(urls, PREFIX, Some(tls)).await.unwrap();
    let ledger = Ledger::new(Arc::new(store), Clock::system(), LedgerMetrics::unregistered());
    let document = EtcdDocument::new(urls, PREFIX, plan::etcd::NAME, Some(tls)).unwrap();
    let plan = Arc::new(PlanDocument::new(document));
    let (metrics, stop) = (Metrics::new("0.0.0"), CancellationToken::new());
    let service = Service::open(ledger, plan, &metrics, Limits::default(), stop);
    let service = service.await.unwrap();
    let server = clusters.server();
    let files = ServerFiles {
        certificate: server.certificate.clone(),
        key: server.key.clone(),
        client_ca: Some(clusters.file()),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(service.serve(listener, ServerTls::load(files).unwrap()));
    let client = clusters.client(cluster);
    RemoteAllocator::connect(&url, &clusters.file(), &client.certificate, &client.key).unwrap()
}

#[test]
fn leases_continue_without_duplicates_when_a_member_is_lost() {
    let etcd = Etcd::start();
    // Sockets are made in the namespace that the members are plugged into: threads of a runtime
    // are where it was made.
    let hub = etcd.hub();
    hub.inside(|| tokio::runtime::Runtime::new().unwrap().block_on(lose_members(etcd)));
}

async fn lose_members(mut etcd: Etcd) {
    etcd.is_whole().await;
    let directory = tempfile::tempdir().unwrap();
    let clusters = Authority::make(directory.path(), "clusters");
    let (tls, mut urls) = (etcd.tls(), etcd.urls());
    let owners = Arc::new(Owners::default());
    let mut loads = Vec::new();
    let subnet = Plan {
        cidrs: vec!["10.64.0.0/24".parse().unwrap(), "fd64::/64".parse().unwrap()],
        ..Plan::default()
    };
    for cluster in ["blue", "green"] {
        let client = serve(&clusters, cluster, &urls, &tls).await;
        client.set_subnet("pods", &subnet, Duration::ZERO).await.unwrap();
        loads.push(Load::start(cluster, client, &owners));
        // Each service asks another member first.
        urls.rotate_left(1);
    }
    for load in &mut loads {
        load.leases_after(Instant::now()).await;
    }
    for fault in [Fault::Killed, Fault::Paused, Fault::CutOff, Fault::CutOffFromMembers] {
        for leads in [true, false] {
            let member = etcd.member_that(leads).await;
            let begin = Instant::now();
            etcd.lose(member, fault);
            let mut line = String::new();
            for load in &mut loads {
                load.leases_after(begin).await;
                let after = begin.elapsed().as_secs_f64();
                line.push_str(&format!("; {} leases again after {after:.1} s", load.cluster()));
            }
            let role = if leads { "leader" } else { "follower" };
            println!("{role} {fault:?}{line}");
            etcd.bring_back(member, fault);
            etcd.is_whole().await;
        }
    }
    for load in loads {
        load.stop_and_check().await;
    }
    owners.check_count();
}
