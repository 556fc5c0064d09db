//! Which Subnet comes first, what it falls back to, and what is wrong with it. Pure.

use std::collections::BTreeMap;

use berth_addr::{Counts, Family, Plan};
use berth_api::Subnet;
use berth_api::subnet::Invalid;
use berth_ledger::{LedgerError, PlanError};
use kube::ResourceExt;

use crate::allocator::AllocatorError;

/// How the registry took a Subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ready,
    Invalid {
        why: String,
    },
    /// With another Subnet.
    Overlapping {
        why: String,
    },
    /// A unit that somebody owns would fall out.
    InUse {
        why: String,
    },
    /// Another cluster has made it known as something else.
    WrongCluster {
        why: String,
    },
    /// To be deleted once these have given back what they have.
    Leaving {
        owners: usize,
    },
}

impl Verdict {
    pub fn of_refusals(refusals: &[Invalid]) -> Self {
        let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        Self::Invalid { why: lines.join("; ") }
    }

    /// `None` for what is not the Subnet's fault: then it is tried again.
    pub fn of_error(error: &AllocatorError) -> Option<Self> {
        match error {
            AllocatorError::Ledger(error) => Self::of_ledger(error),
            AllocatorError::WrongCluster { .. } => Some(Self::WrongCluster { why: error.to_string() }),
            AllocatorError::Invalid { .. } => Some(Self::Invalid { why: error.to_string() }),
            AllocatorError::SubnetFull { .. }
            | AllocatorError::NoSubnet { .. }
            | AllocatorError::NotAnOwner(_)
            | AllocatorError::Service { .. } => None,
        }
    }

    fn of_ledger(error: &LedgerError) -> Option<Self> {
        match error {
            LedgerError::Overlap { other, range, .. } => Some(Self::Overlapping {
                why: format!(
                    "spec.cidrs: {range} is also in Subnet {other}: delete one of the two, or create one with other CIDRs in its place"
                ),
            }),
            LedgerError::Plan(PlanError::InUse(in_use)) => Some(Self::InUse {
                why: format!("spec.{in_use}"),
            }),
            LedgerError::Plan(PlanError::Layout(layout)) => Some(Self::Invalid {
                why: format!("spec.{layout}"),
            }),
            LedgerError::NoSubnet { .. }
            | LedgerError::Contended { .. }
            | LedgerError::Refused { .. }
            | LedgerError::Store(_) => None,
        }
    }
}

/// In which order Subnets are made known when a ledger starts: what was good before comes first, so that one which was refused because of
/// another is refused again, and never takes over the addresses that the other has given out.
pub fn precedence(subnet: &Subnet) -> impl Ord + use<> {
    let status = subnet.status.as_ref();
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    let ready = conditions
        .into_iter()
        .any(|condition| condition.type_ == super::status::READY && condition.status == "True");
    let created = subnet.creation_timestamp().map(|created| created.0);
    (!ready, !has_served(subnet), created, subnet.name_any())
}

/// The ledger knew it once, in this form or with fewer cidrs.
pub fn has_served(subnet: &Subnet) -> bool {
    subnet.status.as_ref().is_some_and(|status| status.capacity.is_some())
}

/// What a Subnet may have been before cidrs were appended, latest first.
pub fn earlier_plans(plan: &Plan) -> impl Iterator<Item = Plan> {
    (1..plan.cidrs.len()).rev().map(|count| {
        let mut earlier = plan.clone();
        earlier.cidrs.truncate(count);
        let cidrs = earlier.cidrs.clone();
        let inside = |range: &berth_addr::Range| {
            cidrs
                .iter()
                .any(|cidr| cidr.contains(range.first()) && cidr.contains(range.last()))
        };
        earlier.ranges.retain(inside);
        earlier.excludes.retain(inside);
        earlier
    })
}

/// The family that leases end with: each lease has one unit of every family.
pub fn scarcest(families: &BTreeMap<Family, Counts>) -> Option<Counts> {
    let left = |counts: &&Counts| (counts.free.saturating_add(counts.resting), counts.capacity);
    families.values().min_by_key(left).copied()
}

#[cfg(test)]
mod tests {
    use berth_api::{SubnetSpec, SubnetStatus};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    use super::*;

    fn subnet(name: &str, created: i64, ready: Option<bool>) -> Subnet {
        let mut subnet = Subnet::new(name, SubnetSpec::default());
        let time = Time(Timestamp::from_second(created).unwrap());
        subnet.metadata.creation_timestamp = Some(time.clone());
        subnet.status = ready.map(|ready| SubnetStatus {
            capacity: Some(1.into()),
            conditions: vec![Condition {
                type_: "Ready".to_owned(),
                status: if ready { "True" } else { "False" }.to_owned(),
                reason: String::new(),
                message: String::new(),
                observed_generation: None,
                last_transition_time: time,
            }],
            ..SubnetStatus::default()
        });
        subnet
    }

    #[test]
    fn what_was_good_comes_before_what_was_refused_and_the_older_before_the_newer() {
        let mut subnets = [
            subnet("a", 1, None),
            subnet("b", 2, Some(false)),
            subnet("c", 3, Some(true)),
            subnet("e", 4, None),
            subnet("d", 4, None),
        ];
        subnets.sort_by_key(precedence);
        let names: Vec<String> = subnets.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["c", "b", "a", "d", "e"]);
    }

    #[test]
    fn what_a_service_refuses_for_good_is_said_in_its_words_and_what_may_pass_is_tried_again() {
        let (address, why) = ("https://a".to_owned(), "made known by cluster blue".to_owned());
        let wrong = AllocatorError::WrongCluster {
            address: address.clone(),
            why: why.clone(),
        };
        let expected = Verdict::WrongCluster {
            why: "allocator https://a: made known by cluster blue".to_owned(),
        };
        assert_eq!(Verdict::of_error(&wrong), Some(expected));
        let (invalid, passing) = (
            AllocatorError::Invalid {
                address: address.clone(),
                why: why.clone(),
            },
            AllocatorError::Service { address, why },
        );
        assert!(matches!(Verdict::of_error(&invalid), Some(Verdict::Invalid { .. })));
        assert_eq!(Verdict::of_error(&passing), None);
    }

    #[test]
    fn an_earlier_plan_has_fewer_cidrs_and_nothing_outside_of_them() {
        let plan = Plan {
            cidrs: vec!["10.0.0.0/24".parse().unwrap(), "10.1.0.0/24".parse().unwrap()],
            excludes: vec!["10.1.0.7".parse().unwrap(), "10.0.0.7".parse().unwrap()],
            ..Plan::default()
        };
        let earlier: Vec<Plan> = earlier_plans(&plan).collect();
        assert_eq!(earlier.len(), 1);
        assert_eq!(earlier[0].cidrs, plan.cidrs[..1]);
        assert_eq!(earlier[0].excludes, plan.excludes[1..]);
        assert!(earlier[0].layouts().is_ok());
    }

    #[test]
    fn a_subnet_is_as_full_as_its_scarcer_family() {
        let counts = |capacity, free| Counts {
            capacity,
            reserved: capacity - free,
            resting: 0,
            free,
        };
        let families = [(Family::V4, counts(254, 3)), (Family::V6, counts(1 << 64, 1 << 63))].into();
        assert_eq!(scarcest(&families), Some(counts(254, 3)));
    }
}
