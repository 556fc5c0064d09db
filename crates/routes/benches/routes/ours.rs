//! Our controller, in this process, with a cloud in memory that writes down when routes were made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use berth_addr::Prefix;
use berth_routes::backend::memory::Memory;
use berth_routes::backend::{Backend, BackendError, Limits};
use berth_routes::controller::{
    self, DEFAULT_MIN_RESYNC_PERIOD, DEFAULT_RECONCILIATION_PERIOD, Options, Publish, RouteMetrics,
};
use berth_routes::core::{Change, Hop, HopError, Mark, Node, Route};
use futures::future::BoxFuture;
use kube::Client;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::LATENCY;

const POLL_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
struct Timed {
    memory: Memory,
    made: Arc<Mutex<BTreeMap<Prefix, Made>>>,
}

/// When it was asked for, when it was made, and where it leads.
type Made = (SystemTime, SystemTime, Hop);

impl Backend for Timed {
    fn name(&self) -> &'static str {
        "timed"
    }

    fn limits(&self) -> Limits {
        self.memory.limits()
    }

    fn mark(&self) -> Mark {
        self.memory.mark()
    }

    fn hop(&self, node: &Node, destination: Prefix) -> Result<Hop, HopError> {
        self.memory.hop(node, destination)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Route>, BackendError>> {
        self.memory.list()
    }

    fn apply<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Vec<Result<(), BackendError>>> {
        Box::pin(async move {
            let asked = SystemTime::now();
            let results = self.memory.apply(changes).await;
            let mut made = self.made.lock();
            for creation in changes
                .iter()
                .filter_map(|one| Some((one.destination, one.create.as_ref()?)))
            {
                made.insert(
                    creation.0,
                    (asked, SystemTime::now(), creation.1.hop.clone()),
                );
            }
            results
        })
    }
}

pub struct Ours {
    backend: Timed,
    stop: CancellationToken,
    run: JoinHandle<()>,
}

impl Ours {
    pub fn start(client: Client) -> Self {
        let backend = Timed {
            memory: Memory::with_latency(LATENCY),
            made: Arc::default(),
        };
        let options = Options {
            client,
            backend: Arc::new(backend.clone()),
            cluster_cidrs: Some(vec!["10.0.0.0/8".parse().unwrap()]),
            watch_based: true,
            reconciliation_period: DEFAULT_RECONCILIATION_PERIOD,
            min_resync_period: DEFAULT_MIN_RESYNC_PERIOD,
            publish: Publish::All,
            metrics: RouteMetrics::unregistered(),
            instance: None,
            seed: None,
            ready: None,
        };
        let stop = CancellationToken::new();
        let run = tokio::spawn(controller::run(options, stop.clone()));
        Self { backend, stop, run }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.run.await.unwrap();
    }

    /// When the route to this destination was there.
    pub async fn made(&self, cidr: &str) -> Moment {
        let prefix: Prefix = cidr.parse().unwrap();
        loop {
            if let Some((_, made, _)) = self.backend.made.lock().get(&prefix) {
                return Moment(*made);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    pub async fn leads_to(&self, cidr: &str, address: &str) -> Moment {
        let (prefix, hop) = (
            cidr.parse().unwrap(),
            Hop::Address(address.parse().unwrap()),
        );
        loop {
            match self.backend.made.lock().get(&prefix) {
                Some((_, made, found)) if *found == hop => return Moment(*made),
                _ => {}
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// From the first change that was asked for to the last one made.
    pub async fn burst(&self, count: usize) -> Duration {
        while self.backend.made.lock().len() < count {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let made = self.backend.made.lock();
        let first = made.values().map(|(asked, _, _)| *asked).min().unwrap();
        let last = made.values().map(|(_, made, _)| *made).max().unwrap();
        last.duration_since(first).unwrap()
    }
}

pub struct Moment(SystemTime);

impl std::ops::Sub<SystemTime> for Moment {
    type Output = Duration;

    fn sub(self, start: SystemTime) -> Duration {
        self.0.duration_since(start).unwrap_or_default()
    }
}
