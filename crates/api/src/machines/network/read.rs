//! Reads a network as people and controllers write it into a Machine.
//!
//! ```yaml
//! ip: 192.168.1.129            # with netmask: usual in machine.k8s.io
//! netmask: 255.255.255.128
//! cidr: 192.168.1.129/25       # instead of the two: usual in cluster.k8s.io
//! gateway: 192.168.1.1
//! dns: {servers: [192.168.1.1], search: [example.com]}
//! addresses:                   # all of them, for IPv6 and both families
//! - {cidr: 192.168.1.129/25, gateway: 192.168.1.1}
//! - {cidr: "fd00::81/64", gateway: "fd00::1"}
//! interface: ens192            # or macAddress: 00:50:56:00:00:01
//! ```

use std::net::{IpAddr, Ipv4Addr};

use berth_addr::Prefix;
use serde_json::Value;

use super::{Address, Interface, Network};

/// An error in a network: the field, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct NetworkError {
    pub field: String,
    pub message: String,
}

impl NetworkError {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        Self { field, message }
    }
}

type Read<T> = Result<T, NetworkError>;

impl Network {
    /// `None` without a network: such a machine uses DHCP. A network without any address, for
    /// example with only `dns`, is unfinished, and counts as none.
    pub fn read(value: &Value, field: &str) -> Read<Option<Self>> {
        let network = match value {
            Value::Null => return Ok(None),
            Value::Object(_) => Fields { value, field },
            _ => {
                return Err(NetworkError::new(
                    field,
                    "is not an object: write ip, netmask, gateway and dns",
                ));
            }
        };
        let mut addresses = Vec::new();
        addresses.extend(network.first()?);
        for (number, item) in network.list("addresses")?.iter().enumerate() {
            let field = format!("{field}.addresses[{number}]");
            let item = Fields {
                value: item,
                field: &field,
            };
            if !item.value.is_object() {
                return Err(NetworkError::new(
                    field,
                    "is not an object: write {cidr: …, gateway: …}",
                ));
            }
            let address = item
                .first()?
                .ok_or_else(|| item.wrong("cidr", "is missing: write it like 10.0.0.5/24"))?;
            add(&mut addresses, address).map_err(|message| item.wrong("cidr", message))?;
        }
        if addresses.is_empty() {
            return Ok(None);
        }
        // Stable: keeps the order within a family.
        addresses.sort_by_key(|address| address.family());
        let dns = network.at("dns");
        let dns = Fields {
            value: &dns,
            field: &format!("{field}.dns"),
        };
        if !dns.value.is_null() && !dns.value.is_object() {
            return Err(NetworkError::new(
                dns.field,
                "is not an object: write {servers: [10.0.0.53]}",
            ));
        }
        Ok(Some(Self {
            addresses,
            dns: dns
                .texts("servers")?
                .map(|(field, text)| ip(&field, &text))
                .collect::<Read<_>>()?,
            search: dns
                .texts("search")?
                .map(|(field, text)| domain(field, text))
                .collect::<Read<_>>()?,
            interface: network.interface()?,
        }))
    }
}

/// A repeated address is ignored, unless it contradicts the first.
fn add(addresses: &mut Vec<Address>, next: Address) -> Result<(), String> {
    match addresses.iter_mut().find(|address| address.ip == next.ip) {
        Some(same) if same.length != next.length => {
            Err(format!("{next} is also given as {same}: the two must say the same"))
        }
        Some(same) => {
            same.gateway = same.gateway.or(next.gateway);
            match next.gateway {
                Some(gateway) if same.gateway != Some(gateway) => {
                    Err(format!("{next} is given two gateways: keep one of them"))
                }
                _ => Ok(()),
            }
        }
        None => {
            addresses.push(next);
            Ok(())
        }
    }
}

struct Fields<'a> {
    value: &'a Value,
    field: &'a str,
}

impl Fields<'_> {
    fn at(&self, name: &str) -> Value {
        self.value.get(name).cloned().unwrap_or_default()
    }

    fn wrong(&self, name: &str, message: impl Into<String>) -> NetworkError {
        NetworkError::new(format!("{}.{name}", self.field), message)
    }

    /// An empty text counts as missing, as in Go's types.
    fn text(&self, name: &str) -> Read<Option<String>> {
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(_) => Err(self.wrong(name, "is not text: put it in quotes")),
        }
    }

    fn list(&self, name: &str) -> Read<Vec<Value>> {
        match self.value.get(name) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items.clone()),
            Some(_) => Err(self.wrong(name, "is not a list")),
        }
    }

    fn texts(&self, name: &str) -> Read<impl Iterator<Item = (String, String)>> {
        let mut texts = Vec::new();
        for (number, item) in self.list(name)?.into_iter().enumerate() {
            let field = format!("{}.{name}[{number}]", self.field);
            match item {
                Value::String(text) => texts.push((field, text.trim().to_owned())),
                _ => return Err(NetworkError::new(field, "is not text: put it in quotes")),
            }
        }
        Ok(texts.into_iter())
    }

    /// Reads an address from `ip` and `netmask` or from `cidr`, and its `gateway`.
    fn first(&self) -> Read<Option<Address>> {
        let (ip_text, cidr) = (self.text("ip")?, self.text("cidr")?);
        let of_ip = ip_text.map(|text| self.of_ip(&text)).transpose()?;
        let of_cidr = cidr
            .map(|text| with_length(&text).map_err(|message| self.wrong("cidr", message)))
            .transpose()?;
        let (address, length) = match (of_ip, of_cidr) {
            (Some(one), Some(other)) if one != other => {
                return Err(
                    self.wrong("cidr", "contradicts ip and netmask: leave one of the two out")
                );
            }
            (Some(found), _) | (None, Some(found)) => found,
            (None, None) if self.text("gateway")?.is_some() || self.text("netmask")?.is_some() => {
                return Err(
                    self.wrong("ip", "is missing, though netmask or gateway is set: add it")
                );
            }
            (None, None) => return Ok(None),
        };
        let gateway = self.text("gateway")?;
        let gateway = gateway
            .map(|text| ip(&format!("{}.gateway", self.field), &text))
            .transpose()?;
        let address = Address {
            ip: address,
            length,
            gateway,
        };
        self.check(address)?;
        Ok(Some(address))
    }

    fn of_ip(&self, text: &str) -> Read<(IpAddr, u8)> {
        if text.contains('/') {
            return with_length(text).map_err(|message| self.wrong("ip", message));
        }
        let address = ip(&format!("{}.ip", self.field), text)?;
        let mask = self.text("netmask")?;
        let mask =
            mask.ok_or_else(|| self.wrong("netmask", "is missing: write it like 255.255.255.0"))?;
        let length = length(address, &mask);
        let length = length.ok_or_else(|| {
            let fix = if address.is_ipv4() {
                "write it like 255.255.255.0"
            } else {
                "give cidr instead, like fd00::5/64"
            };
            self.wrong("netmask", format!("{mask:?} is not a netmask: {fix}"))
        })?;
        Ok((address, length))
    }

    fn check(&self, address: Address) -> Read<()> {
        if let Some(gateway) = address.gateway {
            if gateway.is_ipv4() != address.ip.is_ipv4() {
                return Err(
                    self.wrong("gateway", format!("{gateway} is of another family than {address}"))
                );
            }
            if gateway == address.ip {
                return Err(
                    self.wrong("gateway", format!("{gateway} is the machine's own address"))
                );
            }
        }
        let pair = address.length + 1 >= address.family().bits();
        let network = Prefix::around(address.ip, address.length).filter(|_| !pair);
        let broadcast =
            network.filter(|network| address.ip.is_ipv4() && network.last() == address.ip);
        if network.is_some_and(|network| network.first() == address.ip) || broadcast.is_some() {
            let message = format!(
                "{address} is the network's own or its broadcast address: give the machine another"
            );
            let field = if self.value.get("cidr").is_some() { "cidr" } else { "ip" };
            return Err(self.wrong(field, message));
        }
        Ok(())
    }

    fn interface(&self) -> Read<Interface> {
        match (self.text("interface")?, self.text("macAddress")?) {
            (Some(_), Some(_)) => {
                Err(self
                    .wrong("interface", "and macAddress are both set: leave one of the two out"))
            }
            (None, None) => Ok(Interface::Any),
            (Some(name), None) if is_interface(&name) => Ok(Interface::Name(name)),
            (Some(name), None) => Err(self.wrong(
                "interface",
                format!("{name:?} is not the name of an interface: write it like ens192"),
            )),
            (None, Some(text)) => match mac(&text) {
                Some(mac) => Ok(Interface::Mac(mac)),
                None => Err(self.wrong(
                    "macAddress",
                    format!("{text:?} is not a MAC address: write it like 00:50:56:00:00:01"),
                )),
            },
        }
    }
}

fn ip(field: &str, text: &str) -> Read<IpAddr> {
    let address = text.parse().ok();
    let mapped =
        |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    let usable =
        |address: &IpAddr| !address.is_unspecified() && !address.is_multicast() && !mapped(address);
    address.filter(usable).ok_or_else(|| {
        NetworkError::new(
            field,
            format!("{text:?} is not an IP address that a machine can use: write it like 10.0.0.5"),
        )
    })
}

fn with_length(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || {
        format!(
            "{text:?} is not an address with its length: write it like 10.0.0.5/24 or fd00::5/64"
        )
    };
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address = ip("", address).map_err(|_| wrong())?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    (1..=longest)
        .contains(&length)
        .then_some((address, length))
        .ok_or_else(wrong)
}

/// Reads a prefix length from a netmask like 255.255.255.0, or from a plain number.
fn length(address: IpAddr, mask: &str) -> Option<u8> {
    if let Ok(length) = mask.trim_start_matches('/').parse::<u8>() {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        return (1..=longest).contains(&length).then_some(length);
    }
    let mask = u32::from(mask.parse::<Ipv4Addr>().ok().filter(|_| address.is_ipv4())?);
    let length = mask.leading_ones();
    let whole = length > 0 && mask.checked_shl(length).unwrap_or(0) == 0;
    u8::try_from(length).ok().filter(|_| whole)
}

/// Names that the kernel accepts: at most 15 bytes, no slash, no space. Also refuses characters
/// with a meaning in the formats that we write.
fn is_interface(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=15).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
}

fn mac(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    let hex = |part: &&str| part.len() == 2 && part.chars().all(|c| c.is_ascii_hexdigit());
    (parts.len() == 6 && parts.iter().all(hex)).then(|| parts.join(":").to_lowercase())
}

fn domain(field: String, text: String) -> Read<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if !text.is_empty() && text.len() <= 253 && text.chars().all(plain) {
        return Ok(text);
    }
    Err(NetworkError::new(
        field,
        format!("{text:?} is not a domain: write it like example.com"),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Read<Option<Network>> {
        Network::read(&value, "spec.providerConfig.network")
    }

    fn why(value: Value) -> String {
        read(value).unwrap_err().to_string()
    }

    #[test]
    fn the_seeds_shape_and_kubermatics_say_the_same() {
        let seed = json!({
            "ip": "192.168.1.129", "netmask": "255.255.255.128", "gateway": "192.168.1.1",
            "dns": {"servers": ["192.168.1.1"]},
        });
        let kubermatic = json!({
            "cidr": "192.168.1.129/25", "gateway": "192.168.1.1",
            "dns": {"servers": ["192.168.1.1"]},
        });
        let network = read(seed).unwrap().unwrap();
        assert_eq!(read(kubermatic).unwrap().unwrap(), network);
        assert_eq!(network.addresses[0].to_string(), "192.168.1.129/25");
    }

    #[test]
    fn a_machine_without_an_address_has_no_network() {
        assert_eq!(read(Value::Null), Ok(None));
        assert_eq!(read(json!({})), Ok(None));
        assert_eq!(read(json!({"dns": {"servers": ["10.0.0.53"]}})), Ok(None));
        assert_eq!(read(json!({"ip": "", "netmask": "", "gateway": ""})), Ok(None));
    }

    #[test]
    fn an_address_in_both_ip_and_addresses_is_read_once() {
        let network = read(json!({
            "ip": "10.0.0.5", "netmask": "255.255.255.0", "gateway": "10.0.0.1",
            "addresses": [
                {"cidr": "fd00::5/64", "gateway": "fd00::1"},
                {"cidr": "10.0.0.5/24"},
            ],
        }));
        let network = network.unwrap().unwrap();
        let texts: Vec<String> = network.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.5/24", "fd00::5/64"]);
        assert_eq!(network.addresses[0].gateway, Some("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field_and_the_fix() {
        let field = "spec.providerConfig.network";
        let cases = [
            (json!("dhcp"), format!("{field}: is not an object")),
            (
                json!({"ip": "10.0.0.300", "netmask": "255.0.0.0"}),
                format!("{field}.ip: "),
            ),
            (json!({"ip": "10.0.0.5"}), format!("{field}.netmask: is missing")),
            (
                json!({"ip": "10.0.0.5", "netmask": "255.0.255.0"}),
                format!("{field}.netmask: "),
            ),
            (json!({"cidr": "10.0.0.5"}), format!("{field}.cidr: ")),
            (
                json!({"cidr": "10.0.0.0/24"}),
                format!("{field}.cidr: 10.0.0.0/24 is the network's own"),
            ),
            (json!({"cidr": "10.0.0.255/24"}), format!("{field}.cidr: ")),
            (
                json!({"cidr": "10.0.0.5/24", "gateway": "fd00::1"}),
                format!("{field}.gateway: "),
            ),
            (
                json!({"cidr": "10.0.0.5/24", "gateway": "10.0.0.5"}),
                format!("{field}.gateway: "),
            ),
            (json!({"gateway": "10.0.0.1"}), format!("{field}.ip: is missing")),
            (
                json!({"cidr": "10.0.0.5/24", "dns": {"servers": ["x"]}}),
                format!("{field}.dns.servers[0]: "),
            ),
            (
                json!({"cidr": "10.0.0.5/24", "dns": {"search": ["a b"]}}),
                format!("{field}.dns.search[0]: "),
            ),
            (
                json!({"cidr": "10.0.0.5/24", "interface": "eth0\n[x]"}),
                format!("{field}.interface: "),
            ),
            (
                json!({"cidr": "10.0.0.5/24", "macAddress": "00:11"}),
                format!("{field}.macAddress: "),
            ),
            (
                json!({"addresses": [{"gateway": "10.0.0.1"}]}),
                format!("{field}.addresses[0].ip: "),
            ),
            (
                json!({"cidr": "10.0.0.5/24", "addresses": [{"cidr": "10.0.0.5/25"}]}),
                format!("{field}.addresses[0].cidr: "),
            ),
            (json!({"ip": 5}), format!("{field}.ip: is not text")),
        ];
        for (value, start) in cases {
            let found = why(value.clone());
            assert!(found.starts_with(&start), "{value}: {found}");
        }
    }

    #[test]
    fn pairs_and_single_addresses_have_no_network_address() {
        for cidr in ["10.0.0.0/31", "10.0.0.1/31", "10.0.0.7/32", "fd00::/127"] {
            assert!(read(json!({"cidr": cidr})).unwrap().is_some(), "{cidr}");
        }
        assert!(read(json!({"cidr": "10.0.0.255/23"})).unwrap().is_some());
    }
}
