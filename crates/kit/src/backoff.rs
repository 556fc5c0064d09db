//! How long to wait before the next try: exponential, and where many wait for the same thing, with
//! jitter.

use std::time::Duration;

use rand::{Rng, RngExt};

/// `base`, twice as long after each failure, never more than `max`. Pure; every pair of values is
/// valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponential {
    pub base: Duration,
    pub max: Duration,
}

impl Exponential {
    pub fn delay(&self, failures: u32) -> Duration {
        // 64 doublings of a nanosecond are centuries: more failures don't wait longer.
        (0..failures.min(64))
            .fold(self.base, |delay, _| delay.saturating_mul(2))
            .min(self.max)
    }
}

/// At most this share of the delay is added at random, so that those who failed together don't come
/// back together.
const JITTER: f64 = 0.5;

/// Counts the failures of one thing and says how long to wait. The random source is passed in: the
/// same seed gives the same delays.
#[derive(Debug)]
pub struct Backoff<R> {
    exponential: Exponential,
    failures: u32,
    rng: R,
}

impl<R: Rng> Backoff<R> {
    pub fn new(exponential: Exponential, rng: R) -> Self {
        Self {
            exponential,
            failures: 0,
            rng,
        }
    }

    /// How long to wait after the failure that has just happened.
    pub fn fail(&mut self) -> Duration {
        let delay = self.exponential.delay(self.failures);
        self.failures = self.failures.saturating_add(1);
        delay.mul_f64(1.0 + JITTER * self.rng.random::<f64>())
    }

    pub fn succeed(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use rand::{SeedableRng, rngs::StdRng};

    use super::*;

    const SECONDS: Exponential = Exponential {
        base: Duration::from_secs(1),
        max: Duration::from_secs(30),
    };

    #[test]
    fn doubles_from_base_up_to_max() {
        let delays: Vec<u64> = (0..7).map(|n| SECONDS.delay(n).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn any_number_of_failures_has_a_delay() {
        assert_eq!(SECONDS.delay(32), SECONDS.max);
        assert_eq!(SECONDS.delay(u32::MAX), SECONDS.max);
    }

    #[test]
    fn jitter_only_lengthens_and_by_at_most_half() {
        let mut backoff = Backoff::new(SECONDS, StdRng::seed_from_u64(7));
        for failures in 0..100 {
            let delay = backoff.fail();
            assert!(delay >= SECONDS.delay(failures));
            assert!(delay <= SECONDS.delay(failures).mul_f64(1.5));
        }
    }

    #[test]
    fn the_same_seed_waits_the_same() {
        let delays = |seed| {
            let mut backoff = Backoff::new(SECONDS, StdRng::seed_from_u64(seed));
            (0..10).map(|_| backoff.fail()).collect::<Vec<_>>()
        };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
    }

    #[test]
    fn success_starts_over() {
        let mut backoff = Backoff::new(SECONDS, StdRng::seed_from_u64(7));
        for _ in 0..5 {
            backoff.fail();
        }
        backoff.succeed();
        assert!(backoff.fail() <= Duration::from_millis(1500));
    }
}
