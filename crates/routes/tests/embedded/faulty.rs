//! Routes in memory, with faults that a test injects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use berth_routes::backend::memory::Memory;
use berth_routes::backend::{Backend, BackendError, Limits};
use berth_routes::core::{Change, Hop, HopError, Mark, Node, Route};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

/// What becomes of a change.
pub enum Fate {
    Done,
    /// It is not made.
    Fails(BackendError),
    /// It is made, and the answer is lost.
    Lost,
}

type ChangeFate = Box<dyn FnMut(&Change) -> Fate + Send>;
type ListFate = Box<dyn FnMut() -> Option<BackendError> + Send>;

#[derive(Clone)]
pub struct Faulty {
    pub memory: Memory,
    inner: Arc<Mutex<Inner>>,
    mark: Mark,
}

struct Inner {
    lists: Vec<Instant>,
    changes: Vec<(Instant, Change)>,
    /// Destinations that are being changed now.
    under_way: BTreeSet<Prefix>,
    most_at_once: usize,
    twice_at_once: bool,
    on_change: ChangeFate,
    on_list: ListFate,
    latency: Duration,
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faulty").finish_non_exhaustive()
    }
}

impl Default for Faulty {
    fn default() -> Self {
        Self {
            memory: Memory::default(),
            inner: Arc::new(Mutex::new(Inner {
                lists: Vec::new(),
                changes: Vec::new(),
                under_way: BTreeSet::new(),
                most_at_once: 0,
                twice_at_once: false,
                on_change: Box::new(|_| Fate::Done),
                on_list: Box::new(|| None),
                latency: Duration::from_millis(50),
            })),
            mark: Mark::Ours,
        }
    }
}

impl Faulty {
    /// Like Neutron: a route does not show who made it.
    pub fn unmarked() -> Self {
        Self {
            mark: Mark::Unmarked,
            ..Self::default()
        }
    }

    pub fn on_change(&self, fate: impl FnMut(&Change) -> Fate + Send + 'static) {
        self.inner.lock().on_change = Box::new(fate);
    }

    pub fn on_list(&self, fate: impl FnMut() -> Option<BackendError> + Send + 'static) {
        self.inner.lock().on_list = Box::new(fate);
    }

    pub fn lists(&self) -> usize {
        self.inner.lock().lists.len()
    }

    pub fn listed_at(&self) -> Vec<Instant> {
        self.inner.lock().lists.clone()
    }

    /// All requested changes, whatever their result.
    pub fn changes(&self) -> Vec<(Instant, Change)> {
        self.inner.lock().changes.clone()
    }

    pub fn most_at_once(&self) -> usize {
        self.inner.lock().most_at_once
    }

    /// Whether a change of a destination was asked for while another one was under way.
    pub fn was_changed_twice_at_once(&self) -> bool {
        self.inner.lock().twice_at_once
    }

    fn seen(&self, mut route: Route) -> Route {
        if self.mark == Mark::Unmarked {
            route.mark = Mark::Unmarked;
        }
        route
    }

    fn real(&self, change: &Change) -> Change {
        let there = self.memory.routes();
        let same = |route: &Route, other: &Route| {
            (route.destination, &route.hop) == (other.destination, &other.hop)
        };
        let delete = there
            .into_iter()
            .filter(|real| change.delete.iter().any(|route| same(route, real)));
        Change {
            delete: delete.collect(),
            ..change.clone()
        }
    }
}

impl Backend for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn limits(&self) -> Limits {
        self.memory.limits()
    }

    fn mark(&self) -> Mark {
        self.mark
    }

    fn hop(&self, node: &Node, destination: Prefix) -> Result<Hop, HopError> {
        self.memory.hop(node, destination)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Route>, BackendError>> {
        Box::pin(async {
            let (latency, fate) = {
                let mut inner = self.inner.lock();
                inner.lists.push(Instant::now());
                (inner.latency, (inner.on_list)())
            };
            tokio::time::sleep(latency).await;
            match fate {
                Some(error) => Err(error),
                None => Ok(self
                    .memory
                    .routes()
                    .into_iter()
                    .map(|one| self.seen(one))
                    .collect()),
            }
        })
    }

    fn apply<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Vec<Result<(), BackendError>>> {
        Box::pin(async move {
            let [change] = changes else {
                panic!("one at a time");
            };
            let (latency, fate) = {
                let mut inner = self.inner.lock();
                inner.changes.push((Instant::now(), change.clone()));
                let new = inner.under_way.insert(change.destination);
                inner.twice_at_once |= !new;
                inner.most_at_once = inner.most_at_once.max(inner.under_way.len());
                (inner.latency, (inner.on_change)(change))
            };
            // Also when the controller is killed meanwhile.
            let ended = Ended(self.inner.clone(), change.destination);
            tokio::time::sleep(latency).await;
            drop(ended);
            let result = match fate {
                Fate::Done => self.memory.apply(&[self.real(change)]).await.remove(0),
                Fate::Fails(error) => Err(error),
                Fate::Lost => {
                    drop(self.memory.apply(&[self.real(change)]).await);
                    Err(BackendError::unavailable("the answer was lost"))
                }
            };
            vec![result]
        })
    }
}

struct Ended(Arc<Mutex<Inner>>, Prefix);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.lock().under_way.remove(&self.1);
    }
}
