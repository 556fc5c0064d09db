//! How many calls go to the backend at a time. A backend that answers "too many requests" gets a
//! pause and then fewer calls; each success raises the limit again.

use std::time::Duration;

use berth_kit::backoff::{Backoff, Exponential};
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::backend::ErrorKind;

const THROTTLED_BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(1),
    max: Duration::from_secs(60),
};
const UNAUTHORIZED_BACKOFF: Exponential = Exponential {
    base: Duration::from_secs(5),
    max: Duration::from_secs(5 * 60),
};

#[derive(Debug)]
pub struct Pace {
    max: usize,
    limit: usize,
    paused_until: Option<Instant>,
    throttled: Backoff<StdRng>,
    unauthorized: Backoff<StdRng>,
}

impl Pace {
    pub fn new(max: usize, random: [StdRng; 2]) -> Self {
        let [first, second] = random;
        Self {
            max: max.max(1),
            limit: max.max(1),
            paused_until: None,
            throttled: Backoff::new(THROTTLED_BACKOFF, first),
            unauthorized: Backoff::new(UNAUTHORIZED_BACKOFF, second),
        }
    }

    /// How many calls may be under way now.
    pub fn limit(&self, now: Instant) -> usize {
        if self.pause(now).is_some() {
            0
        } else {
            self.limit
        }
    }

    /// When calls may go on, if they may not now.
    pub fn pause(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| *until > now)
    }

    pub fn succeed(&mut self) {
        self.throttled.succeed();
        self.unauthorized.succeed();
        self.limit = (self.limit + 1).min(self.max);
    }

    /// Calls under way together fail together: they count as one failure.
    pub fn fail(&mut self, kind: ErrorKind, now: Instant) {
        let delay = match kind {
            ErrorKind::Throttled { .. } | ErrorKind::Unauthorized if self.pause(now).is_some() => {
                return self.extend(kind, now);
            }
            ErrorKind::Throttled { retry_after } => {
                self.limit = (self.limit / 2).max(1);
                self.throttled.fail().max(retry_after.unwrap_or_default())
            }
            ErrorKind::Unauthorized => self.unauthorized.fail(),
            _ => return,
        };
        self.paused_until = Some(now + delay);
    }

    /// A later answer may ask for a longer pause.
    fn extend(&mut self, kind: ErrorKind, now: Instant) {
        if let ErrorKind::Throttled {
            retry_after: Some(after),
        } = kind
        {
            self.paused_until = self.paused_until.max(Some(now + after));
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn pace() -> Pace {
        Pace::new(200, [1, 2].map(StdRng::seed_from_u64))
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_kept() {
        let (mut pace, now) = (pace(), Instant::now());
        let retry_after = Some(Duration::from_secs(17));
        pace.fail(ErrorKind::Throttled { retry_after }, now);
        assert_eq!(pace.limit(now + Duration::from_secs(16)), 0);
        assert_eq!(pace.limit(now + Duration::from_secs(17)), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_fail_together_halve_the_limit_once() {
        let (mut pace, now) = (pace(), Instant::now());
        for _ in 0..200 {
            pace.fail(ErrorKind::Throttled { retry_after: None }, now);
        }
        assert_eq!(pace.limit(now + Duration::from_secs(2)), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_succeed_bring_the_limit_back() {
        let (mut pace, now) = (pace(), Instant::now());
        pace.fail(ErrorKind::Throttled { retry_after: None }, now);
        (0..500).for_each(|_| pace.succeed());
        assert_eq!(pace.limit(now + Duration::from_secs(2)), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn one_refused_route_slows_nobody_down() {
        let (mut pace, now) = (pace(), Instant::now());
        pace.fail(ErrorKind::Refused, now);
        pace.fail(ErrorKind::Quota, now);
        assert_eq!(pace.limit(now), 200);
    }
}
