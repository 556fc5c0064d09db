//! Addresses as numbers.

use std::net::IpAddr;

use berth_addr::Prefix;

pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// The unit of this length that is so many after `first`.
pub fn unit_after(first: IpAddr, length: u8, offset: u8) -> Option<Prefix> {
    let family = Prefix::from(first).family();
    let step = u128::from(offset).checked_shl(u32::from(family.bits() - length))?;
    let next = number(first).checked_add(step)?;
    (next <= family.last()).then(|| Prefix::around(family.address(next), length))?
}
