//! What `berth agent --routes linux` asks of the API server, in a cluster of 5,000 nodes as
//! kubelets write them.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use berth_routes::backend::memory::Memory;
use berth_routes::controller::{
    self, DEFAULT_MIN_RESYNC_PERIOD, DEFAULT_RECONCILIATION_PERIOD, Options, Publish, RouteMetrics,
};
use berth_testbed::Figures;
use bytes::Buf;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use tokio_util::sync::CancellationToken;
use tower::util::{MapRequestLayer, MapResponseLayer};

use crate::nodes::{Nodes, config};

const NODES: usize = 5000;
const HEARTBEATS: usize = 500;
/// A kubelet whose node has not changed writes its status once in this time.
const HEARTBEAT_SECONDS: f64 = 300.0;

#[derive(Default)]
struct Traffic {
    requests: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    fn now(&self) -> (u64, u64) {
        let requests = self.requests.load(Ordering::Relaxed);
        (requests, self.received.load(Ordering::Relaxed))
    }
}

/// A client that counts its requests, and the bytes of their answers.
async fn counted(kubeconfig: &Path) -> (Client, Arc<Traffic>) {
    let traffic = Arc::new(Traffic::default());
    let (asked, answered) = (traffic.clone(), traffic.clone());
    let requests = MapRequestLayer::new(move |request: Request<Body>| {
        asked.requests.fetch_add(1, Ordering::Relaxed);
        request
    });
    let answers = MapResponseLayer::new(move |response: Response<_>| {
        let traffic = answered.clone();
        response.map(|body: Box<kube::client::DynBody>| {
            body.map_frame(move |frame| {
                let length = frame.data_ref().map_or(0, Buf::remaining);
                traffic.received.fetch_add(length as u64, Ordering::Relaxed);
                frame
            })
        })
    });
    let builder = ClientBuilder::try_from(config(kubeconfig).await).unwrap();
    let client = builder.with_layer(&answers).with_layer(&requests).build();
    (client, traffic)
}

pub async fn measure(kubeconfig: &Path, nodes: &Nodes, figures: &mut Figures) {
    nodes.create_large(NODES).await;
    let (client, traffic) = counted(kubeconfig).await;
    let backend = Memory::default();
    let options = Options {
        client,
        backend: Arc::new(backend.clone()),
        cluster_cidrs: Some(vec!["10.0.0.0/8".parse().unwrap()]),
        watch_based: true,
        reconciliation_period: DEFAULT_RECONCILIATION_PERIOD,
        min_resync_period: DEFAULT_MIN_RESYNC_PERIOD,
        publish: Publish::Own("n0".to_owned()),
        metrics: RouteMetrics::unregistered(),
        instance: None,
        seed: None,
        ready: None,
    };
    let stop = CancellationToken::new();
    let run = tokio::spawn(controller::run(options, stop.clone()));
    // To all others.
    while backend.routes().len() < NODES - 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (requests, received) = traffic.now();
    figures.count(
        "agent: requests until all routes are there",
        requests as f64,
    );
    figures.mebibytes("agent: received until all routes are there", received);

    for number in 1..=HEARTBEATS {
        nodes.beat(number).await;
    }
    // A watch tells in order: what comes after the last heartbeat is heard after it.
    nodes.move_to(1, "10.250.250.250").await;
    let moved = |route: &berth_routes::core::Route| route.hop.to_string() == "10.250.250.250";
    while !backend.routes().iter().any(moved) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (requests_after, received_after) = traffic.now();
    let each = (received_after - received) as f64 / (HEARTBEATS + 1) as f64;
    let beats = NODES as f64 / HEARTBEAT_SECONDS;
    figures.count("agent: bytes received for a heartbeat", each);
    figures.count(
        "agent: requests for 500 heartbeats",
        (requests_after - requests) as f64,
    );
    figures.count("agent: heartbeats in a second", beats);
    figures.count("agent: KiB received in a second", each * beats / 1024.0);
    stop.cancel();
    run.await.unwrap();
}
