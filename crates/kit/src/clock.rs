//! The time: the machine's, or tokio's, which tests pause.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's.
    System,
    /// tokio's: it was this time at this instant.
    Tokio(Instant, Timestamp),
}

impl Clock {
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System => Timestamp::now(),
            Self::Tokio(start, time) => {
                let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or_default();
                time.checked_add(elapsed).unwrap_or(*time)
            }
        }
    }

    /// Whole seconds: what is written must be equal to what is read back.
    pub fn time(&self) -> Time {
        let now = self.now();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
    }

    pub fn micro_time(&self) -> MicroTime {
        let now = self.now();
        MicroTime(Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now))
    }
}
