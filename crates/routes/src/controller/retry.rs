//! When a failed change is tried again: each destination has its own back-off.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_addr::Prefix;
use berth_kit::backoff::{Backoff, Exponential};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::backend::ErrorKind;
use crate::core::Change;

/// The back-off of the queue; failed changes have their own.
pub const QUEUE_BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(500),
    max: Duration::from_secs(60),
};
/// People raise a quota. A deleted route makes room at once: see [`Retries::wake`].
const QUOTA_BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(10),
    max: Duration::from_secs(5 * 60),
};

#[derive(Debug)]
struct Retry {
    /// The change that failed. A different change of the same destination need not wait.
    change: Change,
    due: Instant,
    quota: bool,
    backoff: Backoff<StdRng>,
    quota_backoff: Backoff<StdRng>,
}

#[derive(Debug)]
pub struct Retries {
    retries: BTreeMap<Prefix, Retry>,
    random: StdRng,
}

impl Retries {
    pub fn new(random: StdRng) -> Self {
        Self {
            retries: BTreeMap::new(),
            random,
        }
    }

    /// Returns how long to wait before the next try.
    pub fn fail(&mut self, change: &Change, kind: ErrorKind, now: Instant) -> Duration {
        let random = &mut self.random;
        let fresh = || Retry {
            change: change.clone(),
            due: now,
            quota: false,
            backoff: Backoff::new(BACKOFF, StdRng::from_rng(random)),
            quota_backoff: Backoff::new(QUOTA_BACKOFF, StdRng::from_rng(random)),
        };
        let retry = self.retries.entry(change.destination).or_insert_with(fresh);
        retry.quota = kind == ErrorKind::Quota;
        let delay = match kind {
            ErrorKind::Quota => retry.quota_backoff.fail(),
            ErrorKind::Throttled { retry_after } => {
                retry.backoff.fail().max(retry_after.unwrap_or_default())
            }
            _ => retry.backoff.fail(),
        };
        retry.change = change.clone();
        retry.due = now + delay;
        delay
    }

    pub fn succeed(&mut self, destination: Prefix) {
        self.retries.remove(&destination);
    }

    /// How long this change has to wait, if the very same change failed before.
    pub fn due(&self, change: &Change, now: Instant) -> Option<Duration> {
        let retry = self.retries.get(&change.destination)?;
        (retry.change == *change && retry.due > now).then(|| retry.due - now)
    }

    /// Destinations that failed and have not succeeded since.
    pub fn destinations(&self) -> impl Iterator<Item = Prefix> {
        self.retries.keys().copied()
    }

    pub fn has_failed(&self, destination: Prefix) -> bool {
        self.retries.contains_key(&destination)
    }

    /// The backend has room again: changes that failed for quota are due now.
    pub fn wake(&mut self, now: Instant) -> Vec<Prefix> {
        let waiting = self
            .retries
            .iter_mut()
            .filter(|(_, retry)| retry.quota && retry.due > now);
        waiting
            .map(|(destination, retry)| {
                retry.due = now;
                *destination
            })
            .collect()
    }
}
