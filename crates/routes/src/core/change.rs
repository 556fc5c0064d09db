//! One change of one destination.

use berth_addr::Prefix;

use super::route::{Hop, Route};

/// A route to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creation {
    pub node: String,
    pub uid: String,
    pub hop: Hop,
}

/// All that is to be done about one destination, as one unit: old routes are deleted before a new
/// one is made, even if they belong to different nodes. So two nodes cannot block each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub destination: Prefix,
    pub delete: Vec<Route>,
    pub create: Option<Creation>,
}

impl Change {
    /// For labels of metrics.
    pub fn kind(&self) -> &'static str {
        match (self.delete.is_empty(), self.create.is_some()) {
            (true, _) => "create",
            (false, true) => "replace",
            (false, false) => "delete",
        }
    }
}
