//! The clock for cool-downs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use tokio::time::Instant;

/// Milliseconds since the epoch. It advances with tokio's clock, so that tests can stop it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The time since the epoch when the clock was made.
    began: Duration,
    at: Instant,
}

impl Clock {
    pub fn system() -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH);
        // If the machine's clock is before the epoch, time counts from the start of this process.
        Self::starting_at(began.unwrap_or_default())
    }

    /// For runs that must be repeatable.
    pub fn starting_at(began: Duration) -> Self {
        Self {
            began,
            at: Instant::now(),
        }
    }

    /// The time as Kubernetes objects have it.
    pub fn timestamp(&self) -> Timestamp {
        let millis = i64::try_from(self.now()).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }

    pub fn now(&self) -> u64 {
        let now = self.began + self.at.elapsed();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }
}
