//! The entries of a compacted journal: all that still matters.

use super::{LISTED, Pool};
use crate::journal::{Entry, Held};

/// An address that has been free for longer counts as never used.
const REMEMBERED: u64 = 3_600_000_000_000;
impl Pool {
    pub fn entries(&self, now: u64) -> Vec<Entry> {
        let quarantine = self.is_quarantined().then_some(Entry::Quarantined);
        let mut entries: Vec<Entry> =
            quarantine.into_iter().chain(self.tombstones.entries(now)).collect();
        let freed = self
            .freed
            .iter()
            .filter(|(_, at)| now.saturating_sub(**at) < REMEMBERED);
        entries.extend(freed.map(|(address, at)| Entry::Freed {
            at: *at,
            held: vec![Held {
                name: "freed".to_owned(),
                address: *address,
            }],
        }));
        entries.extend(self.holdings.iter().map(|(attachment, holding)| Entry::Assigned {
            at: holding.at,
            started: holding.started,
            attachment: attachment.clone(),
            network: holding.network.clone(),
            pod: holding.pod.clone(),
            held: holding.held.clone(),
        }));
        let releasing: Vec<String> = self.releasing.iter().cloned().collect();
        entries.extend(releasing.chunks(LISTED).map(|names| Entry::Releasing {
            at: now,
            names: names.to_vec(),
        }));
        entries
    }

    /// Drops the release times that no longer matter.
    pub fn forget(&mut self, now: u64) {
        self.freed.retain(|_, at| now.saturating_sub(*at) < REMEMBERED);
    }
}
