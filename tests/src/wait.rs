//! Waiting for a condition, for as long as something moves.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use crate::scene::Scene;

/// What a look has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    There,
    /// With what was found instead.
    NotYet(String),
}

/// If nothing has moved in the cluster for this long, nothing will. It is no measure of speed:
/// while something moves, the wait goes on.
const STANDSTILL: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The interval is at least this many times as long as a look takes. Listing hundreds of pods
/// without a pause would take the cores from the components that the test waits for.
const INTERVAL_PER_LOOK: u32 = 4;

/// Looks until it is there. If what is seen stays the same for too long, the error has what was
/// seen last, and the cluster's warnings.
pub async fn wait_for(
    scene: &Scene,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Seen>,
) -> Result<()> {
    let mut last = String::new();
    let mut changed = Instant::now();
    loop {
        let begin = Instant::now();
        match look().await? {
            Seen::There => return Ok(()),
            Seen::NotYet(seen) if seen != last => {
                last = seen;
                changed = Instant::now();
            }
            Seen::NotYet(_) if changed.elapsed() > STANDSTILL => {
                let report = scene.report().await;
                let report = report
                    .unwrap_or_else(|error| format!("the cluster does not answer: {error:#}"));
                bail!("waited in vain: {what}\nlast seen: {last}\n{report}");
            }
            Seen::NotYet(_) => {}
        }
        tokio::time::sleep(POLL_INTERVAL.max(begin.elapsed() * INTERVAL_PER_LOOK)).await;
    }
}
