//! An agent from its start to its end.
//!
//! The order of the start is a promise. The agent answers no call before it has replayed the
//! journal, listed the NodeNetworkConfig and the node's pods, asked which addresses sandboxes have
//! if the journal can't be trusted, and drained the release queue. Until then there is no socket:
//! plugins fail at once, and releases go to the queue.
//!
//! Before all of that the agent makes sure that it is the node's only one. A lock excludes other
//! agents on this machine, and the ids of the Node exclude those on other machines. Until then the
//! agent reads and writes none of the node's state.

mod identity;
mod lock;
mod purge;
mod settle;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_kit::events::{Event, Recorder};
use futures::future::BoxFuture;
use kube::Client;
use kube::runtime::events::EventType;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::agent::{Agent, Storage};
use crate::clock::Clock;
use crate::compat::{self, CompatError};
use crate::cri::Cri;
use crate::follow::{self, Listed};
use crate::journal::{Found, JournalError};
use crate::machine::{Machine, Verdict};
use crate::metrics::AgentMetrics;
use crate::node::reference;
use crate::overflow::Overflow;
use crate::queue::{Directory, DirectoryError, Drain, Flavour};
use crate::reclaim::Reclaim;
use crate::server::{self, ListenError, Listener};
use identity::Place;
use lock::{Lock, LockError};

pub use purge::{PurgeError, purge};

/// The bounds of the time between two passes of reclaim: several passes fit in a grace period.
const SHORTEST_PERIOD: Duration = Duration::from_millis(500);
const LONGEST_PERIOD: Duration = Duration::from_secs(30);
const MEASURED_EVERY: Duration = Duration::from_secs(5);

/// How an agent is run. The flags of `berth agent` say the same.
#[derive(Clone, Debug)]
pub struct Options {
    pub node: String,
    pub socket: PathBuf,
    pub state_dir: PathBuf,
    pub queue_dir: PathBuf,
    /// For plugins that were made for CNS.
    pub compat_listen: Option<SocketAddr>,
    pub compat_queue_dir: Option<PathBuf>,
    /// The container runtime's socket. Without it no sandbox is known to be gone, and nothing is
    /// reclaimed.
    pub cri_socket: Option<PathBuf>,
    pub boot: String,
    /// The directory of the locks that all agents on the machine share.
    pub lock_dir: PathBuf,
    /// The machine that the Node must be. Empty ids are not compared.
    pub machine: Machine,
    pub clock: Clock,
    pub rest: Duration,
    /// How long an owner must be gone before its addresses are taken back without a DEL.
    pub grace: Duration,
}

/// For this long, connections of an address's last pod may still be answered.
pub const DEFAULT_REUSE_DELAY: Duration = Duration::from_secs(30);
/// Longer than the four minutes after which a kubelet gives up a sandbox.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(300);

impl Options {
    /// For a node whose files are all in one directory.
    pub fn new(node: &str, directory: &Path) -> Self {
        Self {
            node: node.to_owned(),
            socket: directory.join("agent.sock"),
            state_dir: directory.join("state"),
            queue_dir: directory.join("release-queue"),
            compat_listen: None,
            compat_queue_dir: None,
            cri_socket: None,
            boot: String::new(),
            lock_dir: directory.join("locks"),
            machine: Machine::default(),
            clock: Clock::Boot,
            rest: DEFAULT_REUSE_DELAY,
            grace: DEFAULT_GRACE,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Compat(#[from] CompatError),
    #[error(transparent)]
    Queue(#[from] DirectoryError),
    #[error("a task of the agent ended, so the agent must be restarted: {0}")]
    Ended(String),
}

/// What an agent shares with others in its process.
#[derive(Clone)]
pub struct AgentContext {
    pub client: Client,
    pub metrics: AgentMetrics,
    pub events: Recorder,
}

impl fmt::Debug for AgentContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentContext").finish_non_exhaustive()
    }
}

/// Whether an agent serves.
#[derive(Debug)]
pub enum Standing<'a> {
    /// An ADD would be answered.
    Serves(&'a Agent),
    /// The agent serves no calls, for this reason.
    Waits(&'a str),
}

/// Runs until it is told to stop, or can't go on. It calls `report` whenever its standing changes.
pub fn run<'a>(
    options: Options,
    context: AgentContext,
    random: StdRng,
    report: impl FnMut(Standing<'_>) + Send + 'a,
    stopping: CancellationToken,
) -> BoxFuture<'a, Result<(), RunError>> {
    run_telling(options, context, random, Box::new(report), stopping)
}

/// The same for any type of `report`, so that it is compiled only once.
fn run_telling<'a>(
    options: Options,
    context: AgentContext,
    mut random: StdRng,
    mut report: Box<dyn FnMut(Standing<'_>) + Send + 'a>,
    stopping: CancellationToken,
) -> BoxFuture<'a, Result<(), RunError>> {
    Box::pin(async move {
        let running = async {
            let cluster = identity::cluster(&context.client, StdRng::from_rng(&mut random)).await;
            let _node =
                Lock::take_node(&options.lock_dir, &cluster, &options.node, &options.state_dir)?;
            let _state = Lock::take(&options.state_dir)?;
            let (sender, listed) = watch::channel(Listed::default());
            let mut place = Place {
                node: &options.node,
                machine: &options.machine,
                listed,
                was_foreign: false,
            };
            let serving = async {
                loop {
                    let waits = |verdict, why: &str| {
                        warn!(node = options.node, "serving nobody: {why}");
                        if verdict == Verdict::Other {
                            context.events.record(&reference(&options.node), wrong_machine(why));
                        }
                        report(Standing::Waits(why));
                    };
                    place.wait_until_same(waits).await;
                    let listed = place.listed.clone();
                    let mut tasks = JoinSet::new();
                    let serves = |agent: &Agent| report(Standing::Serves(agent));
                    tokio::select! {
                        ended = serve(&options, &context, &mut random, listed, &mut tasks, serves, &stopping) => return ended,
                        () = place.wait_until_other() => {}
                    }
                    // When this returns, no call is served any more and the journal is closed.
                    tasks.shutdown().await;
                }
            };
            tokio::select! {
                ended = serving => ended,
                () = follow::node(context.client.clone(), &options.node, sender) => Err(RunError::Ended("the watch of the node".to_owned())),
            }
        };
        stopping.run_until_cancelled(running).await.unwrap_or(Ok(()))
    })
}

fn wrong_machine(why: &str) -> Event {
    Event {
        type_: EventType::Warning,
        reason: "WrongMachine",
        action: "Serve",
        note: format!("The agent serves nobody: {why}"),
        related: None,
    }
}

/// Serves, on the node's own machine, until it is told to stop or can't go on.
async fn serve(
    options: &Options,
    context: &AgentContext,
    random: &mut StdRng,
    listed: watch::Receiver<Listed>,
    tasks: &mut JoinSet<()>,
    ready: impl FnOnce(&Agent) + Send,
    stopping: &CancellationToken,
) -> Result<(), RunError> {
    let storage = Storage {
        node: options.node.clone(),
        state_dir: options.state_dir.clone(),
        mark: options.socket.with_extension("mark"),
        boot: options.boot.clone(),
        clock: options.clock,
        rest: options.rest,
    };
    let (agent, found) = Agent::open(&storage, context.metrics.of(&options.node))?;
    let directories = directories(options)?;
    let overflows: Vec<Directory> = directories
        .iter()
        .filter(|directory| directory.overflows())
        .cloned()
        .collect();
    let drain = Drain::new(agent.clone(), directories);
    options.compat_listen.map_or(Ok(()), compat::Listener::check)?;
    let cri = options.cri_socket.clone().map(Cri::connect);
    let client = &context.client;
    tasks.spawn(follow::forward_node(listed, agent.clone()));
    tasks.spawn(follow::configs(client.clone(), agent.clone()));
    tasks.spawn(follow::pods(client.clone(), agent.clone()));
    tasks.spawn(follow::states(client.clone(), agent.clone()));
    agent.wait_until_supplied().await;
    if found == Found::Nothing {
        agent.quarantine_observed();
    }
    let trusted = !agent.is_quarantined();
    settle::adopt_at_start(&agent, cri.as_ref(), trusted).await;
    let write = follow::write(client.clone(), agent.clone(), StdRng::from_rng(random));
    tasks.spawn(write);
    let mut quarantines = JoinSet::new();
    if !trusted {
        quarantines.spawn(settle::until_certain(agent.clone(), cri.clone(), options.grace));
    }
    if let Err(error) = drain.once().await {
        // Releases that fail now stay in the queue, and their addresses stay assigned.
        warn!(%error, "cannot drain the release queue at the start; serving anyway, retrying");
    }
    let listener = Listener::bind(&options.socket).await?;
    tasks.spawn(drain.clone().run(stopping.clone()));
    tasks.spawn(measure(agent.clone()));
    let random = StdRng::from_rng(random);
    tasks.spawn(follow::condition(client.clone(), agent.clone(), random));
    let period = (options.grace / 4).clamp(SHORTEST_PERIOD, LONGEST_PERIOD);
    for directory in overflows {
        let overflow = Overflow::new(agent.clone(), directory, cri.clone(), options.grace);
        tasks.spawn(overflow.run(period, stopping.clone()));
    }
    if let Some(cri) = cri {
        let reclaim = Reclaim::new(agent.clone(), cri, options.grace).every(period);
        tasks.spawn(reclaim.run(client.clone(), context.events.clone(), stopping.clone()));
    }
    if let Some(address) = options.compat_listen {
        // Not earlier: a connection that waits would later be served as if it had just come.
        let compat = compat::Listener::bind(address).await?;
        info!(address = %compat.address(), "serving the CNS REST API");
        tasks.spawn(compat.serve(compat::router(agent.clone()), stopping.clone()));
    }
    info!(node = options.node, socket = %options.socket.display(), "agent started, serving on the \
                                                                    socket");
    ready(&agent);
    tasks.spawn(listener.serve(server::router(agent.clone()), stopping.clone()));
    // All tasks end only when they are told to stop.
    match tasks.join_next().await {
        Some(Err(panic)) => Err(RunError::Ended(panic.to_string())),
        _ if stopping.is_cancelled() => Ok(()),
        _ => Err(RunError::Ended("it returned".to_owned())),
    }
}

/// More often would serve no scraper.
async fn measure(agent: Agent) {
    loop {
        agent.measure_now();
        tokio::time::sleep(MEASURED_EVERY).await;
    }
}

fn directories(options: &Options) -> Result<Vec<Directory>, DirectoryError> {
    let mut directories = vec![Directory::open(&options.queue_dir, Flavour::Ours)?];
    if let Some(compat) = &options.compat_queue_dir {
        directories.push(Directory::open(compat, Flavour::Compat)?);
    }
    Ok(directories)
}
