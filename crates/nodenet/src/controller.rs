//! Which controllers there are.

use std::collections::BTreeSet;
use std::fmt;

use berth_kit::controller::Controller as Registered;

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
        let all = Self::ALL.into_iter();
        all.filter(|controller| controller.is_on_by_default()).collect()
    }

    /// The controllers of this crate among these names.
    pub fn named(names: &BTreeSet<&str>) -> BTreeSet<Self> {
        let all = Self::ALL.into_iter();
        all.filter(|controller| names.contains(controller.name())).collect()
    }
}

/// As `berth controller` lists them.
pub const CONTROLLERS: [Registered; 6] = [
    registered(Controller::Subnet),
    registered(Controller::Node),
    registered(Controller::Nnc),
    registered(Controller::SubnetState),
    registered(Controller::NodeIpam),
    registered(Controller::Reclaim),
];

const fn registered(controller: Controller) -> Registered {
    Registered {
        name: controller.name(),
        is_on_by_default: controller.is_on_by_default(),
        rbac: match controller {
            Controller::NodeIpam => "rbac/nodeipam.yaml",
            _ => "rbac/controller.yaml",
        },
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
