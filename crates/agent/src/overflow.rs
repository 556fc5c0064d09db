//! Releases that did not fit into a release queue, found by asking the runtime.
//!
//! While the agent is away, plugins leave an entry for each DEL, and past the queue's limit one
//! mark for all that follow. The mark says that attachments were detached, but not which. It is one
//! observer; the other is the runtime, which no longer lists their sandboxes.

mod decide;

use std::io;
use std::time::Duration;

use berth_api::agent::Refusal;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use decide::{View, decide};

use crate::agent::Agent;
use crate::clock::nanoseconds;
use crate::cri::{Cri, CriError};
use crate::queue::{Directory, Mark};

#[derive(Debug, thiserror::Error)]
pub enum OverflowError {
    #[error("the release queue {directory} can't be read: {error}")]
    Directory { directory: String, error: io::Error },
    #[error(transparent)]
    Runtime(#[from] CriError),
    #[error("the releases beyond the full queue failed: {0}")]
    Refused(#[from] Refusal),
}

/// Looks for the mark, and follows it up.
#[derive(Debug)]
pub struct Overflow {
    agent: Agent,
    directory: Directory,
    cri: Option<Cri>,
    /// How long a runtime takes at most to list a sandbox or to give it up.
    grace: Duration,
    is_logged: bool,
}

impl Overflow {
    pub fn new(agent: Agent, directory: Directory, cri: Option<Cri>, grace: Duration) -> Self {
        Self {
            agent,
            directory,
            cri,
            grace,
            is_logged: false,
        }
    }

    /// Runs until it is told to stop.
    pub async fn run(mut self, period: Duration, stopping: CancellationToken) {
        let running = async {
            let mut ticks = tokio::time::interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = ticks.tick() => {}
                    () = self.agent.next_collection() => {}
                }
                if let Err(error) = self.pass().await {
                    warn!(%error, "cannot process the release queue's overflow mark; retrying in \
                                   {period:?}");
                }
            }
        };
        stopping.run_until_cancelled(running).await;
    }

    /// Looks for the mark once. Returns how many attachments were released.
    pub async fn pass(&mut self) -> Result<usize, OverflowError> {
        let own = self.directory.clone();
        let Some(mark) = self.blocking(move || own.mark()).await? else {
            self.is_logged = false;
            return Ok(0);
        };
        self.log_once(mark);
        // Holdings first, then sandboxes: an ADD in between is not mistaken for one whose sandbox
        // is gone.
        let holdings = self.agent.holdings();
        let sandboxes = match &self.cri {
            Some(cri) => Some(cri.sandboxes().await?),
            None => None,
        };
        let decision = decide(&View {
            mark,
            holdings: &holdings,
            sandboxes: sandboxes.as_deref(),
            collected: &self.agent.collected(),
            now: self.agent.now(),
            grace: nanoseconds(self.grace),
        });
        if !decision.releases.is_empty() {
            let released = self.agent.release_all(&decision.releases)?.released;
            self.agent.metrics().reclaimed(released);
        }
        for release in &decision.releases {
            let attachment = &release.attachment;
            info!(%attachment, "sandbox is gone and its DEL is missing from the overflowed release \
                                queue; addresses released");
        }
        if decision.open == 0 {
            let own = self.directory.clone();
            // If a plugin has renamed the mark meanwhile, the next pass looks at the new one.
            if self.blocking(move || own.unmark(mark)).await? {
                info!("release queue overflow resolved; overflow mark removed");
            }
        }
        Ok(decision.releases.len())
    }

    fn log_once(&mut self, mark: Mark) {
        if std::mem::replace(&mut self.is_logged, true) {
            return;
        }
        let directory = self.directory.path().display();
        let mark = berth_api::agent::overflow_name(mark.started);
        if self.cri.is_some() {
            warn!(%directory, mark, "the release queue overflowed; releasing addresses of \
                                     sandboxes that the runtime does not list");
        } else {
            warn!(
                %directory, mark,
                "the release queue overflowed; without --cri-socket, unreleased addresses \
                 wait for a CNI GC"
            );
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, OverflowError> {
        let joined = tokio::task::spawn_blocking(work).await;
        let done = joined.unwrap_or_else(|error| Err(io::Error::other(error)));
        done.map_err(|error| OverflowError::Directory {
            directory: self.directory.path().display().to_string(),
            error,
        })
    }
}
