//! Reads routes of the kernel.

use berth_addr::{Family, Prefix};
use netlink_packet_route::route::{RouteFlags, RouteHeader};

use super::{Protocol, Route, RouteKind};
use crate::addresses::address_family;
use crate::read::{address, attributes, number};

const FIXED: usize = 12;

const DESTINATION: u16 = 1;
const LINK: u16 = 4;
const GATEWAY: u16 = 5;
const METRIC: u16 = 6;
const TABLE: u16 = 15;
/// A gateway of the other family, after two bytes that say which.
const VIA: u16 = 18;

impl Route {
    /// `None` for a route of another family: a kernel without IPv6 answers with IPv4.
    pub(super) fn read(content: &[u8], family: Family) -> Option<Self> {
        let header = RouteHeader::parse(content).ok()?;
        let all = Prefix::all(family);
        if header.address_family != address_family(all.first()) {
            return None;
        }
        let mut destination = all.first();
        let mut route = Self::to(all);
        route.table = header.table.into();
        route.protocol = Protocol(header.protocol.into());
        route.metric = 0;
        route.on_link = header.flags.contains(RouteFlags::Onlink);
        route.kind = header.kind.into();
        for attribute in attributes(content, FIXED) {
            let value = attribute.value();
            match attribute.kind() {
                DESTINATION => destination = address(value)?,
                LINK => route.link = number(value),
                GATEWAY => route.gateway = address(value),
                VIA => route.gateway = value.get(2..).and_then(address),
                METRIC => route.metric = number(value)?,
                TABLE => route.table = number(value)?,
                _ => {}
            }
        }
        route.destination = Prefix::around(destination, header.destination_prefix_length)?;
        // In IPv6 the kernel gives a blackhole the loopback link, which means nothing.
        if route.kind == RouteKind::Blackhole {
            route.link = None;
        }
        Some(route)
    }
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::Emitable;

    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn written(route: &Route) -> Vec<u8> {
        let message = route.message();
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    #[test]
    fn a_written_route_is_read_again() {
        let mut route = Route::to(prefix("10.64.3.0/24"));
        route.gateway = Some("192.0.2.7".parse().unwrap());
        route.link = Some(3);
        route.protocol = Protocol(77);
        route.table = 70_000;
        route.metric = 5;
        route.on_link = true;
        assert_eq!(Route::read(&written(&route), Family::V4), Some(route));
        let mut route = Route::to(prefix("fd64:0:0:3::/64"));
        route.gateway = Some("fe80::7".parse().unwrap());
        assert_eq!(Route::read(&written(&route), Family::V6), Some(route));
    }

    #[test]
    fn a_default_route_and_one_over_the_other_family_are_read_again() {
        let mut route = Route::to(Prefix::all(Family::V4));
        route.gateway = Some("fe80::1".parse().unwrap());
        route.link = Some(3);
        assert_eq!(Route::read(&written(&route), Family::V4), Some(route));
    }

    #[test]
    fn a_route_of_another_family_is_left_out() {
        let route = Route::to(prefix("10.64.3.0/24"));
        assert_eq!(Route::read(&written(&route), Family::V6), None);
    }

    #[test]
    fn a_cut_route_is_no_route() {
        let bytes = written(&Route::to(prefix("10.64.3.0/24")));
        assert_eq!(Route::read(&bytes[..FIXED - 1], Family::V4), None);
    }
}
