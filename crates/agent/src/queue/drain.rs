//! Releases the entries of the queues: once before the agent serves, and then whenever new ones
//! come.

use std::io;
use std::time::{Duration, SystemTime};

use berth_api::agent::{Refusal, Release};
use berth_api::cni::Attachment;
use berth_kit::backoff::Exponential;
use futures::future::BoxFuture;
use futures::future::select_all;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::watch::Seen;
use super::{Directory, Entry, Found, Pass, Queued, Survey, Watch};
use crate::agent::Agent;

/// Entries released by one write to the journal. ADDs are served between two batches.
const BATCH: usize = 256;
/// A pass is made this often even without an event: a watch may be lost, and entries that could not
/// be removed are tried again.
const SWEEP: Duration = Duration::from_secs(30);
/// After a failure, such as a full disk.
const BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: SWEEP,
};
/// The interface of a container whose interfaces are not known.
const INTERFACE: &str = "eth0";

#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    #[error("the release queue {directory} can't be read: {error}")]
    Directory { directory: String, error: io::Error },
    #[error("entries of the release queue {directory} can't be released, they stay: {refusal}")]
    Refused { directory: String, refusal: Refusal },
}

/// The release queues of an agent.
#[derive(Clone, Debug)]
pub struct Drain {
    agent: Agent,
    directories: Vec<Directory>,
}

impl Drain {
    pub fn new(agent: Agent, directories: Vec<Directory>) -> Self {
        Self { agent, directories }
    }

    /// Releases all entries, and returns how many there were.
    pub async fn once(&self) -> Result<u64, DrainError> {
        self.measure().await?;
        let mut released = 0;
        let mut failed = Ok(());
        for directory in &self.directories {
            // A directory that can't be read does not hold up the other.
            match self.drain(directory).await {
                Ok(entries) => released += entries,
                Err(error) => failed = Err(error),
            }
        }
        self.measure().await?;
        failed.map(|()| released)
    }

    /// Runs until it is told to stop.
    pub fn run(self, stopping: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let running = async {
                let mut failures = 0;
                let mut is_blind = false;
                loop {
                    // The watches come before the pass, so that an entry that arrives during the
                    // pass is not missed.
                    let watches: Result<Vec<Watch>, io::Error> =
                        self.directories.iter().map(watch).collect();
                    if let Err(error) = &watches
                        && !std::mem::replace(&mut is_blind, true)
                    {
                        warn!(%error, "cannot watch the release queue; polling it every {SWEEP:?}");
                    }
                    let watches = watches.unwrap_or_default();
                    let wait = match self.once().await {
                        Ok(_) => {
                            failures = 0;
                            SWEEP
                        }
                        Err(error) => {
                            warn!(%error, "cannot drain the release queue; retrying");
                            failures += 1;
                            BACKOFF.delay(failures - 1)
                        }
                    };
                    self.follow(watches, wait, failures > 0).await;
                }
            };
            stopping.run_until_cancelled(running).await;
        })
    }

    /// Drains on each event, until a drain fails or a watched directory is replaced.
    async fn follow(&self, mut watches: Vec<Watch>, wait: Duration, has_failed: bool) {
        if has_failed || watches.is_empty() {
            return tokio::time::sleep(wait).await;
        }
        loop {
            let seen = select_all(watches.iter_mut().map(|watch| Box::pin(watch.seen())));
            match tokio::time::timeout(wait, seen).await {
                Ok((Seen::Something, ..)) if self.once().await.is_ok() => {}
                // The next pass starts over, with new watches.
                _ => return,
            }
        }
    }

    async fn drain(&self, directory: &Directory) -> Result<u64, DrainError> {
        let unreadable = |error| DrainError::Directory {
            directory: directory.path().display().to_string(),
            error,
        };
        let own = directory.clone();
        let mut pass = blocking(move || own.pass()).await.map_err(unreadable)?;
        let mut released = 0;
        let mut failed = Ok(());
        loop {
            let (rest, batch) = blocking(move || next(pass)).await.map_err(unreadable)?;
            pass = rest;
            if batch.is_empty() {
                return failed.map(|()| released);
            }
            // One entry that can't be released must not hold up the others, so they are tried one
            // by one. If none succeeds, the next batch would not either.
            let Err(error) = self
                .settle(directory, batch.clone())
                .await
                .map(|count| released += count)
            else {
                continue;
            };
            let before = released;
            for found in batch {
                released += self.settle(directory, vec![found]).await.unwrap_or(0);
            }
            if released == before {
                return Err(error);
            }
            failed = Err(error);
        }
    }

    /// Writes the journal first, then removes the files: an entry that is gone has been released,
    /// even after a crash in between.
    async fn settle(&self, directory: &Directory, batch: Vec<Found>) -> Result<u64, DrainError> {
        let mut entries = Vec::new();
        let mut broken = Vec::new();
        for found in batch {
            match found {
                Found::Entry(entry) => entries.push(entry),
                Found::Broken(one) => broken.push(one),
            }
        }
        let releases = self.releases(&entries);
        let done = self.agent.release_all(&releases);
        let done = done.map_err(|refusal| DrainError::Refused {
            directory: directory.path().display().to_string(),
            refusal,
        })?;
        if !entries.is_empty() {
            let (entries, addresses) = (entries.len(), done.released);
            info!(directory = %directory.path().display(), entries, addresses, "applied queued \
                DELs from the release queue");
        }
        let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
        let (own, metrics) = (directory.clone(), self.agent.metrics().clone());
        let clear = move || {
            for entry in &entries {
                if let Err(error) = own.done(entry) {
                    // A second release of it does no harm.
                    warn!(%error, name = entry.name, "cannot remove a released entry from the \
                                                      release queue; retrying at the next pass");
                }
            }
            for one in &broken {
                let name = one.name.display();
                match own.set_aside(one) {
                    Ok(()) => {
                        metrics.queue_broken();
                        warn!(%name, why = %one.why, "cannot use a file in the release queue; \
                                                      moved it to broken/");
                    }
                    Err(error) => {
                        warn!(%error, %name, why = %one.why, "cannot move an unusable file of the \
                                                              release queue to broken/; retrying \
                                                              at the next pass")
                    }
                }
            }
            Ok(())
        };
        let cleared: io::Result<()> = blocking(clear).await;
        cleared.map(|()| count).map_err(|error| DrainError::Directory {
            directory: directory.path().display().to_string(),
            error,
        })
    }

    fn releases(&self, entries: &[Entry]) -> Vec<Release> {
        let now = self.agent.now();
        let mut releases = Vec::new();
        for entry in entries {
            match &entry.queued {
                // The release is of an earlier boot, whose clock was ahead of this one: no
                // attachment of it is left.
                Queued::Release(release) if release.started > now => {}
                Queued::Release(release) => releases.push(release.clone()),
                Queued::Container(container) => releases.extend(self.all_of(container)),
            }
        }
        releases
    }

    /// Releases for every interface of the container that has an address, and for the usual one in
    /// any case, so that an ADD still under way is refused as late.
    fn all_of(&self, container: &str) -> Vec<Release> {
        let holdings = self.agent.holdings();
        let held = holdings
            .into_keys()
            .filter(|attachment| attachment.container == container);
        let usual = Attachment::new(container, INTERFACE).ok();
        let mut all: Vec<Attachment> = held.chain(usual).collect();
        all.dedup();
        all.into_iter()
            .map(|attachment| Release {
                attachment,
                started: 0,
            })
            .collect()
    }

    async fn measure(&self) -> Result<(), DrainError> {
        let mut all = Survey::default();
        for directory in &self.directories {
            let own = directory.clone();
            let survey = blocking(move || own.survey()).await;
            let survey = survey.map_err(|error| DrainError::Directory {
                directory: directory.path().display().to_string(),
                error,
            })?;
            all.depth += survey.depth;
            all.oldest = [all.oldest, survey.oldest].into_iter().flatten().min();
            all.mark = all.mark.max(survey.mark);
        }
        let age = all
            .oldest
            .and_then(|oldest| SystemTime::now().duration_since(oldest).ok());
        let metrics = self.agent.metrics();
        metrics.queue(all.depth, age.unwrap_or_default());
        metrics.queue_overflowed(all.mark.is_some());
        Ok(())
    }
}

fn next(mut pass: Pass) -> io::Result<(Pass, Vec<Found>)> {
    let batch = pass.batch(BATCH)?;
    Ok((pass, batch))
}

/// Creates the directory again if somebody removed it: a missing one can't be watched.
fn watch(directory: &Directory) -> io::Result<Watch> {
    directory.secure()?;
    Watch::new(directory.path())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let joined = tokio::task::spawn_blocking(work).await;
    joined.unwrap_or_else(|error| Err(io::Error::other(error)))
}
