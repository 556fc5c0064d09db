//! Time since the machine was booted; plugins send the same clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's.
    Boot,
    /// Tokio's clock, which tests can stop. It counts from this instant, which stands for one hour
    /// after the boot.
    Runtime(Instant),
}

impl Clock {
    pub fn runtime() -> Self {
        Self::Runtime(Instant::now())
    }

    /// Nanoseconds; never 0, which stands for a time that is not known.
    pub fn now(self) -> u64 {
        match self {
            Self::Boot => {
                let time = clock_gettime(ClockId::Boottime);
                let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
                seconds.saturating_mul(1_000_000_000).saturating_add(rest).max(1)
            }
            Self::Runtime(start) => nanoseconds(Duration::from_secs(3600) + start.elapsed()),
        }
    }
}

pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
