//! Finding out which pod has which address after a journal was lost.

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_api::agent::Refusal;
use berth_api::cni::{Attachment, PodRef};
use tracing::warn;

use super::Agent;
use crate::journal::Entry;

/// An existing sandbox and its observed addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub attachment: Attachment,
    pub pod: PodRef,
    pub addresses: Vec<IpAddr>,
}

impl Agent {
    /// Assigns to living sandboxes the addresses they have. `observed` lists all sandboxes. Returns
    /// how many of them the journal did not know.
    pub fn adopt(&self, observed: &[Observed]) -> Result<usize, Refusal> {
        let now = self.now();
        let living: BTreeSet<&Attachment> = observed.iter().map(|one| &one.attachment).collect();
        let mut inside = self.shared.inside.lock();
        let mut adopted = 0;
        for Observed {
            attachment,
            pod,
            addresses,
        } in observed
        {
            let Some(entry) = inside.pool.plan_adoption(attachment, pod, addresses, &living, now)
            else {
                continue;
            };
            inside.commit(&[entry], now)?;
            warn!(%attachment, ?addresses, "a sandbox has addresses that the journal does not \
                                            list; assigned them to it");
            adopted += 1;
        }
        self.changed(&mut inside);
        Ok(adopted)
    }

    /// Called when there is no journal at all. If living pods show addresses of the pool, this is
    /// not the first start on this node, so the pool is quarantined.
    pub fn quarantine_observed(&self) {
        let mut inside = self.shared.inside.lock();
        let observed = inside.cluster.observed();
        if observed.iter().any(|address| inside.pool.has(*address)) {
            warn!(
                node = self.node(),
                "there is no journal, but pods have addresses of this node; starting a quarantine"
            );
            drop(inside.commit(&[Entry::Quarantined], self.now()));
            self.changed(&mut inside);
        }
    }

    pub fn is_quarantined(&self) -> bool {
        self.shared.inside.lock().pool.is_quarantined()
    }

    /// Living pods keep the addresses they show. `over` says that by now every other possible
    /// holder of an address has been observed.
    pub fn recover(&self, over: bool) {
        let mut inside = self.shared.inside.lock();
        let owned: BTreeSet<IpAddr> = inside.pool.owned().collect();
        let observed = inside.cluster.observed().difference(&owned).copied().collect();
        let quarantined = inside.pool.is_quarantined();
        inside.pool.recover(observed, over);
        if quarantined && !inside.pool.is_quarantined() {
            // If this entry can't be written, the next agent starts in quarantine, which is safe.
            drop(inside.commit(&[Entry::Settled], self.now()));
        }
        self.changed(&mut inside);
    }
}
