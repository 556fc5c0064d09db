//! A node whose address flaps must not cost a call for every flap.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use berth_addr::Prefix;
use tokio::time::Instant;

/// This many changes of a destination are made without delay, within `WINDOW`.
const BURST: usize = 4;
const WINDOW: Duration = Duration::from_secs(60);
/// Further changes are made once in this time.
const INTERVAL: Duration = Duration::from_secs(10);

/// When each destination was last changed.
#[derive(Debug, Default)]
pub struct Damping {
    changed: BTreeMap<Prefix, VecDeque<Instant>>,
}

impl Damping {
    /// How long the next change of this destination has to wait.
    pub fn delay(&self, destination: Prefix, now: Instant) -> Option<Duration> {
        let changed = self.changed.get(&destination)?;
        let recent = changed.iter().filter(|at| now - **at < WINDOW).count();
        let next = *changed.back()? + INTERVAL;
        (recent >= BURST && next > now).then(|| next - now)
    }

    pub fn changed(&mut self, destination: Prefix, now: Instant) {
        let changed = self.changed.entry(destination).or_default();
        changed.push_back(now);
        if changed.len() > BURST {
            changed.pop_front();
        }
    }

    /// Deletes destinations without recent changes.
    pub fn prune(&mut self, now: Instant) {
        self.changed
            .retain(|_, changed| changed.back().is_some_and(|at| now - *at < WINDOW));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_after_a_burst_are_made_once_every_ten_seconds() {
        let mut damping = Damping::default();
        let destination: Prefix = "10.0.0.0/24".parse().unwrap();
        let mut now = Instant::now();
        for _ in 0..BURST {
            assert_eq!(damping.delay(destination, now), None);
            damping.changed(destination, now);
        }
        for _ in 0..3 {
            assert_eq!(damping.delay(destination, now), Some(INTERVAL));
            now += INTERVAL;
            assert_eq!(damping.delay(destination, now), None);
            damping.changed(destination, now);
        }
        now += WINDOW;
        assert_eq!(damping.delay(destination, now), None);
    }
}
