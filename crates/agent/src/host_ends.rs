//! The host ends of pods' interfaces, as `berth-cni` leaves them. The alias of each names its
//! attachment, and the routes through it are to the attachment's addresses. So an agent that has
//! lost its journal finds every interface of a pod, also those that no runtime reports.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use berth_api::cni::{Alias, Attachment};

/// Reads the network namespace of this process, which on a node is the host's.
pub fn observed() -> io::Result<BTreeMap<Attachment, Vec<IpAddr>>> {
    let mut owners = BTreeMap::new();
    for found in std::fs::read_dir(Path::new("/sys/class/net"))? {
        let found = found?;
        // An interface that was just removed has no alias.
        let alias = std::fs::read_to_string(found.path().join("ifalias")).unwrap_or_default();
        if let (Some(alias), Ok(name)) =
            (Alias::read(alias.trim_end()), found.file_name().into_string())
        {
            owners.insert(name, alias.attachment);
        }
    }
    // Without IPv6 in the kernel there is no such file.
    let routes = [("route", of_route as Parse), ("ipv6_route", of_ipv6_route)];
    let mut observed: BTreeMap<Attachment, Vec<IpAddr>> = BTreeMap::new();
    for (file, parse) in routes {
        let text = match std::fs::read_to_string(Path::new("/proc/self/net").join(file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        for (interface, address) in text.lines().filter_map(parse) {
            if let Some(attachment) = owners.get(interface) {
                observed.entry(attachment.clone()).or_default().push(address);
            }
        }
    }
    Ok(observed)
}

type Parse = fn(&str) -> Option<(&str, IpAddr)>;

/// The interface and the address of a route to one IPv4 address.
fn of_route(line: &str) -> Option<(&str, IpAddr)> {
    let mut words = line.split_whitespace();
    let interface = words.next()?;
    let destination = u32::from_str_radix(words.next()?, 16).ok()?;
    let mask = words.nth(5)?;
    // The kernel prints the bytes of an address as one number of this machine.
    let address = Ipv4Addr::from(destination.to_ne_bytes());
    (mask == "FFFFFFFF").then_some((interface, address.into()))
}

/// The same for IPv6.
fn of_ipv6_route(line: &str) -> Option<(&str, IpAddr)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [destination, length, .., interface] = words[..] else {
        return None;
    };
    let address = Ipv6Addr::from(u128::from_str_radix(destination, 16).ok()?);
    (length == "80").then_some((interface, address.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_to_one_address_are_read_and_others_are_not() {
        let bytes = u32::from_ne_bytes([10, 64, 0, 5]);
        let line =
            format!("berth23rth8aqk1\t{bytes:08X}\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0");
        assert_eq!(of_route(&line), Some(("berth23rth8aqk1", "10.64.0.5".parse().unwrap())));
        assert_eq!(of_route(&line.replace("FFFFFFFF", "0000FFFF")), None);
        assert_eq!(
            of_route("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU"),
            None
        );
        let line = "fd640000000000000000000000000005 80 00000000000000000000000000000000 00 \
                    00000000000000000000000000000000 00000400 00000001 00000000 00000001 \
                    berth23rth8aqk1";
        assert_eq!(
            of_ipv6_route(line),
            Some(("berth23rth8aqk1", "fd64::5".parse().unwrap()))
        );
        assert_eq!(of_ipv6_route(&line.replace(" 80 ", " 40 ")), None);
        assert_eq!((of_route(""), of_ipv6_route("x")), (None, None));
    }
}
