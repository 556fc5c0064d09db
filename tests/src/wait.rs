//! Waiting for a condition, for as long as something moves.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

use crate::scene::Scene;

/// What was seen when one looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    There,
    /// And what it looked like instead.
    NotYet(String),
}

/// A cluster in which nothing has moved for so long will not move any more. It is no measure of
/// speed: whatever moves may take its time.
const STANDSTILL: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The interval is at least so many times what a look takes: a list of hundreds of pods, asked for
/// as often as it can be given, takes the cores from those who are waited for.
const INTERVAL_PER_LOOK: u32 = 4;

/// Looks until it is there. When what is seen stays the same for too long, the error says what was
/// seen last, and what the cluster complains of.
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
