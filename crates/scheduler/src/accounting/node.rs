//! One node: what it has for pods, and what pods use.

use std::sync::Arc;

use jiff::Timestamp;

use super::NoCidr;
use super::refusal::Refusal;
use super::rules::Rules;
use super::subnet::{Balance, Share, SubnetEntry, saturated};
use crate::capacity::CidrCapacity;
use crate::facts::{NncFacts, NodeFacts};

/// It stays while anything refers to the name: pods may come before their Node.
#[derive(Debug, Default)]
pub struct NodeEntry {
    pub node: Option<NodeFacts>,
    pub nnc: Option<NncFacts>,
    /// Pods that need an IP: bound, reserved or nominated.
    pub used: u64,
    /// Those of them that ask for the extended resource.
    pub asking: u64,
    /// What bound pods ask for of the extended resource together.
    pub asked: u64,
    /// A pod was refused since the node last had room, and waits.
    pub refused: bool,
    /// The node has no addresses; until this time it may be given some.
    pub settles_at: Option<Timestamp>,
    /// It had addresses, or has pods that use some: no more pods until they are known again.
    pub waits: bool,
}

/// What a node can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply<'a> {
    /// It does not grow.
    Fixed(u64),
    /// Leases of a subnet that other nodes use, too.
    Shared { subnet: &'a str, has: u64, max: u64 },
    /// Its addresses are not known, and need not be.
    Unlimited,
}

impl NodeEntry {
    pub fn is_unused(&self) -> bool {
        self.node.is_none() && self.nnc.is_none() && self.used == 0 && self.asked == 0
    }

    /// Whether it is known where its addresses come from.
    pub fn has_source(&self) -> bool {
        let has_cidr = |node: &NodeFacts| node.cidrs != CidrCapacity::Missing;
        self.nnc.is_some() || self.node.as_ref().is_some_and(has_cidr)
    }

    pub fn supply(&self, rules: Rules) -> Result<Supply<'_>, Refusal> {
        let Some(node) = &self.node else {
            return Err(Refusal::UnknownNode);
        };
        match (&self.nnc, node.cidrs) {
            (Some(NncFacts::Empty), _) => Err(Refusal::NoContainer),
            (Some(NncFacts::Blocks { pods, .. }), _) => Ok(Supply::Fixed(*pods)),
            (Some(NncFacts::Leases(leases)), _) => Ok(Supply::Shared {
                subnet: &leases.subnet,
                has: leases.has,
                max: leases.max,
            }),
            (None, CidrCapacity::Pods(pods)) => Ok(Supply::Fixed(pods)),
            (None, CidrCapacity::Missing) => match rules.no_cidr {
                NoCidr::Pass if self.waits && rules.gives_addresses => Err(Refusal::NoPodCidr),
                NoCidr::Pass => Ok(Supply::Unlimited),
                NoCidr::Fail => Err(Refusal::NoPodCidr),
            },
            (None, CidrCapacity::Unreadable) => Err(Refusal::UnreadablePodCidr),
        }
    }

    /// How many more pods it has an IP for, never 0. With `own` the pod counts here already, and is
    /// left out.
    pub fn free(
        &self,
        rules: Rules,
        subnet: Option<(&Arc<str>, &SubnetEntry)>,
        own: bool,
    ) -> Result<u64, Refusal> {
        let used = self.used - u64::from(own);
        match self.supply(rules)? {
            Supply::Unlimited => Ok(u64::MAX),
            Supply::Fixed(pods) => nonzero(pods.saturating_sub(used)).ok_or(Refusal::PodCidrFull),
            Supply::Shared {
                has,
                max,
                subnet: name,
            } => {
                let balance = subnet.map_or_else(Balance::default, |(_, entry)| match own {
                    true => entry.balance_with(self.share(rules), self.share_of(rules, used)),
                    false => entry.balance(),
                });
                let within_max = nonzero(max.saturating_sub(used)).ok_or(Refusal::MaxIpCount)?;
                let here = has.saturating_sub(used).saturating_add(saturated(balance.pool));
                let free = within_max.min(here).min(saturated(balance.room));
                nonzero(free).ok_or_else(|| Refusal::SubnetFull {
                    subnet: subnet.map_or_else(|| name.into(), |(known, _)| known.clone()),
                })
            }
        }
    }

    /// The subnet of its addresses, if known.
    pub fn subnet(&self) -> Option<&str> {
        match &self.nnc {
            Some(NncFacts::Leases(leases)) => Some(&leases.subnet),
            Some(NncFacts::Blocks { subnet, .. }) => {
                Some(subnet).filter(|name| !name.is_empty()).map(String::as_str)
            }
            Some(NncFacts::Empty) | None => None,
        }
    }

    /// Its share of the sums of its subnet.
    pub fn share(&self, rules: Rules) -> Share {
        self.share_of(rules, self.used)
    }

    /// The share if its pods used this many.
    fn share_of(&self, rules: Rules, used: u64) -> Share {
        let mut share = Share::default();
        if let Some(NncFacts::Leases(leases)) = &self.nnc {
            share.listed = leases.listed.into();
            // Its agent does not ask for more than it may have.
            share.deficit = used.min(leases.max).saturating_sub(leases.has).into();
        }
        match self.supply(rules) {
            Ok(Supply::Fixed(pods)) => share.fixed = pods.saturating_sub(used).into(),
            Ok(Supply::Shared { has, max, .. }) => {
                let within_max = max.saturating_sub(used);
                let spare = within_max.min(has.saturating_sub(used));
                share.spare = spare.into();
                share.beyond = (within_max - spare).into();
            }
            Ok(Supply::Unlimited) | Err(_) => {}
        }
        share
    }

    /// From 0 to 10: how many addresses it has at hand, by powers of two. Nodes with about as many
    /// score the same, so that other scores decide. A node that must ask for addresses first scores
    /// 0.
    pub fn score(&self, rules: Rules) -> u8 {
        let left = match self.supply(rules) {
            Ok(Supply::Fixed(pods)) => pods.saturating_sub(self.used),
            Ok(Supply::Shared { has, .. }) => has.saturating_sub(self.used),
            Ok(Supply::Unlimited) | Err(_) => 0,
        };
        let digits = u64::BITS - left.leading_zeros();
        u8::try_from(digits).unwrap_or(u8::MAX).min(10)
    }
}

fn nonzero(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}
