//! One node: what it has for pods, and what pods use.

use std::sync::Arc;

use jiff::Timestamp;

use super::NoCidr;
use super::refusal::Refusal;
use super::rules::Rules;
use super::subnet::{Balance, Share, SubnetEntry, saturated};
use crate::capacity::CidrCapacity;
use crate::facts::{NncFacts, NodeFacts};

/// It stays as long as anything is known of the name: pods may be there before their Node is.
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
    /// A pod was refused since there last was room: it waits.
    pub refused: bool,
    /// Until then it may be given addresses: it has none now.
    pub settles_at: Option<Timestamp>,
    /// It had addresses, or pods that have some: letting more in meanwhile would be too many.
    pub waits: bool,
}

/// What a node can serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply<'a> {
    /// It does not grow.
    Fixed(u64),
    /// Leases of a subnet that other nodes draw on, too.
    Shared { subnet: &'a str, has: u64, max: u64 },
    /// Nothing is known of its addresses, and that is fine.
    Unlimited,
}

impl NodeEntry {
    pub fn is_forgotten(&self) -> bool {
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

    /// How many more pods it has an IP for, never 0. A pod that counts here already (`own`) does
    /// not stand in its own way.
    pub fn free(
        &self,
        rules: Rules,
        subnet: Option<(&Arc<str>, &SubnetEntry)>,
        own: bool,
    ) -> Result<u64, Refusal> {
        let used = self.used - u64::from(own);
        match self.supply(rules)? {
            Supply::Unlimited => Ok(u64::MAX),
            Supply::Fixed(pods) => some(pods.saturating_sub(used)).ok_or(Refusal::PodCidrFull),
            Supply::Shared {
                has,
                max,
                subnet: name,
            } => {
                let balance = subnet.map_or_else(Balance::default, |(_, entry)| match own {
                    true => entry.balance_with(self.share(rules), self.share_of(rules, used)),
                    false => entry.balance(),
                });
                let within_max = some(max.saturating_sub(used)).ok_or(Refusal::MaxIpCount)?;
                let here = has.saturating_sub(used).saturating_add(saturated(balance.pool));
                let free = within_max.min(here).min(saturated(balance.room));
                some(free).ok_or_else(|| Refusal::SubnetFull {
                    subnet: subnet.map_or_else(|| name.into(), |(known, _)| known.clone()),
                })
            }
        }
    }

    /// The subnet that its addresses are of, if one is known.
    pub fn subnet(&self) -> Option<&str> {
        match &self.nnc {
            Some(NncFacts::Leases(leases)) => Some(&leases.subnet),
            Some(NncFacts::Blocks { subnet, .. }) => {
                Some(subnet).filter(|name| !name.is_empty()).map(String::as_str)
            }
            Some(NncFacts::Empty) | None => None,
        }
    }

    /// What it takes of its subnet's books.
    pub fn share(&self, rules: Rules) -> Share {
        self.share_of(rules, self.used)
    }

    /// If its pods used so many.
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
    /// score the same: what makes no difference is not told, and other scores decide. Where
    /// addresses must be asked for first, it is 0.
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

fn some(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}
