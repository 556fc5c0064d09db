//! Which controllers there are.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    Subnet,
    Node,
    Nnc,
    SubnetState,
    NodeIpam,
    Reclaim,
}

impl Controller {
    pub const ALL: [Self; 6] = [
        Self::Subnet,
        Self::Node,
        Self::Nnc,
        Self::SubnetState,
        Self::NodeIpam,
        Self::Reclaim,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Subnet => "subnet",
            Self::Node => "node",
            Self::Nnc => "nnc",
            Self::SubnetState => "subnet-state",
            Self::NodeIpam => "nodeipam",
            Self::Reclaim => "reclaim",
        }
    }

    /// Part of `*`. Most clusters have something else that gives podCIDRs to nodes.
    pub const fn is_on_by_default(self) -> bool {
        !matches!(self, Self::NodeIpam)
    }

    pub fn on_by_default() -> BTreeSet<Self> {
        Self::ALL
            .into_iter()
            .filter(|controller| controller.is_on_by_default())
            .collect()
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no controller {name:?}: use some of {}", Controller::ALL.map(Controller::name).join(", "))]
pub struct NoController {
    name: String,
}

impl FromStr for Controller {
    type Err = NoController;

    fn from_str(name: &str) -> Result<Self, NoController> {
        let found = Self::ALL.into_iter().find(|controller| controller.name() == name);
        found.ok_or_else(|| NoController { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_found_by_its_name_and_a_wrong_name_is_told_the_right_ones() {
        for controller in Controller::ALL {
            assert_eq!(controller.to_string().parse(), Ok(controller));
        }
        let error = "nodes".parse::<Controller>().unwrap_err().to_string();
        assert!(error.contains("node, nnc"), "{error}");
    }
}
