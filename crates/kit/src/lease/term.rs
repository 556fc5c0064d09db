//! What the rest of the process sees of the election.

use futures::future::BoxFuture;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};
use tracing::info;

/// The election's last report: which term we are in, if any, and until when that is valid.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// Counts our terms; one that was lost never comes back.
    pub(super) term: u64,
    pub(super) until: Option<Instant>,
    /// The holders of a [`Term`]; the lease is not released before they are gone.
    pub(super) held: TaskTracker,
}

impl Standing {
    pub(super) fn leads(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// Whether this process leads. Clones see the same election.
#[derive(Clone, Debug)]
pub struct Leadership {
    standing: watch::Receiver<Standing>,
}

impl Leadership {
    pub(super) fn new(standing: watch::Receiver<Standing>) -> Self {
        Self { standing }
    }

    /// Whether we lead at this instant, by our own clock: it turns false without any report of a
    /// loss.
    pub fn is_leader(&self) -> bool {
        let running = self.standing.has_changed().is_ok();
        running && self.standing.borrow().leads(Instant::now())
    }

    /// Waits until we lead, and returns the term to do the work in; `None` once the election has
    /// ended.
    pub fn acquired(&mut self) -> BoxFuture<'_, Option<Term>> {
        Box::pin(async move {
            let standing = self
                .standing
                .wait_for(|standing| standing.leads(Instant::now()))
                .await
                .ok()?
                .clone();
            // An election that died leaves its last report behind.
            self.standing.has_changed().ok()?;
            Some(Term {
                term: standing.term,
                leadership: self.clone(),
                _held: standing.held.token(),
            })
        })
    }
}

impl Leadership {
    /// Does `work` in each term, and tells it to stop when the term is lost. Returns when the
    /// election has ended, or when the work ends by itself.
    pub async fn lead<F, E>(&mut self, work: impl Fn(CancellationToken) -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        while let Some(term) = self.acquired().await {
            info!("leading; starting work");
            let stop = CancellationToken::new();
            let run = work(stop.clone());
            tokio::pin!(run);
            tokio::select! {
                ended = &mut run => return ended,
                () = term.lost() => {
                    stop.cancel();
                    run.await?;
                }
            }
            info!("no longer leading; work stopped");
        }
        Ok(())
    }
}

/// One stretch of leading. Hold it while working as leader: as long as it is held, the lease is not
/// handed over early.
#[derive(Debug)]
pub struct Term {
    term: u64,
    leadership: Leadership,
    _held: TaskTrackerToken,
}

impl Term {
    /// Whether this term still lasts. Ask right before a write that only a leader may do.
    pub fn lasts(&self) -> bool {
        self.leadership.is_leader() && self.leadership.standing.borrow().term == self.term
    }

    /// Returns when the term is over, because it was lost or the election was stopped. The caller
    /// should finish quickly then, and drop the term.
    pub async fn lost(&self) {
        let mut standing = self.leadership.standing.clone();
        loop {
            let until = match standing.borrow_and_update().clone() {
                Standing {
                    term,
                    until: Some(until),
                    ..
                } if term == self.term => until,
                _ => return,
            };
            tokio::select! {
                // A renewal may have moved the end: look again.
                changed = standing.changed() => if changed.is_err() { return },
                () = sleep_until(until) => return,
            }
        }
    }
}
