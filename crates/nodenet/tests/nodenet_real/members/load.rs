//! A cluster whose nodes lease and give back all the time, and who has what by the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_addr::Prefix;
use berth_nodenet::allocator::{Allocator, AllocatorError, Container, ContainerRef, Update};
use berth_nodenet::client::RemoteAllocator;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Of each cluster.
const NODES: usize = 4;
/// A node that has so many leases gives half of them back.
const MAX_LEASES: usize = 16;
const STEP: usize = 2;
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Who has which unit, by what was answered. Who gives back is taken out before it says so: no
/// unit is ever another's by rights while it stands here.
#[derive(Default)]
pub struct Owners(Mutex<BTreeMap<Prefix, String>>);

impl Owners {
    fn gives_back(&self, units: &[Prefix]) {
        let mut owners = self.0.lock();
        for unit in units {
            owners.remove(unit);
        }
    }

    fn has(&self, owner: &str, container: &Container) {
        let mut owners = self.0.lock();
        let pods = container.secondaries.iter().flat_map(|lease| &lease.units);
        for unit in container.primary.iter().chain(pods) {
            let before = owners.insert(*unit, owner.to_owned());
            let other = before.filter(|other| other != owner);
            assert_eq!(other, None, "{unit} was given to {owner}, too");
        }
    }

    pub fn check_count(&self) {
        assert!(self.0.lock().len() > 2 * NODES * 2, "somebody has something");
    }
}

pub struct Load {
    cluster: &'static str,
    /// When the last lease was asked for that was answered.
    leased: watch::Receiver<Instant>,
    stop: CancellationToken,
    nodes: JoinSet<()>,
}

impl Load {
    pub fn start(cluster: &'static str, client: RemoteAllocator, owners: &Arc<Owners>) -> Self {
        let (asked, leased) = watch::channel(Instant::now());
        let client = Arc::new(client);
        let stop = CancellationToken::new();
        let mut nodes = JoinSet::new();
        for number in 0..NODES {
            let node = Node {
                name: ContainerRef {
                    cluster: cluster.to_owned(),
                    node: format!("node-{number}"),
                    uid: format!("uid-{number}"),
                },
                client: Arc::clone(&client),
                owners: Arc::clone(owners),
                asked: asked.clone(),
            };
            nodes.spawn(node.run(stop.clone()));
        }
        Self {
            cluster,
            leased,
            stop,
            nodes,
        }
    }

    pub fn cluster(&self) -> &str {
        self.cluster
    }

    /// Returns when a lease was given that was asked for after that.
    pub async fn leases_after(&mut self, begin: Instant) {
        let leased = self.leased.wait_for(|asked| *asked > begin);
        tokio::select! {
            leased = leased => drop(leased.unwrap()),
            ended = self.nodes.join_next() => panic!("a node has ended: {ended:?}"),
        }
    }

    /// Every node has in the store what it was last answered.
    pub async fn stop_and_check(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.nodes.join_next().await {
            ended.unwrap();
        }
    }
}

struct Node {
    name: ContainerRef,
    client: Arc<RemoteAllocator>,
    owners: Arc<Owners>,
    asked: watch::Sender<Instant>,
}

impl Node {
    async fn run(self, stop: CancellationToken) {
        let Self { name, client, .. } = &self;
        let mut container = answered(|| client.create("pods", name)).await;
        let owner = format!("{}/{}", name.cluster, name.node);
        self.owners.has(&owner, &container);
        while !stop.is_cancelled() {
            let has = &container.secondaries;
            let back = match has.len() >= MAX_LEASES {
                true => &has[..MAX_LEASES / 2],
                false => &[],
            };
            let units: Vec<Prefix> = back.iter().flat_map(|lease| lease.units.clone()).collect();
            self.owners.gives_back(&units);
            let update = Update {
                request: Uuid::new_v4(),
                count: has.len() - back.len() + STEP,
                give_back: back.iter().map(|lease| lease.id).collect(),
            };
            let begin = Instant::now();
            // The same request until it is answered: nobody knows what became of the last one.
            container = answered(|| client.update("pods", name, update.clone())).await;
            assert_eq!((container.secondaries.len(), container.short), (update.count, 0));
            self.owners.has(&owner, &container);
            self.asked.send_replace(begin);
        }
        let stored = answered(|| client.get("pods", name)).await;
        assert_eq!(stored, Some(container), "{owner}");
    }
}

/// Asks until there is an answer. The client has tried for seconds before it says that there is
/// none.
async fn answered<T, F>(ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, AllocatorError>>,
{
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(AllocatorError::Service { .. } | AllocatorError::Ledger(_)) => {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
