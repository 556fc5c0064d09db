//! netplan, version 2: Ubuntu's own, and what cloud-init takes as a network's configuration.

use berth_addr::Family;
use serde_json::{Map, Value, json};

use super::File;
use super::cloud_init::{NO_NETWORK, yaml};
use crate::network::{Address, Interface, Network};

/// cloud-init's own file: what it wrote at its start, DHCP included, is replaced.
const PATH: &str = "/etc/netplan/50-cloud-init.yaml";

pub const COMMANDS: &[&[&str]] = &[&["netplan", "generate"], &["netplan", "apply"]];

pub fn files(network: &Network) -> Vec<File> {
    let file = File {
        path: PATH.to_owned(),
        private: true,
        content: yaml(&netplan(network)),
    };
    vec![file, NO_NETWORK.file()]
}

/// The document, as a value.
pub fn netplan(network: &Network) -> Value {
    let mut ethernet = Map::new();
    let id = match &network.interface {
        Interface::Name(name) => name.as_str(),
        Interface::Mac(mac) => {
            ethernet.insert("match".to_owned(), json!({"macaddress": mac}));
            "primary"
        }
        Interface::Any => {
            // eth0, ens192, enp1s0, eno1.
            ethernet.insert("match".to_owned(), json!({"name": "e*"}));
            "primary"
        }
    };
    let addresses: Vec<String> = network.addresses.iter().map(ToString::to_string).collect();
    ethernet.extend([
        ("dhcp4".to_owned(), json!(false)),
        ("dhcp6".to_owned(), json!(false)),
        // A router that says "managed" would have it ask for an address after all.
        ("accept-ra".to_owned(), json!(false)),
        ("addresses".to_owned(), json!(addresses)),
    ]);
    let routes: Vec<Value> =
        network.addresses.iter().filter_map(|address| route(*address)).collect();
    if !routes.is_empty() {
        ethernet.insert("routes".to_owned(), json!(routes));
    }
    let mut names = Map::new();
    if !network.dns.is_empty() {
        names.insert("addresses".to_owned(), json!(network.dns));
    }
    if !network.search.is_empty() {
        names.insert("search".to_owned(), json!(network.search));
    }
    if !names.is_empty() {
        ethernet.insert("nameservers".to_owned(), Value::Object(names));
    }
    json!({"network": {"version": 2, "ethernets": {id: ethernet}}})
}

fn route(address: Address) -> Option<Value> {
    let all = match address.family() {
        Family::V4 => "0.0.0.0/0",
        Family::V6 => "::/0",
    };
    let gateway = address.gateway?;
    if address.on_link_gateway().is_some() {
        return Some(json!({"to": all, "via": gateway, "on-link": true}));
    }
    Some(json!({"to": all, "via": gateway}))
}
