//! Detached attachments, remembered for a while. An ADD that was started before the DEL comes too
//! late, and would take an address that nobody releases.

use std::collections::{BTreeMap, VecDeque};

use berth_api::agent::{Reason, Refusal};
use berth_api::cni::Attachment;

use crate::journal::Entry;

const SECOND: u64 = 1_000_000_000;
/// No runtime waits longer for a plugin.
const KEPT: u64 = 600 * SECOND;
/// For callers that do not send their start: for this long after a DEL, an ADD counts as late.
const LATE: u64 = 60 * SECOND;
/// Even after 100,000 releases at once, far fewer ADDs are under way.
pub const MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Tombstone {
    /// When the DEL was started.
    started: u64,
    at: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Tombstones {
    of: BTreeMap<Attachment, Tombstone>,
    /// Oldest first. A renewed tombstone is in it twice.
    order: VecDeque<(u64, Attachment)>,
}

impl Tombstones {
    pub fn insert(&mut self, attachment: &Attachment, started: u64, at: u64) {
        let before = self.of.get(attachment).map_or(0, |tombstone| tombstone.started);
        let started = started.max(before);
        self.of.insert(attachment.clone(), Tombstone { started, at });
        self.order.push_back((at, attachment.clone()));
        while self.order.len() > MAX
            || self
                .order
                .front()
                .is_some_and(|(oldest, _)| oldest.saturating_add(KEPT) < at)
        {
            let Some((of, attachment)) = self.order.pop_front() else {
                break;
            };
            if self.of.get(&attachment).is_some_and(|tombstone| tombstone.at <= of) {
                self.of.remove(&attachment);
            }
        }
    }

    pub fn has(&self, attachment: &Attachment) -> bool {
        self.of.contains_key(attachment)
    }

    /// The refusal of a late ADD; `None` if it may be served.
    pub fn refuses(&self, attachment: &Attachment, started: u64, now: u64) -> Option<Refusal> {
        let tombstone = self.of.get(attachment)?;
        let late = if started == 0 {
            now < tombstone.at.saturating_add(LATE)
        } else {
            started <= tombstone.started && now < tombstone.at.saturating_add(KEPT)
        };
        late.then(|| {
            let message = format!(
                "{attachment} was detached after this ADD was started: attach it again \
                 if it is still wanted"
            );
            Refusal::new(Reason::Detached, message)
        })
    }

    pub fn entries(&self, now: u64) -> impl Iterator<Item = Entry> {
        let kept = self
            .of
            .iter()
            .filter(move |(_, tombstone)| now < tombstone.at.saturating_add(KEPT));
        kept.map(|(attachment, tombstone)| Entry::Released {
            at: tombstone.at,
            started: tombstone.started,
            attachment: attachment.clone(),
        })
    }
}
