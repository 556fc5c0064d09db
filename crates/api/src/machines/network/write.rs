//! Writes a network into a Machine of either shape.

use serde_json::{Map, Value, json};

use super::{Address, Network};
use crate::machines::shape::Shape;

impl Network {
    /// The value for the shape's network field. It is merged: other fields that are there already
    /// stay.
    pub fn to_value(&self, shape: Shape) -> Value {
        let mut network = Map::new();
        let first = self.addresses.first().copied();
        match (shape, first) {
            (Shape::ProviderConfig, Some(first)) => {
                // In this shape, an IPv6 address has no field but `addresses`.
                if let Some(netmask) = first.netmask() {
                    network.insert("ip".to_owned(), json!(first.ip));
                    network.insert("netmask".to_owned(), json!(netmask));
                    network.extend(gateway(first));
                }
            }
            (Shape::ProviderSpec, Some(first)) => {
                network.insert("cidr".to_owned(), json!(first.to_string()));
                network.extend(gateway(first));
            }
            (_, None) => {}
        }
        let told = network.contains_key("ip") || network.contains_key("cidr");
        if self.addresses.len() > 1 || !told {
            let each = self.addresses.iter().map(|address| {
                let mut item = Map::from_iter([("cidr".to_owned(), json!(address.to_string()))]);
                item.extend(gateway(*address));
                Value::Object(item)
            });
            network.insert("addresses".to_owned(), each.collect());
        }
        if !self.dns.is_empty() {
            network.insert("dns".to_owned(), json!({"servers": self.dns}));
        }
        Value::Object(network)
    }
}

fn gateway(address: Address) -> Option<(String, Value)> {
    address.gateway.map(|gateway| ("gateway".to_owned(), json!(gateway)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::network::Interface;

    fn network(cidrs: &[(&str, u8, &str)]) -> Network {
        let address = |(ip, length, gateway): &(&str, u8, &str)| Address {
            ip: ip.parse().unwrap(),
            length: *length,
            gateway: gateway.parse().ok(),
        };
        Network {
            addresses: cidrs.iter().map(address).collect(),
            dns: vec!["192.168.1.1".parse().unwrap()],
            search: Vec::new(),
            interface: Interface::Any,
        }
    }

    #[test]
    fn the_seeds_example_comes_out_as_it_stands_there() {
        let value =
            network(&[("192.168.1.129", 25, "192.168.1.1")]).to_value(Shape::ProviderConfig);
        let expected = json!({
            "ip": "192.168.1.129",
            "netmask": "255.255.255.128",
            "gateway": "192.168.1.1",
            "dns": {"servers": ["192.168.1.1"]},
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn what_was_written_is_read_in_both_shapes_and_all_families() {
        let v4 = ("10.0.0.5", 24, "10.0.0.1");
        let v6 = ("fd00::5", 64, "fd00::1");
        for cidrs in [&[v4][..], &[v6], &[v4, v6], &[("10.0.0.5", 32, "")]] {
            for shape in Shape::ALL {
                let network = network(cidrs);
                let value = network.to_value(shape);
                assert_eq!(Network::read(&value, "network"), Ok(Some(network)), "{value}");
            }
        }
    }
}
