//! Learning who has what after a journal was lost.

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_api::agent::Refusal;
use berth_api::cni::{Attachment, PodRef};
use tracing::warn;

use super::Agent;
use crate::journal::Entry;

/// A sandbox that is there, and the addresses it was seen with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witnessed {
    pub attachment: Attachment,
    pub pod: PodRef,
    pub addresses: Vec<IpAddr>,
}

impl Agent {
    /// What living sandboxes have is theirs. `witnessed` are all that there are. How many of them
    /// the journal did not know.
    pub fn adopt(&self, witnessed: &[Witnessed]) -> Result<usize, Refusal> {
        let now = self.now();
        let living: BTreeSet<&Attachment> = witnessed.iter().map(|one| &one.attachment).collect();
        let mut inside = self.shared.inside.lock();
        let mut adopted = 0;
        for Witnessed {
            attachment,
            pod,
            addresses,
        } in witnessed
        {
            let Some(entry) = inside.pool.plan_adoption(attachment, pod, addresses, &living, now)
            else {
                continue;
            };
            inside.commit(&[entry], now)?;
            warn!(%attachment, ?addresses, "a sandbox has addresses that the journal does not know of: they are its");
            adopted += 1;
        }
        self.changed(&mut inside);
        Ok(adopted)
    }

    /// Pods that live show addresses of the pool, and the journal knows nothing at all: it is not
    /// the first start here, whatever became of the files.
    pub fn doubt_what_is_shown(&self) {
        let mut inside = self.shared.inside.lock();
        let shown = inside.cluster.shown();
        if shown.iter().any(|address| inside.pool.has(*address)) {
            warn!(
                node = self.node(),
                "there is no journal, and pods have addresses of this node"
            );
            drop(inside.commit(&[Entry::Doubted], self.now()));
            self.changed(&mut inside);
        }
    }

    pub fn is_in_doubt(&self) -> bool {
        self.shared.inside.lock().pool.is_in_doubt()
    }

    /// What living pods show stays theirs; `over` says that whoever else could have an address has
    /// been seen by now.
    pub fn believe(&self, over: bool) {
        let mut inside = self.shared.inside.lock();
        let owned: BTreeSet<IpAddr> = inside.pool.owned().collect();
        let shown = inside.cluster.shown().difference(&owned).copied().collect();
        let in_doubt = inside.pool.is_in_doubt();
        inside.pool.believe(shown, over);
        if in_doubt && !inside.pool.is_in_doubt() {
            // One that can't be written leaves the next agent in doubt, which is safe.
            drop(inside.commit(&[Entry::Settled], self.now()));
        }
        self.changed(&mut inside);
    }
}
