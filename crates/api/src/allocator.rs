//! The allocator's API: the JSON that its service and its clients exchange. Paths and codes are in
//! `docs/allocator.md`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use berth_addr::{Family, Plan, Prefix, Range};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use crate::Count;
use crate::subnet::UnitLengths;

/// A subnet, as a cluster registers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubnetPlan {
    pub cidrs: Vec<Prefix>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<Range>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excludes: Vec<Range>,
    /// Gateways, name servers and the like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<IpAddr>,
    /// Default: single addresses.
    #[serde(default)]
    pub unit_lengths: UnitLengths,
    /// How long a unit cools down after its release.
    pub reuse_delay_milliseconds: u64,
}

impl SubnetPlan {
    pub fn new(plan: &Plan, reuse_delay: Duration) -> Self {
        Self {
            cidrs: plan.cidrs.clone(),
            ranges: plan.ranges.clone(),
            excludes: plan.excludes.clone(),
            reservations: plan.reservations.clone(),
            unit_lengths: UnitLengths {
                ipv4: Some(plan.unit_lengths.ipv4),
                ipv6: Some(plan.unit_lengths.ipv6),
            },
            reuse_delay_milliseconds: u64::try_from(reuse_delay.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub fn plan(&self) -> Plan {
        Plan {
            cidrs: self.cidrs.clone(),
            ranges: self.ranges.clone(),
            excludes: self.excludes.clone(),
            reservations: self.reservations.clone(),
            unit_lengths: berth_addr::UnitLengths {
                ipv4: self.unit_lengths.ipv4.unwrap_or(Family::V4.bits()),
                ipv6: self.unit_lengths.ipv6.unwrap_or(Family::V6.bits()),
            },
            // Only subnets for machines share CIDRs, and the service has none of these.
            shares_cidrs: false,
        }
    }

    pub fn reuse_delay(&self) -> Duration {
        Duration::from_millis(self.reuse_delay_milliseconds)
    }
}

/// A subnet, as the service reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetReport {
    /// The cluster that registered it first. No other cluster may change it.
    pub cluster: String,
    pub plan: SubnetPlan,
    pub families: BTreeMap<Family, Counts>,
    /// As in [`Freed`].
    pub freed: u64,
}

/// How full a subnet is at this moment, by family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetCounts {
    pub families: BTreeMap<Family, Counts>,
    /// As in [`Freed`].
    pub freed: u64,
}

/// As in a Subnet's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub capacity: Count,
    pub reserved: Count,
    pub cooling_down: Count,
    pub free: Count,
}

impl From<berth_addr::Counts> for Counts {
    fn from(counts: berth_addr::Counts) -> Self {
        Self {
            capacity: counts.capacity.into(),
            reserved: counts.reserved.into(),
            cooling_down: counts.cooling_down.into(),
            free: counts.free.into(),
        }
    }
}

impl From<Counts> for berth_addr::Counts {
    fn from(counts: Counts) -> Self {
        Self {
            capacity: counts.capacity.0,
            reserved: counts.reserved.0,
            cooling_down: counts.cooling_down.0,
            free: counts.free.0,
        }
    }
}

/// The names of all subnets of a network, without the network's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubnetList {
    pub subnets: Vec<String>,
}

/// The owners in a subnet that belong to the caller's cluster, as the ledger writes them:
/// `kind/cluster/name/uid`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerList {
    pub owners: Vec<String>,
}

/// Addresses that nodes of the caller's cluster are known to have in a subnet, whatever the
/// service's store contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimList {
    pub claims: Vec<Claim>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    pub unit: Prefix,
    /// As in [`OwnerList`].
    pub owner: String,
    /// The UUID of the lease, as its holder knows it.
    pub lease: String,
    /// If another owner has the address, the claim takes it only from this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// The results of claims, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedList {
    pub claimed: Vec<Claimed>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all_fields = "camelCase")]
pub enum Claimed {
    /// The owner already had it.
    Had,
    Taken,
    /// Another owner has it, and keeps it.
    Owned {
        owner: String,
        lease: String,
    },
    /// The address is outside of the subnet.
    Outside,
}

/// A number that changes whenever leases of the caller's nodes may have been lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    pub generation: u64,
}

/// Whether the service leases to the caller's nodes again. It does not if more leases may have been
/// lost meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    pub opened: bool,
}

/// How full a subnet is, for its controllers to compare with their thresholds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Utilization {
    pub timestamp: Time,
    pub capacity: Count,
    pub reserved: Count,
}

/// A number that changes whenever more can be leased than before, and after a restart of the
/// service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freed {
    pub freed: u64,
}

/// The body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// For people: what is wrong and what to do.
    pub error: String,
    /// The part of the path, the query or the body that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    #[serde(flatten)]
    pub reason: Reason,
}

/// For programs. A reason that only a later version knows is read as `Other`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason")]
pub enum Reason {
    /// The subnet has no unit left for the network container's own address.
    SubnetFull,
    NoSubnet,
    NoContainer,
    /// There is no such path or method.
    NoOperation,
    Overlap {
        other: String,
        range: String,
    },
    InUse {
        unit: Prefix,
    },
    /// This many addresses of the subnet have owners.
    NotEmpty {
        owners: usize,
    },
    /// The certificate is for another cluster than the request.
    WrongCluster,
    Invalid,
    TooLarge,
    TooSlow,
    /// The service already handles its maximum number of requests.
    Busy,
    /// The store does not answer.
    Unavailable,
    /// The cluster must claim the addresses that its nodes have before it gets more.
    Unclaimed,
    #[serde(other)]
    Other,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_comes_back_as_it_went() {
        let plan = Plan {
            cidrs: vec!["10.64.0.0/16".parse().unwrap(), "fd64::/64".parse().unwrap()],
            ranges: vec!["10.64.1.0-10.64.2.255".parse().unwrap()],
            excludes: vec!["10.64.1.7".parse().unwrap()],
            reservations: vec!["10.64.0.1".parse().unwrap()],
            unit_lengths: berth_addr::UnitLengths { ipv4: 32, ipv6: 96 },
            shares_cidrs: false,
        };
        let wire =
            serde_json::to_string(&SubnetPlan::new(&plan, Duration::from_millis(1500))).unwrap();
        let read: SubnetPlan = serde_json::from_str(&wire).unwrap();
        assert_eq!((read.plan(), read.reuse_delay()), (plan, Duration::from_millis(1500)));
    }

    #[test]
    fn units_that_are_left_out_are_single_addresses() {
        let wire = json!({"cidrs": ["10.64.0.0/16"], "reuseDelayMilliseconds": 0});
        let read: SubnetPlan = serde_json::from_value(wire).unwrap();
        assert_eq!(read.plan().unit_lengths, berth_addr::UnitLengths::default());
    }

    #[test]
    fn a_refusal_says_its_reason_beside_its_text() {
        let refusal = Refusal {
            error: "…".to_owned(),
            field: Some("cidrs".to_owned()),
            reason: Reason::InUse {
                unit: "10.64.0.7/32".parse().unwrap(),
            },
        };
        let wire =
            json!({"error": "…", "field": "cidrs", "reason": "InUse", "unit": "10.64.0.7/32"});
        assert_eq!(serde_json::to_value(&refusal).unwrap(), wire);
        assert_eq!(serde_json::from_value::<Refusal>(wire).unwrap(), refusal);
    }

    #[test]
    fn a_reason_of_a_later_version_is_still_a_refusal() {
        let wire = json!({"error": "…", "reason": "Eclipse", "moon": 3});
        assert_eq!(serde_json::from_value::<Refusal>(wire).unwrap().reason, Reason::Other);
    }

    #[test]
    fn utilization_is_written_as_the_field_has_it() {
        let utilization = Utilization {
            timestamp: Time("2026-01-02T03:04:05Z".parse().unwrap()),
            capacity: 254.into(),
            reserved: 7.into(),
        };
        assert_eq!(
            serde_json::to_value([utilization]).unwrap(),
            json!([{"timestamp": "2026-01-02T03:04:05Z", "capacity": 254, "reserved": 7}])
        );
    }
}
