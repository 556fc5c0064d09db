//! Whether the node has an address for the next pod: the Node condition that says so. Pure.
//!
//! STATUS does not say it: a runtime takes a node whose STATUS fails for broken, and its pods are
//! evicted. A full node is not broken.
//!
//! The condition changes rarely, on purpose. A pool that is empty for a moment changes nothing:
//! more addresses may be on their way. The condition turns False only when no more can come, and
//! True again only when an address is left over after every waiting pod has one.

use std::fmt;

use berth_api::ObservedNode;
use k8s_openapi::api::core::v1::NodeCondition;

pub const CONDITION: &str = berth_api::names::POD_ADDRESSES_AVAILABLE;

/// What the node has, and what it can still get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    pub has_container: bool,
    pub is_quarantined: bool,
    /// Addresses that the next pods could have, including those that cool down.
    pub free: u64,
    pub assigned: u64,
    /// Pods without an address.
    pub waiting: u64,
    pub supply: Supply,
}

/// Whether more addresses can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// More addresses may be on their way.
    Open,
    SubnetFull,
    /// The node has as many as `maxIPCount` of its scaler allows.
    MaxIpCount(u64),
    /// The node has as many as it can run pods.
    AllocatablePods(u64),
    /// The node draws on a podCIDR, which does not grow.
    PodCidr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    AddressesFree,
    NoNetworkContainer,
    Quarantined,
    SubnetFull,
    MaxIpCountReached,
    AllocatablePodsReached,
    PodCidrFull,
}

impl Reason {
    pub fn is_available(self) -> bool {
        self == Self::AddressesFree
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::AddressesFree => "AddressesFree",
            Self::NoNetworkContainer => "NoNetworkContainer",
            Self::Quarantined => "Quarantined",
            Self::SubnetFull => "SubnetFull",
            Self::MaxIpCountReached => "MaxIPCountReached",
            Self::AllocatablePodsReached => "AllocatablePodsReached",
            Self::PodCidrFull => "PodCIDRFull",
        }
    }
}

/// The condition as a Node has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedCondition {
    pub status: String,
    pub reason: String,
    pub since: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
}

impl ObservedCondition {
    pub fn of(node: &ObservedNode) -> Option<Self> {
        let NodeCondition {
            status,
            reason,
            last_transition_time,
            ..
        } = node.condition(CONDITION)?.clone();
        Some(Self {
            status,
            reason: reason.unwrap_or_default(),
            since: last_transition_time,
        })
    }
}

pub fn status_of(reason: Reason) -> &'static str {
    if reason.is_available() { "True" } else { "False" }
}

/// The condition's new reason. `None`: the condition stays as it is.
pub fn decide(observed: Option<&ObservedCondition>, view: &View) -> Option<Reason> {
    let reason = match view {
        View {
            has_container: false, ..
        } => Reason::NoNetworkContainer,
        View {
            free: 0,
            is_quarantined: true,
            ..
        } => Reason::Quarantined,
        View { free: 0, supply, .. } => match supply {
            Supply::Open => return None,
            Supply::SubnetFull => Reason::SubnetFull,
            Supply::MaxIpCount(_) => Reason::MaxIpCountReached,
            Supply::AllocatablePods(_) => Reason::AllocatablePodsReached,
            Supply::PodCidr => Reason::PodCidrFull,
        },
        // The waiting pods take all free addresses, and the node is full again.
        View { free, waiting, .. } if free <= waiting && observed.is_some() => return None,
        View { .. } => Reason::AddressesFree,
    };
    let is_reported = |observed: &ObservedCondition| {
        observed.status == status_of(reason) && observed.reason == reason.as_str()
    };
    (!observed.is_some_and(is_reported)).then_some(reason)
}

/// For people: the figures, and why there are no more.
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.has_container {
            return f.write_str(
                "the node has no network container: is `berth controller` running, and does a \
                 Subnet select the node?",
            );
        }
        let Self {
            free,
            assigned,
            waiting,
            ..
        } = self;
        write!(
            f,
            "{free} addresses are free, {assigned} are assigned, {waiting} pods wait for one"
        )?;
        if *free > 0 {
            return Ok(());
        }
        if self.is_quarantined {
            return f.write_str("; it is not certain yet which addresses pods have");
        }
        match self.supply {
            Supply::Open => Ok(()),
            Supply::SubnetFull => f.write_str("; the subnet has no more"),
            Supply::MaxIpCount(most) => write!(f, "; maxIPCount allows {most}"),
            Supply::AllocatablePods(most) => write!(f, "; the node runs at most {most} pods"),
            Supply::PodCidr => f.write_str("; the podCIDR has no more"),
        }
    }
}

#[cfg(test)]
mod tests;
