//! The scripts' own files: CentOS 7.

use berth_addr::Family;

use super::File;
use super::cloud_init::NO_NETWORK;
use crate::network::{Interface, Network};

const DIRECTORY: &str = "/etc/sysconfig/network-scripts";

/// What images of CentOS 7 call their first interface.
const DEVICE: &str = "eth0";

pub const COMMANDS: &[&[&str]] = &[&["systemctl", "restart", "network"]];

pub fn files(network: &Network) -> Vec<File> {
    let (name, device) = match &network.interface {
        Interface::Name(name) => (name.as_str(), Some(name.as_str())),
        Interface::Mac(_) => ("berth", None),
        Interface::Any => (DEVICE, Some(DEVICE)),
    };
    let mut files = vec![file(format!("ifcfg-{name}"), interface(network, device))];
    for (family, word) in [(Family::V4, "route"), (Family::V6, "route6")] {
        let routes = routes(network, family, device);
        if !routes.is_empty() {
            files.push(file(format!("{word}-{name}"), routes));
        }
    }
    files.push(NO_NETWORK.file());
    files
}

fn file(name: String, content: String) -> File {
    File {
        path: format!("{DIRECTORY}/{name}"),
        private: false,
        content,
    }
}

fn interface(network: &Network, device: Option<&str>) -> String {
    let mut text = "TYPE=Ethernet\nONBOOT=yes\nBOOTPROTO=none\n".to_owned();
    match (device, &network.interface) {
        (Some(device), _) => text.push_str(&format!("DEVICE={device}\n")),
        (None, Interface::Mac(mac)) => {
            text.push_str(&format!("NAME=berth\nHWADDR={}\n", mac.to_uppercase()))
        }
        (None, _) => {}
    }
    for (number, address) in network.of(Family::V4).enumerate() {
        // The first has no number.
        let number = if number == 0 { String::new() } else { number.to_string() };
        text.push_str(&format!(
            "IPADDR{number}={}\nPREFIX{number}={}\n",
            address.ip, address.length
        ));
    }
    let inside = |family| {
        let default = network.of(family).find(|address| address.gateway.is_some());
        let default = default.filter(|address| address.on_link_gateway().is_none());
        default.and_then(|address| address.gateway)
    };
    if let Some(gateway) = inside(Family::V4) {
        text.push_str(&format!("GATEWAY={gateway}\nDEFROUTE=yes\n"));
    }
    text.push_str("IPV6_AUTOCONF=no\nDHCPV6C=no\n");
    let mut of_v6 = network.of(Family::V6);
    if let Some(first) = of_v6.next() {
        text.push_str(&format!("IPV6INIT=yes\nIPV6ADDR={first}\n"));
        let others: Vec<String> = of_v6.map(|address| address.to_string()).collect();
        if !others.is_empty() {
            text.push_str(&format!("IPV6ADDR_SECONDARIES=\"{}\"\n", others.join(" ")));
        }
        if let Some(gateway) = inside(Family::V6) {
            text.push_str(&format!("IPV6_DEFAULTGW={gateway}\n"));
        }
    }
    for (number, dns) in (1..).zip(&network.dns) {
        text.push_str(&format!("DNS{number}={dns}\n"));
    }
    if !network.search.is_empty() {
        text.push_str(&format!("DOMAIN=\"{}\"\n", network.search.join(" ")));
    }
    text
}

/// Routes for a gateway outside of the network: first the route to it, then the route through it.
fn routes(network: &Network, family: Family, device: Option<&str>) -> String {
    let on = device.map(|device| format!(" dev {device}")).unwrap_or_default();
    let default = network.of(family).find(|address| address.gateway.is_some());
    let Some(gateway) = default.and_then(|address| address.on_link_gateway()) else {
        return String::new();
    };
    let scope = if family == Family::V4 { " scope link" } else { "" };
    format!("{gateway}/{}{on}{scope}\ndefault via {gateway}{on}\n", family.bits())
}
