//! One pod: whether it needs an IP, and where it counts.

use std::sync::Arc;

/// A pod counts in one place at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Nowhere,
    /// A scheduler plans to put it there.
    Nominated(Arc<str>),
    /// Its binding is being sent, or was accepted and the watch has not sent the pod yet.
    Reserved(Arc<str>),
    Bound(Arc<str>),
}

impl Place {
    pub fn node(&self) -> Option<&Arc<str>> {
        match self {
            Self::Nowhere => None,
            Self::Nominated(node) | Self::Reserved(node) | Self::Bound(node) => Some(node),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct PodEntry {
    pub needs_ip: bool,
    pub asks: u64,
    pub place: Place,
    /// The list of pods that was current when the pod was last seen.
    pub generation: u32,
    /// The list that was current when the API server accepted our binding.
    pub confirmed: Option<u32>,
}

/// What a pod adds to the counters of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub used: u64,
    pub asking: u64,
    pub asked: u64,
}

impl PodEntry {
    pub fn usage(&self) -> Usage {
        let used = u64::from(self.needs_ip);
        Usage {
            used,
            asking: used.min(self.asks),
            asked: match self.place {
                Place::Bound(_) => self.asks,
                _ => 0,
            },
        }
    }
}
