//! One pod: whether it needs an IP, and where it counts.

use std::sync::Arc;

/// A pod counts in one place at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Nowhere,
    /// A scheduler means to put it there.
    Nominated(Arc<str>),
    /// We are about to bind it, or have done so and the watch has not said so yet.
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
    /// The list of pods that it was last seen in or after.
    pub generation: u32,
    /// The list after which the API server took our binding.
    pub confirmed: Option<u32>,
}

/// What a pod adds to the books of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    pub used: u64,
    pub asking: u64,
    pub asked: u64,
}

impl PodEntry {
    pub fn weight(&self) -> Weight {
        let used = u64::from(self.needs_ip);
        Weight {
            used,
            asking: used.min(self.asks),
            asked: match self.place {
                Place::Bound(_) => self.asks,
                _ => 0,
            },
        }
    }
}
