//! Who may write a Lease, and what. Pure: the clocks are passed in.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::Instant;

/// The spec that a Lease had when it last changed, and when we saw that change, by our own clock.
#[derive(Debug)]
pub(super) struct Observation {
    spec: LeaseSpec,
    since: Instant,
}

impl Observation {
    /// Observing the same spec again keeps `since`: a holder that renews changes the spec.
    pub(super) fn update<'a>(
        observed: &'a mut Option<Self>,
        spec: &LeaseSpec,
        now: Instant,
    ) -> &'a Self {
        let unchanged = observed.take().filter(|seen| seen.spec == *spec);
        observed.insert(unchanged.unwrap_or_else(|| Self {
            spec: spec.clone(),
            since: now,
        }))
    }

    /// When the holder's lease ends if no renewal is observed. `fallback` is for a Lease that does
    /// not say how long it lasts.
    fn ends(&self, fallback: Duration) -> Instant {
        let lasts = self
            .spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|&seconds| seconds > 0)
            .map_or(fallback, Duration::from_secs);
        self.since + lasts
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is ours: keep it.
    Renew,
    /// Nobody holds it, or its holder has not renewed it in time.
    Take,
    /// Another process holds it until this time, as far as we know now.
    Wait(Instant),
}

pub(super) fn decide(
    observed: &Observation,
    identity: &str,
    fallback: Duration,
    now: Instant,
) -> Decision {
    let ends = observed.ends(fallback);
    match observed.spec.holder_identity.as_deref() {
        Some(holder) if holder == identity => Decision::Renew,
        None | Some("") => Decision::Take,
        Some(_) if ends <= now => Decision::Take,
        Some(_) => Decision::Wait(ends),
    }
}

/// The spec that we write to hold the lease. A new holder counts one more transition; a renewal
/// keeps the acquire time.
pub(super) fn held(before: &LeaseSpec, identity: &str, seconds: i32, wall: Timestamp) -> LeaseSpec {
    let renewal = before.holder_identity.as_deref() == Some(identity);
    let renewed = Some(MicroTime(after(before, wall)));
    let transitions = before.lease_transitions.unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(seconds),
        acquire_time: before
            .acquire_time
            .clone()
            .filter(|_| renewal)
            .or_else(|| renewed.clone()),
        renew_time: renewed,
        lease_transitions: Some(if renewal {
            transitions
        } else {
            transitions.saturating_add(1)
        }),
        ..before.clone()
    }
}

/// The spec that we write into a new Lease.
pub(super) fn first(identity: &str, seconds: i32, wall: Timestamp) -> LeaseSpec {
    LeaseSpec {
        lease_transitions: Some(0),
        ..held(&LeaseSpec::default(), identity, seconds, wall)
    }
}

/// The spec that we write to give the lease up. It lasts one second, as client-go's does: nobody
/// should wait for us.
pub(super) fn released(before: &LeaseSpec, wall: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(after(before, wall))),
        ..before.clone()
    }
}

/// The wall clock, but always later than the last renew time. Others know that we are alive when
/// the value changes, and a wall clock may stand still or go back.
fn after(before: &LeaseSpec, wall: Timestamp) -> Timestamp {
    let microsecond = SignedDuration::from_micros(1);
    match before.renew_time.as_ref() {
        Some(MicroTime(last)) => {
            last.checked_add(microsecond).map_or(wall, |least| least.max(wall))
        }
        None => wall,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FALLBACK: Duration = Duration::from_secs(15);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn observed(spec: &LeaseSpec, now: Instant) -> Observation {
        let mut observed = None;
        Observation::update(&mut observed, spec, now);
        observed.unwrap()
    }

    #[test]
    fn a_lease_is_waited_for_from_when_it_was_seen_to_change() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let spec = first("a", 15, at(0));
        let mut observed = None;
        Observation::update(&mut observed, &spec, start);
        let seen = Observation::update(&mut observed, &spec, later(10));
        assert_eq!(decide(seen, "b", FALLBACK, later(10)), Decision::Wait(later(15)));
        assert_eq!(decide(seen, "b", FALLBACK, later(15)), Decision::Take);

        let renewed = held(&spec, "a", 15, at(14));
        let seen = Observation::update(&mut observed, &renewed, later(14));
        assert_eq!(decide(seen, "b", FALLBACK, later(15)), Decision::Wait(later(29)));
    }

    #[test]
    fn the_holder_s_own_duration_counts_and_ours_when_there_is_none() {
        let now = Instant::now();
        let wait = |seconds| {
            let spec = LeaseSpec {
                lease_duration_seconds: seconds,
                ..first("a", 15, at(0))
            };
            decide(&observed(&spec, now), "b", FALLBACK, now)
        };
        assert_eq!(wait(Some(60)), Decision::Wait(now + Duration::from_secs(60)));
        for nonsense in [None, Some(0), Some(-1)] {
            assert_eq!(wait(nonsense), Decision::Wait(now + FALLBACK));
        }
    }

    #[test]
    fn ours_is_renewed_and_nobody_s_is_taken() {
        let now = Instant::now();
        let ours = first("a", 15, at(0));
        assert_eq!(decide(&observed(&ours, now), "a", FALLBACK, now), Decision::Renew);
        for free in [released(&ours, at(1)), LeaseSpec::default()] {
            assert_eq!(decide(&observed(&free, now), "b", FALLBACK, now), Decision::Take);
        }
    }

    #[test]
    fn lease_transitions_count_changes_of_the_holder_only() {
        let mut spec = first("a", 15, at(0));
        assert_eq!(spec.lease_transitions, Some(0));
        spec = held(&spec, "a", 15, at(2));
        assert_eq!(spec.lease_transitions, Some(0));
        assert_eq!(spec.acquire_time, Some(MicroTime(at(0))));
        spec = held(&spec, "b", 15, at(20));
        assert_eq!(spec.lease_transitions, Some(1));
        assert_eq!(spec.acquire_time, Some(MicroTime(at(20))));
        spec = held(&released(&spec, at(21)), "a", 15, at(22));
        assert_eq!(spec.lease_transitions, Some(2));
    }

    #[test]
    fn a_renewal_is_a_change_even_when_the_wall_clock_goes_back() {
        let before = first("a", 15, at(100));
        for wall in [at(100), at(50)] {
            let after = held(&before, "a", 15, wall);
            assert!(after.renew_time > before.renew_time);
        }
    }

    #[test]
    fn fields_that_are_not_ours_stay() {
        let before = LeaseSpec {
            strategy: Some("OldestEmulationVersion".to_owned()),
            ..LeaseSpec::default()
        };
        assert_eq!(held(&before, "a", 15, at(0)).strategy, before.strategy);
    }
}
