//! The names of blocks in keys and object names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Layout;
use crate::unit::BlockNumber;

impl Layout {
    /// The first unit's address in a form that DNS names allow: `10.64.1.0`, `fd64.0.0.0.0.0.1.0`.
    /// It has no hyphen, so that `<subnet>-<name>` can be split at the last one, whatever the
    /// subnet's name.
    pub fn block_name(&self, block: BlockNumber) -> Option<String> {
        Some(match self.prefix(block.first_unit())?.first() {
            IpAddr::V4(v4) => v4.to_string(),
            IpAddr::V6(v6) => v6.segments().map(|group| format!("{group:x}")).join("."),
        })
    }

    /// The block of that name; `None` when no block of this pool begins there.
    pub fn block_named(&self, name: &str) -> Option<BlockNumber> {
        let block = self.unit_around(address(name)?)?.block();
        (self.block_name(block)? == name).then_some(block)
    }
}

fn address(name: &str) -> Option<IpAddr> {
    if let Ok(v4) = name.parse::<Ipv4Addr>() {
        return Some(v4.into());
    }
    name.replace('.', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}
