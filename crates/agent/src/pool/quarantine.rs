//! What is not certain after a journal was lost: the addresses that the node had then. What is
//! delivered later was nobody's here.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::delivered::{Container, Content};

#[derive(Clone, Debug, Default)]
pub struct Quarantine {
    stage: Stage,
    /// What living pods show, and we do not know of.
    shown: BTreeSet<IpAddr>,
}

#[derive(Clone, Debug, Default)]
enum Stage {
    #[default]
    None,
    /// Nothing was delivered yet.
    Blank,
    /// About these.
    About(BTreeSet<IpAddr>),
    /// Only about what living pods show.
    Over,
}

impl Quarantine {
    pub fn unsettled() -> Self {
        Self {
            stage: Stage::Blank,
            shown: BTreeSet::new(),
        }
    }

    pub fn deliver(&mut self, containers: &[Container]) {
        if matches!(self.stage, Stage::Blank) && !containers.is_empty() {
            let leases = containers.iter().filter_map(|container| match &container.content {
                Content::Leases(leases) => Some(leases),
                Content::Blocks(_) => None,
            });
            let held = leases.flatten().flat_map(|lease| &lease.held);
            self.stage = Stage::About(held.map(|held| held.address).collect());
        }
    }

    /// Whether anything changed by it.
    pub fn learn(&mut self, shown: BTreeSet<IpAddr>, over: bool) -> bool {
        match self.stage {
            Stage::None => return false,
            Stage::About(_) if over => self.stage = Stage::Over,
            _ if self.shown == shown => return false,
            _ => {}
        }
        self.shown = shown;
        if self.shown.is_empty() && matches!(self.stage, Stage::Over) {
            self.stage = Stage::None;
        }
        true
    }

    pub fn is_about(&self, address: IpAddr) -> bool {
        match &self.stage {
            Stage::None => false,
            Stage::Blank => true,
            Stage::About(about) => about.contains(&address) || self.shown.contains(&address),
            Stage::Over => self.shown.contains(&address),
        }
    }

    /// A block's addresses are not listed: none of them is given out until the time is over.
    pub fn allows_blocks(&self) -> bool {
        matches!(self.stage, Stage::None | Stage::Over)
    }

    pub fn is_there(&self) -> bool {
        !matches!(self.stage, Stage::None)
    }
}
