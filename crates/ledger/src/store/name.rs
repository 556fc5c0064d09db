//! The names of blocks in keys and object names.

use std::net::IpAddr;

use berth_addr::Prefix;

use super::{StoreError, Stored};
use crate::record::BlockKey;

/// The first unit's address as `berth_addr::Layout::block_name` writes it, but without a layout:
/// `10.64.1.0`, `fd64.0.0.0.0.0.1.0`.
pub fn of_block(first: Prefix) -> String {
    match first.first() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|group| format!("{group:x}")).join("."),
    }
}

/// Checks that the block found under a name is the one that was asked for. Units of two lengths can
/// begin at one address, and then two blocks have one name: the first one to be stored keeps it.
pub fn confirm(store: &'static str, asked: &BlockKey, found: Stored) -> Result<Stored, StoreError> {
    if found.key == *asked {
        return Ok(found);
    }
    let (subnet, name) = (&asked.subnet, of_block(asked.first));
    let (units, other) = (asked.first.length(), found.key.first.length());
    Err(StoreError::new(
        store,
        format_args!(
            "block {name} of subnet {subnet} has units of length {other}, not {units}: \
             give them back before the length changes"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use berth_addr::{Plan, UnitLengths};

    use super::*;

    #[test]
    fn a_block_has_the_same_name_with_and_without_its_layout() {
        let plan = Plan {
            cidrs: ["10.64.0.0/16", "fd64::/48"].map(|cidr| cidr.parse().unwrap()).into(),
            unit_lengths: UnitLengths { ipv4: 24, ipv6: 64 },
            ..Plan::default()
        };
        for layout in plan.layouts().unwrap().values() {
            let last = layout
                .unit_around(layout.cidrs().next().unwrap().last())
                .unwrap()
                .block();
            let first = layout.prefix(last.first_unit()).unwrap();
            assert_eq!(Some(of_block(first)), layout.block_name(last));
        }
    }
}
