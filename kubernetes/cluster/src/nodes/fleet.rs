//! The names and addresses of the virtual nodes.

use std::net::Ipv4Addr;

/// The virtual nodes of this run: `berth-node-1` to `berth-node-N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fleet {
    size: u16,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} nodes were requested; 1 to {max} can run on one machine", max = Fleet::MAX)]
pub struct TooManyNodes(pub u32);

const PREFIX: &str = "berth-node-";

/// Reserved for benchmarks between networks (RFC 2544), so a machine's own network does not use it.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

impl Fleet {
    pub const MAX: u16 = 1000;

    pub fn new(size: u32) -> Result<Self, TooManyNodes> {
        match u16::try_from(size) {
            Ok(size @ 1..=Self::MAX) => Ok(Self { size }),
            _ => Err(TooManyNodes(size)),
        }
    }

    pub fn size(self) -> u16 {
        self.size
    }

    pub fn names(self) -> impl Iterator<Item = String> {
        (1..=self.size).map(|number| format!("{PREFIX}{number}"))
    }

    /// Whether a node of this name runs now.
    pub fn runs(self, name: &str) -> bool {
        number(name).is_some_and(|number| number <= self.size)
    }

    /// Whether a virtual node has this name, in this run or in an earlier one with more nodes.
    pub fn owns(name: &str) -> bool {
        number(name).is_some()
    }

    /// The address of a virtual node: always the same for the same name.
    pub fn address(name: &str) -> Option<Ipv4Addr> {
        let number = u32::from(number(name)?);
        Some(Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + number))
    }
}

fn number(name: &str) -> Option<u16> {
    let digits = name.strip_prefix(PREFIX)?;
    let number = digits.parse().ok().filter(|n| (1..=Fleet::MAX).contains(n))?;
    // Each node has one spelling: not berth-node-01, not berth-node-+1.
    (number.to_string() == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_belong_together() {
        let fleet = Fleet::new(3).unwrap();
        let names: Vec<_> = fleet.names().collect();
        assert_eq!(names, ["berth-node-1", "berth-node-2", "berth-node-3"]);
        assert_eq!(Fleet::address("berth-node-3"), Some(Ipv4Addr::new(198, 18, 0, 3)));
        assert_eq!(Fleet::address("berth-node-1000"), Some(Ipv4Addr::new(198, 18, 3, 232)));
    }

    #[test]
    fn a_node_beyond_the_number_is_ours_but_does_not_run() {
        let fleet = Fleet::new(3).unwrap();
        assert!(Fleet::owns("berth-node-4") && !fleet.runs("berth-node-4"));
        for other in [
            "berth-node-0",
            "berth-node-01",
            "berth-node-+1",
            "berth-node-",
            "node-1",
        ] {
            assert!(!Fleet::owns(other), "{other}");
        }
    }

    #[test]
    fn a_fleet_of_none_or_too_many_is_refused() {
        assert_eq!(Fleet::new(0), Err(TooManyNodes(0)));
        assert_eq!(Fleet::new(100_000), Err(TooManyNodes(100_000)));
        assert!(Fleet::new(1000).is_ok());
    }
}
