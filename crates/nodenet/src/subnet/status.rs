//! What a Subnet's status says. Pure.

use std::collections::BTreeSet;

use berth_addr::{Counts, Prefix};
use berth_api::subnet::Exhaustion;
use berth_api::{Count, Subnet, SubnetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::decide::Verdict;
use super::exhaustion::Fill;
use super::service_cidrs::ServiceRange;
use crate::holdings::Conflict;

pub const READY: &str = "Ready";
const OVERLAPPING: &str = "Overlapping";
const EXHAUSTED: &str = "Exhausted";
const CONFLICT: &str = "Conflict";

/// The reason of the condition Exhausted while somebody waits. The controller that publishes it to
/// agents looks for this word.
pub const AWAITED: &str = "AddressesAwaited";
/// How many of several conflicts are named.
const MAX_NAMED: usize = 3;

/// The fill that was published last.
pub fn published_fill(subnet: &Subnet) -> Option<Fill> {
    let conditions = subnet.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.into_iter().find(|condition| condition.type_ == EXHAUSTED)?;
    match (found.status.as_str(), found.reason.as_str()) {
        ("True", AWAITED) => Some(Fill::Awaited),
        ("True", _) => Some(Fill::Exhausted),
        ("False", _) => Some(Fill::Enough),
        _ => None,
    }
}

/// What a status says.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    pub verdict: &'a Verdict,
    /// The cidrs of the plan that is registered, if any is.
    pub cidrs: Option<&'a [Prefix]>,
    /// As `cidrs`.
    pub counts: Option<Counts>,
    pub fill: Fill,
    pub conflicts: &'a BTreeSet<Conflict>,
    /// A range of Services that it overlaps.
    pub service: Option<&'a ServiceRange>,
}

pub fn status(subnet: &Subnet, report: Report<'_>, now: Timestamp) -> SubnetStatus {
    let Report {
        verdict,
        cidrs,
        counts,
        fill,
        conflicts,
        service,
    } = report;
    let before = subnet.status.as_ref();
    // They stay if the Subnet could not be registered: nodes may have addresses in them, and the
    // next attempt needs them.
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
        cooling_down: count(|counts| counts.cooling_down),
        free: count(|counts| counts.free),
        // This belongs to the scheduler: left out, it stays as it is.
        pods_that_fit: None,
        conditions: conditions
            .into_iter()
            .map(|part| part.condition(before, subnet, now))
            .collect(),
    }
}

/// A condition without its times.
struct Part {
    type_: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Part {
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

fn ready(verdict: &Verdict, counts: Option<Counts>) -> Part {
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
        Verdict::Deleting { owners } => ("False", "Deleting", deleting(*owners)),
    };
    Part {
        type_: READY,
        status,
        reason,
        message,
    }
}

pub fn deleting(owners: usize) -> String {
    format!(
        "{owners} still own addresses in it and keep them; no other node is given any. It goes \
         when they have given all of them back: delete their Nodes, or create a Subnet of the \
         same name again"
    )
}

/// A service keeps what it was told; a ledger in this process knows what its controllers tell it.
pub fn deleted_in_use(owners: usize, is_kept: bool) -> String {
    let fix = if is_kept {
        "Create it again with the same cidrs"
    } else {
        "Create it again with the same cidrs, else nothing keeps a new Subnet from having the \
         same addresses once this controller is started again"
    };
    format!("it was removed although {owners} own addresses in it: they keep them. {fix}")
}

fn overlapping(verdict: &Verdict, service: Option<&ServiceRange>) -> Part {
    let (status, reason, message) = match (verdict, service) {
        (Verdict::Overlapping { why }, _) => ("True", "Overlapping", why.clone()),
        (_, Some(ServiceRange { name, cidr })) => (
            "True",
            "ServiceCIDR",
            format!(
                "spec.cidrs: {cidr} of ServiceCIDR {name} has addresses of it: Services and pods \
                 with the same address can't be told apart. Create a Subnet with other CIDRs in \
                 its place, or exclude them"
            ),
        ),
        _ => (
            "False",
            "NoOverlap",
            "no other Subnet has any of its addresses".to_owned(),
        ),
    };
    Part {
        type_: OVERLAPPING,
        status,
        reason,
        message,
    }
}

fn exhausted(counts: Option<Counts>, fill: Fill, thresholds: Exhaustion) -> Part {
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
            "nodes wait for addresses, so agents keep no spare ones: append a CIDR to spec.cidrs"
                .to_owned(),
        ),
    };
    Part {
        type_: EXHAUSTED,
        status,
        reason,
        message,
    }
}

fn conflict(conflicts: &BTreeSet<Conflict>) -> Part {
    let named = conflicts.iter().take(MAX_NAMED).map(ToString::to_string);
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
    Part {
        type_: CONFLICT,
        status,
        reason,
        message,
    }
}

#[cfg(test)]
mod tests;
