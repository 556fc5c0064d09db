//! Leader election on a `coordination.k8s.io` Lease, compatible with client-go's: same fields, same
//! rules, same defaults.
//!
//! Its promises, as long as the processes' monotonic clocks run at about the same rate:
//! - At most one process believes that it leads. A leader counts its time from before it sent the
//!   renewal. At the renew deadline it stops believing by itself, even if the election's task is
//!   starved or gone. The others count from when they saw that renewal, and wait for the whole,
//!   longer lease. Nobody compares the wall clocks of two processes: those in the Lease are for
//!   people.
//! - Every write carries the resourceVersion of the Lease that it was decided on.
//! - A lease is released when the election is stopped, but not while a [`Term`] is held: work
//!   first, then the lease.
//! - An error of the API server is a reason to try again, never to panic or to give up.
//!
//! kube-lease-manager 0.13 does not keep the first promise: its channel goes on saying "leader"
//! while renewals fail, and it compares wall clocks to find expiry. Nor does it keep the second:
//! its renewals and forced releases are patches without a resourceVersion. Its `SystemTime` also
//! does not stop with tokio's paused clock.

mod decide;
mod elect;
mod term;

use std::time::Duration;

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::metrics::Name;

pub use elect::LeaderElection;
pub use term::{Leadership, Term};

/// How long a lease lasts and how it is kept. `Timing::new` refuses values with which two processes
/// could lead, or with which a leader has no second try to renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTiming {
    #[error("lease duration {0:?}: must be a whole number of seconds from 1 to 2147483647")]
    NotWholeSeconds(Duration),
    #[error("renew deadline {renew:?}: must be shorter than the lease duration, {lease:?}")]
    DeadlineAfterLease { renew: Duration, lease: Duration },
    #[error(
        "retry period {retry:?}: must be above 0 and shorter than the renew deadline, {renew:?}"
    )]
    RetryAfterDeadline { retry: Duration, renew: Duration },
}

impl Timing {
    pub fn new(lease: Duration, renew: Duration, retry: Duration) -> Result<Self, InvalidTiming> {
        if lease.subsec_nanos() != 0 || lease.is_zero() || i32::try_from(lease.as_secs()).is_err() {
            return Err(InvalidTiming::NotWholeSeconds(lease));
        }
        if renew >= lease {
            return Err(InvalidTiming::DeadlineAfterLease { renew, lease });
        }
        if retry.is_zero() || retry >= renew {
            return Err(InvalidTiming::RetryAfterDeadline { retry, renew });
        }
        Ok(Self {
            lease_duration: lease,
            renew_deadline: renew,
            retry_period: retry,
        })
    }

    /// The duration as the Lease has it. `new` refuses values that do not fit, so the fallback is
    /// never written.
    fn lease_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }
}

/// The defaults of kube-controller-manager: 15 s, 10 s, 2 s.
impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Which elections this process leads, under client-go's metric name.
#[derive(Clone, Debug, Default)]
pub struct ElectionMetrics {
    leading: Family<Name, Gauge>,
}

impl ElectionMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "leader_election_master_status",
            "Whether this process leads: 1 leader, 0 waiting",
            metrics.leading.clone(),
        );
        metrics
    }

    /// Adds a sample to the family: an empty family is not encoded. The tables of `docs` are made
    /// from the encoded text.
    pub fn sample(&self) {
        self.leading("");
    }

    fn leading(&self, name: &str) -> Gauge {
        self.leading.get_or_create_owned(&Name::from(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(lease: u64, renew: u64, retry: u64) -> Result<Timing, InvalidTiming> {
        let millis = Duration::from_millis;
        Timing::new(millis(lease), millis(renew), millis(retry))
    }

    #[test]
    fn the_defaults_are_client_go_s_and_would_be_accepted() {
        assert_eq!(timing(15_000, 10_000, 2_000), Ok(Timing::default()));
    }

    #[test]
    fn a_leader_may_not_believe_longer_than_its_lease() {
        let error = timing(15_000, 15_000, 2_000).unwrap_err();
        assert!(matches!(error, InvalidTiming::DeadlineAfterLease { .. }));
    }

    #[test]
    fn a_renewal_must_have_a_second_try() {
        for retry in [0, 10_000] {
            let error = timing(15_000, 10_000, retry).unwrap_err();
            assert!(matches!(error, InvalidTiming::RetryAfterDeadline { .. }));
        }
    }

    #[test]
    fn a_lease_lasts_whole_seconds() {
        for lease in [0, 1_500, u64::MAX] {
            let error = timing(lease, 1_000, 100).unwrap_err();
            assert!(matches!(error, InvalidTiming::NotWholeSeconds(_)));
        }
    }
}
