//! A unit of systemd-networkd: Flatcar.

use berth_addr::Family;

use super::File;
use crate::network::{Interface, Network};

/// Before those of the system, whose names begin with `zz` or a higher number.
const PATH: &str = "/etc/systemd/network/00-berth.network";

pub fn file(network: &Network) -> File {
    File {
        path: PATH.to_owned(),
        private: false,
        content: content(network),
    }
}

fn content(network: &Network) -> String {
    let found = match &network.interface {
        Interface::Name(name) => format!("Name={name}"),
        Interface::Mac(mac) => format!("MACAddress={mac}"),
        Interface::Any => "Type=ether\nName=e*".to_owned(),
    };
    let mut text = format!("[Match]\n{found}\n\n[Network]\nDHCP=no\nIPv6AcceptRA=no\n");
    for dns in &network.dns {
        text.push_str(&format!("DNS={dns}\n"));
    }
    if !network.search.is_empty() {
        text.push_str(&format!("Domains={}\n", network.search.join(" ")));
    }
    for address in &network.addresses {
        text.push_str(&format!("\n[Address]\nAddress={address}\n"));
    }
    for address in &network.addresses {
        let Some(gateway) = address.gateway else {
            continue;
        };
        let all = match address.family() {
            Family::V4 => "0.0.0.0/0",
            Family::V6 => "::/0",
        };
        text.push_str(&format!("\n[Route]\nDestination={all}\nGateway={gateway}\n"));
        if address.on_link_gateway().is_some() {
            text.push_str("GatewayOnLink=yes\n");
        }
    }
    text
}
