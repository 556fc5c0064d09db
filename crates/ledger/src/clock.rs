//! The time that cool-downs are counted in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use tokio::time::Instant;

/// Milliseconds since the epoch. It goes as tokio's clock does, so that tests can stop it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The epoch's distance when the clock was made.
    began: Duration,
    at: Instant,
}

impl Clock {
    pub fn system() -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH);
        // A machine whose clock is before the epoch: cool-downs are still counted from when this
        // process began.
        Self::starting_at(began.unwrap_or_default())
    }

    /// For runs that are to be repeated.
    pub fn starting_at(began: Duration) -> Self {
        Self {
            began,
            at: Instant::now(),
        }
    }

    /// As objects have it.
    pub fn timestamp(&self) -> Timestamp {
        let millis = i64::try_from(self.now()).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }

    pub fn now(&self) -> u64 {
        let now = self.began + self.at.elapsed();
        u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
    }
}
