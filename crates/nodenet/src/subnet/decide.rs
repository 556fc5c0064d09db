//! Which Subnet comes first, what it was before, and what is wrong with it. Pure.

use berth_addr::{Prefix, Range};
use berth_api::subnet::{Invalid, Use, ValidSubnet};
use berth_api::{Subnet, SubnetSpec};
use berth_ledger::{LedgerError, PlanError};
use kube::ResourceExt;

use crate::allocator::AllocatorError;

/// The result of registering a Subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ready,
    Invalid {
        why: String,
    },
    /// It overlaps another Subnet.
    Overlapping {
        why: String,
    },
    /// A unit that somebody owns would no longer be in it.
    InUse {
        why: String,
    },
    /// Another cluster has registered it as something else.
    WrongCluster {
        why: String,
    },
    /// It is deleted once this many owners have given back what they have.
    Deleting {
        owners: usize,
    },
}

impl Verdict {
    pub fn of_refusals(refusals: &[Invalid]) -> Self {
        let lines: Vec<String> = refusals.iter().map(ToString::to_string).collect();
        Self::Invalid { why: lines.join("; ") }
    }

    /// `None` if it is not the Subnet's fault: then it is tried again.
    pub fn of_error(error: &AllocatorError) -> Option<Self> {
        match error {
            AllocatorError::Ledger(error) => Self::of_ledger(error),
            AllocatorError::WrongCluster { .. } => Some(Self::WrongCluster {
                why: error.to_string(),
            }),
            AllocatorError::Invalid { .. } => Some(Self::Invalid {
                why: error.to_string(),
            }),
            AllocatorError::SubnetFull { .. }
            | AllocatorError::NoSubnet { .. }
            | AllocatorError::Unclaimed { .. }
            | AllocatorError::NotAnOwner(_)
            | AllocatorError::Service { .. }
            | AllocatorError::NoPodCidrs { .. } => None,
        }
    }

    fn of_ledger(error: &LedgerError) -> Option<Self> {
        match error {
            LedgerError::Overlap { other, range, .. } => Some(Self::Overlapping {
                why: format!(
                    "spec.cidrs: {range} is also in Subnet {other}: delete one of the two, or \
                     create one with other CIDRs in its place"
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
            | LedgerError::Unsure { .. }
            | LedgerError::Refused { .. }
            | LedgerError::Unclaimed { .. }
            | LedgerError::Store(_) => None,
        }
    }
}

/// Which of two that overlap comes first, when neither has been accepted yet.
pub fn precedence(subnet: &Subnet) -> impl Ord + use<> {
    let created = subnet.creation_timestamp().map(|created| created.0);
    (created, subnet.name_any())
}

/// The Subnet as it was last registered, from its status. Its spec may have changed since, to
/// something that was refused or has not been checked yet.
pub fn accepted(subnet: &Subnet) -> Option<ValidSubnet> {
    let cidrs = &subnet.status.as_ref()?.cidrs;
    with_cidrs(&subnet.spec, cidrs)
}

/// The Subnet with the first of its cidrs, with the first two, and so on. Cidrs are only ever
/// appended, so one of these is what it was before.
pub fn earlier_versions(subnet: &Subnet) -> impl Iterator<Item = ValidSubnet> {
    let cidrs = &subnet.spec.cidrs;
    (1..=cidrs.len()).filter_map(|count| with_cidrs(&subnet.spec, cidrs.get(..count)?))
}

/// The spec with these cidrs only, without what is not inside of them: that came with others.
fn with_cidrs(spec: &SubnetSpec, cidrs: &[String]) -> Option<ValidSubnet> {
    let spaces: Vec<Prefix> = cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect();
    let hold =
        |first, last| spaces.iter().any(|space| space.contains(first) && space.contains(last));
    let is_inside = |range: &String| {
        let range = range.parse::<Range>();
        range.is_ok_and(|range| hold(range.first(), range.last()))
    };
    let mut spec = spec.clone();
    spec.cidrs = cidrs.to_vec();
    spec.ranges.retain(is_inside);
    spec.excludes.retain(is_inside);
    if spec.usage != Use::Machines {
        let is_inside =
            |gateway: &String| gateway.parse().is_ok_and(|gateway| hold(gateway, gateway));
        spec.gateways.retain(is_inside);
    }
    spec.validate().ok()
}

#[cfg(test)]
mod tests {
    use berth_api::SubnetStatus;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn subnet(spec: SubnetSpec, followed: &[&str]) -> Subnet {
        let mut subnet = Subnet::new("pods", spec);
        subnet.status = Some(SubnetStatus {
            cidrs: owned(followed),
            ..SubnetStatus::default()
        });
        subnet
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_older_comes_before_the_newer() {
        let at = |name: &str, second| {
            let mut subnet = Subnet::new(name, SubnetSpec::default());
            subnet.metadata.creation_timestamp =
                Some(Time(Timestamp::from_second(second).unwrap()));
            subnet
        };
        let mut subnets = [at("c", 2), at("b", 2), at("d", 1)];
        subnets.sort_by_key(precedence);
        let names: Vec<String> = subnets.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["d", "b", "c"]);
    }

    #[test]
    fn an_accepted_plan_is_limited_to_the_cidrs_in_the_status() {
        let spec = SubnetSpec {
            cidrs: owned(&["10.0.0.0/24", "10.1.0.0/24"]),
            excludes: owned(&["10.1.0.7", "10.0.0.7"]),
            gateways: owned(&["10.1.0.1", "10.0.0.1"]),
            ..SubnetSpec::default()
        };
        let valid = accepted(&subnet(spec.clone(), &["10.0.0.0/24"])).unwrap();
        assert_eq!(valid.plan.cidrs, ["10.0.0.0/24".parse().unwrap()]);
        assert_eq!(valid.plan.excludes, ["10.0.0.7".parse().unwrap()]);
        assert_eq!(valid.gateways, ["10.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
        assert_eq!(accepted(&Subnet::new("pods", spec.clone())), None);
        assert_eq!(accepted(&subnet(spec.clone(), &[])), None);
        let earlier_versions: Vec<usize> = earlier_versions(&subnet(spec, &[]))
            .map(|valid| valid.plan.cidrs.len())
            .collect();
        assert_eq!(earlier_versions, [1, 2]);
    }

    #[test]
    fn only_permanent_service_errors_become_a_verdict() {
        let (address, why) = ("https://a".to_owned(), "registered by cluster blue".to_owned());
        let wrong = AllocatorError::WrongCluster {
            address: address.clone(),
            why: why.clone(),
        };
        let expected = Verdict::WrongCluster {
            why: "allocator https://a: registered by cluster blue".to_owned(),
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
}
