//! What a Subnet's status says. Pure.

use std::collections::BTreeSet;

use berth_addr::{Counts, Prefix};
use berth_api::subnet::Exhaustion;
use berth_api::{Count, Subnet, SubnetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::decide::Verdict;
use super::exhaustion::Fill;
use super::services::ServiceRange;
use crate::claims::Conflict;

pub const READY: &str = "Ready";
const OVERLAPPING: &str = "Overlapping";
const EXHAUSTED: &str = "Exhausted";
const CONFLICT: &str = "Conflict";

/// The reason of the condition Exhausted while somebody waits. Whoever publishes it to agents looks
/// for this word.
pub const AWAITED: &str = "AddressesAwaited";
/// Of several conflicts, these many are named.
const NAMED: usize = 3;

/// What was said last.
pub fn said(subnet: &Subnet) -> Option<Fill> {
    let conditions = subnet.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.into_iter().find(|condition| condition.type_ == EXHAUSTED)?;
    match (found.status.as_str(), found.reason.as_str()) {
        ("True", AWAITED) => Some(Fill::Awaited),
        ("True", _) => Some(Fill::Exhausted),
        ("False", _) => Some(Fill::Enough),
        _ => None,
    }
}

/// `cidrs` and `counts` are those of the plan that the ledger follows, if it knows the Subnet at
/// all.
#[expect(clippy::too_many_arguments, reason = "all that a status says, in one place")]
pub fn status(
    subnet: &Subnet,
    verdict: &Verdict,
    cidrs: Option<&[Prefix]>,
    counts: Option<Counts>,
    fill: Fill,
    conflicts: &BTreeSet<Conflict>,
    service: Option<&ServiceRange>,
    now: Timestamp,
) -> SubnetStatus {
    let before = subnet.status.as_ref();
    // They stay when it could not be made known: nodes may have addresses in them, and with them it
    // is tried again.
    let cidrs = match cidrs {
        Some(cidrs) => cidrs.iter().map(ToString::to_string).collect(),
        None => before.map(|before| before.cidrs.clone()).unwrap_or_default(),
    };
    let conditions = [
        ready(verdict, counts),
        overlapping(verdict, service),
        exhausted(counts, fill, subnet.spec.exhaustion),
        conflict(conflicts),
    ];
    let count = |pick: fn(Counts) -> u128| counts.map(|counts| Count(pick(counts)));
    SubnetStatus {
        observed_generation: subnet.metadata.generation,
        epoch: before.and_then(|before| before.epoch),
        cidrs,
        capacity: count(|counts| counts.capacity),
        reserved: count(|counts| counts.reserved),
        resting: count(|counts| counts.resting),
        free: count(|counts| counts.free),
        conditions: conditions
            .into_iter()
            .map(|said| said.condition(before, subnet, now))
            .collect(),
    }
}

/// A condition without its times.
struct Said {
    type_: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Said {
    /// The time is that of the last change of the condition's status.
    fn condition(
        self,
        before: Option<&SubnetStatus>,
        subnet: &Subnet,
        now: Timestamp,
    ) -> Condition {
        let before = before
            .and_then(|before| before.conditions.iter().find(|before| before.type_ == self.type_));
        let same = before.filter(|before| before.status == self.status);
        Condition {
            type_: self.type_.to_owned(),
            status: self.status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            observed_generation: subnet.metadata.generation,
            last_transition_time: same.map_or(Time(now), |same| same.last_transition_time.clone()),
        }
    }
}

fn ready(verdict: &Verdict, counts: Option<Counts>) -> Said {
    let goes_on = if counts.is_some() {
        ". Until then it goes on as it was before that change"
    } else {
        ". Until then nothing is handed out"
    };
    let (status, reason, message) = match verdict {
        Verdict::Ready => ("True", "Accepted", "addresses are handed out".to_owned()),
        Verdict::Invalid { why } => ("False", "Invalid", format!("{why}{goes_on}")),
        Verdict::Overlapping { why } => ("False", "Overlapping", format!("{why}{goes_on}")),
        Verdict::InUse { why } => ("False", "InUse", format!("{why}{goes_on}")),
        Verdict::WrongCluster { why } => ("False", "WrongCluster", format!("{why}{goes_on}")),
        Verdict::Leaving { owners } => ("False", "Deleting", leaving(*owners)),
    };
    Said {
        type_: READY,
        status,
        reason,
        message,
    }
}

pub fn leaving(owners: usize) -> String {
    format!(
        "{owners} still own addresses in it and keep them; no other node is given any. It goes \
         when they have given all of them back: delete \
         their Nodes, or create a Subnet of the same name again"
    )
}

/// A service keeps what it was told; a ledger in this process knows what its controllers tell it.
pub fn torn_away(owners: usize, is_kept: bool) -> String {
    let fix = if is_kept {
        "Create it again with the same cidrs"
    } else {
        "Create it again with the same cidrs, else nothing keeps a new Subnet from having the \
         same addresses once this controller is started again"
    };
    format!("it was removed although {owners} own addresses in it: they keep them. {fix}")
}

fn overlapping(verdict: &Verdict, service: Option<&ServiceRange>) -> Said {
    let (status, reason, message) = match (verdict, service) {
        (Verdict::Overlapping { why }, _) => ("True", "Overlapping", why.clone()),
        (_, Some(ServiceRange { name, cidr })) => (
            "True",
            "ServiceCIDR",
            format!(
                "spec.cidrs: {cidr} of ServiceCIDR {name} has addresses of it: Services and pods \
                 with the same address can't be told apart. \
                 Create a Subnet with other CIDRs in its place, or exclude them"
            ),
        ),
        _ => (
            "False",
            "NoOverlap",
            "no other Subnet has any of its addresses".to_owned(),
        ),
    };
    Said {
        type_: OVERLAPPING,
        status,
        reason,
        message,
    }
}

fn exhausted(counts: Option<Counts>, fill: Fill, thresholds: Exhaustion) -> Said {
    let (status, reason, message) = match (counts, fill) {
        (None, _) => ("Unknown", "NotReady", "it does not hand out anything".to_owned()),
        (Some(_), Fill::Enough) => (
            "False",
            "Enough",
            format!("not more than {} % are reserved", thresholds.enter_percent),
        ),
        (Some(_), Fill::Exhausted) => (
            "True",
            "Exhausted",
            format!(
                "agents keep one spare address each, until what they would ask for otherwise fits \
                 into {} %: append a CIDR to spec.cidrs",
                thresholds.enter_percent
            ),
        ),
        (Some(_), Fill::Awaited) => (
            "True",
            AWAITED,
            "nodes wait for addresses, so agents keep no spare ones: append a CIDR to \
             spec.cidrs"
                .to_owned(),
        ),
    };
    Said {
        type_: EXHAUSTED,
        status,
        reason,
        message,
    }
}

fn conflict(conflicts: &BTreeSet<Conflict>) -> Said {
    let named = conflicts.iter().take(NAMED).map(ToString::to_string);
    let named: Vec<String> = named.collect();
    let (status, reason, message) = match conflicts.len() {
        0 => ("False", "NoConflict", "no address is in use on two nodes".to_owned()),
        count => (
            "True",
            "AddressConflict",
            format!(
                "{count} addresses are in use on two nodes, and no other node gets them: {}. \
                 Delete the pod that has it on one of them",
                named.join("; ")
            ),
        ),
    };
    Said {
        type_: CONFLICT,
        status,
        reason,
        message,
    }
}

#[cfg(test)]
mod tests {
    use berth_api::SubnetSpec;

    use super::*;

    fn counts(reserved: u128) -> Counts {
        Counts {
            capacity: 100,
            reserved,
            resting: 0,
            free: 100 - reserved,
        }
    }

    fn subnet(status: Option<SubnetStatus>) -> Subnet {
        let mut subnet = Subnet::new("pods", SubnetSpec::default());
        subnet.metadata.generation = Some(3);
        subnet.status = status;
        subnet
    }

    fn none() -> BTreeSet<Conflict> {
        BTreeSet::new()
    }

    fn cidrs() -> Vec<Prefix> {
        vec!["10.0.0.0/24".parse().unwrap()]
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn find<'a>(status: &'a SubnetStatus, type_: &str) -> &'a Condition {
        status
            .conditions
            .iter()
            .find(|condition| condition.type_ == type_)
            .unwrap()
    }

    #[test]
    fn a_good_subnet_is_ready_and_counted() {
        let status = status(
            &subnet(None),
            &Verdict::Ready,
            Some(&cidrs()),
            Some(counts(7)),
            Fill::Enough,
            &none(),
            None,
            at(1),
        );
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!((status.capacity, status.reserved), (Some(Count(100)), Some(Count(7))));
        let states: Vec<(&str, &str)> = status
            .conditions
            .iter()
            .map(|c| (c.type_.as_str(), c.status.as_str()))
            .collect();
        assert_eq!(
            states,
            [
                ("Ready", "True"),
                ("Overlapping", "False"),
                ("Exhausted", "False"),
                ("Conflict", "False")
            ]
        );
    }

    #[test]
    fn a_refused_one_says_the_field_and_the_fix_and_has_no_counts() {
        let why = "spec.cidrs: 10.0.0.0/24 is also in Subnet a: delete one of the two".to_owned();
        let status = status(
            &subnet(None),
            &Verdict::Overlapping { why },
            None,
            None,
            Fill::Enough,
            &none(),
            None,
            at(1),
        );
        assert_eq!(status.capacity, None);
        assert_eq!(find(&status, "Overlapping").status, "True");
        let ready = find(&status, "Ready");
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Overlapping"));
        assert!(
            ready.message.starts_with("spec.cidrs: 10.0.0.0/24 is also in Subnet a"),
            "{}",
            ready.message
        );
    }

    #[test]
    fn the_cidrs_that_were_followed_last_stay_written_while_it_is_not_known() {
        let good = status(
            &subnet(None),
            &Verdict::Ready,
            Some(&cidrs()),
            Some(counts(7)),
            Fill::Enough,
            &none(),
            None,
            at(1),
        );
        assert_eq!(good.cidrs, ["10.0.0.0/24"]);
        let why = "spec.cidrs: 10.0.0.0/24 is also in Subnet a".to_owned();
        let refused = status(
            &subnet(Some(good)),
            &Verdict::Overlapping { why },
            None,
            None,
            Fill::Enough,
            &none(),
            None,
            at(2),
        );
        assert_eq!(
            (refused.cidrs, refused.capacity),
            (vec!["10.0.0.0/24".to_owned()], None)
        );
    }

    #[test]
    fn a_condition_changes_its_time_with_its_status_only() {
        let first = status(
            &subnet(None),
            &Verdict::Ready,
            Some(&cidrs()),
            Some(counts(7)),
            Fill::Enough,
            &none(),
            None,
            at(1),
        );
        let same = status(
            &subnet(Some(first.clone())),
            &Verdict::Ready,
            Some(&cidrs()),
            Some(counts(7)),
            Fill::Enough,
            &none(),
            None,
            at(9),
        );
        assert_eq!(same, first);
        let full = status(
            &subnet(Some(first)),
            &Verdict::Ready,
            Some(&cidrs()),
            Some(counts(96)),
            Fill::Exhausted,
            &none(),
            None,
            at(9),
        );
        assert_eq!(find(&full, "Exhausted").last_transition_time.0, at(9));
        assert_eq!(find(&full, "Ready").last_transition_time.0, at(1));
    }
}
