//! A connection of NetworkManager as a keyfile: CentOS 8 and later, and CoreOS.

use berth_addr::Family;

use super::File;
use crate::network::{Interface, Network};

const PATH: &str = "/etc/NetworkManager/system-connections/berth.nmconnection";

/// Our connection replaces what cloud-init set up at first.
pub const COMMANDS: &[&[&str]] = &[
    &["nmcli", "connection", "reload"],
    &["nmcli", "connection", "up", "berth"],
];

pub fn file(network: &Network) -> File {
    File {
        path: PATH.to_owned(),
        // NetworkManager reads no other.
        private: true,
        content: content(network),
    }
}

fn content(network: &Network) -> String {
    let mut text = String::from(
        "[connection]\nid=berth\ntype=ethernet\nautoconnect=true\nautoconnect-priority=999\n",
    );
    match &network.interface {
        Interface::Name(name) => text.push_str(&format!("interface-name={name}\n")),
        Interface::Mac(mac) => {
            let mac = mac.to_uppercase();
            text.push_str(&format!("\n[ethernet]\nmac-address={mac}\n"));
        }
        Interface::Any => {}
    }
    text.push_str(&part("ipv4", network, Family::V4));
    text.push_str(&part("ipv6", network, Family::V6));
    text
}

/// A family without an address gets none: neither by DHCP nor by router advertisements.
fn part(section: &str, network: &Network, family: Family) -> String {
    let mut text = format!("\n[{section}]\n");
    let addresses: Vec<_> = network.of(family).collect();
    if addresses.is_empty() {
        let nothing = if family == Family::V4 { "disabled" } else { "link-local" };
        text.push_str(&format!("method={nothing}\n"));
        return text;
    }
    text.push_str("method=manual\n");
    for (number, address) in (1..).zip(&addresses) {
        text.push_str(&format!("address{number}={address}\n"));
    }
    // One default route for a family.
    if let Some(gateway) = addresses.iter().find_map(|address| address.gateway) {
        text.push_str(&format!("gateway={gateway}\n"));
    }
    let on_link = addresses.iter().filter_map(|address| address.on_link_gateway());
    for (number, gateway) in (1..).zip(on_link) {
        // Without a next hop: on the link.
        text.push_str(&format!("route{number}={gateway}/{}\n", family.bits()));
    }
    let dns: String = network.dns_of(family).map(|dns| format!("{dns};")).collect();
    if !dns.is_empty() {
        text.push_str(&format!("dns={dns}\n"));
    }
    let search: String = network.search.iter().map(|domain| format!("{domain};")).collect();
    if !search.is_empty() {
        text.push_str(&format!("dns-search={search}\n"));
    }
    text.push_str("may-fail=false\n");
    if family == Family::V6 {
        text.push_str("addr-gen-mode=eui64\n");
    }
    text
}
