//! Blocks that are the node's as a whole. An address that was never used takes no memory, so a /64
//! costs nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_addr::{Family, Prefix};

/// Up to this number of freed addresses, a block gives out new ones before it uses one again.
const MAX_FREED: usize = 1 << 14;

#[derive(Clone, Debug)]
pub struct Block {
    pub container: String,
    pub prefix: Prefix,
    /// Never given out.
    gateway: Option<IpAddr>,
    /// All addresses before it have been used; `None` after the last one.
    next: Option<IpAddr>,
    /// The free addresses that were used before, with the time they came free; longest free first.
    freed: BTreeSet<(u64, IpAddr)>,
    since: BTreeMap<IpAddr, u64>,
}

impl Block {
    pub fn new(container: &str, prefix: Prefix, gateway: Option<IpAddr>) -> Self {
        Self {
            container: container.to_owned(),
            prefix,
            gateway: gateway.filter(|gateway| prefix.contains(*gateway)),
            next: Some(prefix.first()),
            freed: BTreeSet::new(),
            since: BTreeMap::new(),
        }
    }

    pub fn is(&self, container: &str, prefix: Prefix, gateway: Option<IpAddr>) -> bool {
        let gateway = gateway.filter(|gateway| prefix.contains(*gateway));
        self.container == container && self.prefix == prefix && self.gateway == gateway
    }

    pub fn family(&self) -> Family {
        self.prefix.family()
    }

    pub fn gives(&self, address: IpAddr) -> bool {
        self.prefix.contains(address) && self.gateway != Some(address)
    }

    /// The number of addresses that can be given out, used or free.
    pub fn size(&self) -> u64 {
        let size = u64::try_from(self.prefix.size()).unwrap_or(u64::MAX);
        size - u64::from(self.gateway.is_some())
    }

    /// The address to give next: one never used, or else the one that has been free for longest.
    pub fn longest_free(&mut self, is_held: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        if self.freed.len() < MAX_FREED {
            while let Some(address) = self.next {
                if self.gives(address) && !is_held(address) && !self.since.contains_key(&address) {
                    return Some(address);
                }
                self.next = after(address).filter(|next| self.prefix.contains(*next));
            }
        }
        self.freed.first().map(|(_, address)| *address)
    }

    /// Starts again at the first address: some that were skipped may be free now.
    pub fn look_again(&mut self) {
        self.next = Some(self.prefix.first());
    }

    pub fn take(&mut self, address: IpAddr) {
        if let Some(since) = self.since.remove(&address) {
            self.freed.remove(&(since, address));
        }
        if self.next == Some(address) {
            self.next = after(address).filter(|next| self.prefix.contains(*next));
        }
    }

    pub fn give_back(&mut self, address: IpAddr, since: u64) {
        if self.gives(address) {
            self.take(address);
            self.freed.insert((since, address));
            self.since.insert(address, since);
        }
    }

    /// How many addresses came free after `since`.
    pub fn freed_after(&self, since: u64) -> u64 {
        let count = self.freed.iter().rev().take_while(|(at, _)| *at > since).count();
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_add(1).map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(v6) => v6.to_bits().checked_add(1).map(|bits| IpAddr::V6(bits.into())),
    }
}
