//! What a replica has while it serves: from when it leads and has listed all pods, until it no
//! longer leads.

use berth_kit::lease::Term;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::books::Books;

pub struct Session {
    pub books: Books,
    pub client: Client,
    /// `None` without an election. The lease is not released while this is held: a binding under
    /// way ends before another replica leads.
    pub term: Option<Term>,
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    /// At this instant.
    pub fn leads(&self) -> bool {
        !self.stop.is_cancelled() && self.term.as_ref().is_none_or(Term::lasts)
    }
}
