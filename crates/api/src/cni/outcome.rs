//! The result of an ADD, in the shape of the version of its call.

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::Version;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Set by a main plugin; an IPAM plugin has none.
    pub interfaces: Vec<Interface>,
    pub addresses: Vec<Address>,
    pub routes: Vec<Route>,
    /// Not set by our plugins: the value of an earlier plugin of the chain is passed on.
    pub dns: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub mac: String,
    pub mtu: Option<u32>,
    /// The path of its network namespace; empty for an interface on the host.
    pub sandbox: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub address: IpAddr,
    pub length: u8,
    pub gateway: Option<IpAddr>,
    /// The index of its interface.
    pub interface: Option<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub destination: (IpAddr, u8),
    pub gateway: Option<IpAddr>,
}

impl Outcome {
    /// The document for stdout.
    pub fn document(&self, version: Version) -> Value {
        let mut document = Map::new();
        document.insert("cniVersion".to_owned(), version.as_str().into());
        if !self.interfaces.is_empty() {
            let interfaces = self.interfaces.iter().map(|interface| interface.document(version));
            document.insert("interfaces".to_owned(), interfaces.collect());
        }
        let addresses = self.addresses.iter().map(|address| address.document(version));
        document.insert("ips".to_owned(), addresses.collect());
        if !self.routes.is_empty() {
            document.insert("routes".to_owned(), self.routes.iter().map(Route::document).collect());
        }
        document.insert("dns".to_owned(), Value::Object(self.dns.clone()));
        Value::Object(document)
    }

    /// Reads a `prevResult` of any version. Skips what it cannot read.
    pub fn read(document: &Value) -> Self {
        let list = |field: &str| document[field].as_array().into_iter().flatten();
        Self {
            interfaces: list("interfaces").map(Interface::read).collect(),
            addresses: list("ips").filter_map(Address::read).collect(),
            routes: list("routes").filter_map(Route::read).collect(),
            dns: document["dns"].as_object().cloned().unwrap_or_default(),
        }
    }
}

impl Interface {
    fn document(&self, version: Version) -> Value {
        let mut document = json!({"name": self.name});
        if !self.mac.is_empty() {
            document["mac"] = self.mac.as_str().into();
        }
        if !self.sandbox.is_empty() {
            document["sandbox"] = self.sandbox.as_str().into();
        }
        if let Some(mtu) = self.mtu.filter(|_| version >= Version::V1_1_0) {
            document["mtu"] = mtu.into();
        }
        document
    }

    fn read(document: &Value) -> Self {
        let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            mac: text("mac"),
            mtu: document["mtu"].as_u64().and_then(|mtu| u32::try_from(mtu).ok()),
            sandbox: text("sandbox"),
        }
    }
}

impl Address {
    fn document(&self, version: Version) -> Value {
        let mut document = json!({"address": format!("{}/{}", self.address, self.length)});
        // Before 1.0.0, the family is written beside the address, too.
        if version < Version::V1_0_0 {
            document["version"] = if self.address.is_ipv4() { "4" } else { "6" }.into();
        }
        if let Some(gateway) = self.gateway {
            document["gateway"] = gateway.to_string().into();
        }
        if let Some(interface) = self.interface {
            document["interface"] = interface.into();
        }
        document
    }

    fn read(document: &Value) -> Option<Self> {
        let (address, length) = cidr(document["address"].as_str()?)?;
        Some(Self {
            address,
            length,
            gateway: gateway(&document["gateway"]),
            interface: document["interface"].as_u64().and_then(|at| usize::try_from(at).ok()),
        })
    }
}

impl Route {
    fn document(&self) -> Value {
        let (address, length) = self.destination;
        let mut document = json!({"dst": format!("{address}/{length}")});
        if let Some(gateway) = self.gateway {
            document["gw"] = gateway.to_string().into();
        }
        document
    }

    fn read(document: &Value) -> Option<Self> {
        Some(Self {
            destination: cidr(document["dst"].as_str()?)?,
            gateway: gateway(&document["gw"]),
        })
    }

    /// Reads a route of a conf. There, a gateway that cannot be read is an error.
    pub(super) fn read_strictly(document: &Value) -> Option<Self> {
        Self::read(document).filter(|route| route.gateway.is_some() || document["gw"].is_null())
    }
}

pub(super) fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then_some((address, length))
}

fn gateway(value: &Value) -> Option<IpAddr> {
    value.as_str().and_then(|text| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            interfaces: vec![Interface {
                name: "eth0".to_owned(),
                mac: "0a:58:0a:40:00:05".to_owned(),
                mtu: Some(1400),
                sandbox: "/run/netns/a".to_owned(),
            }],
            addresses: vec![
                Address {
                    address: "10.64.0.5".parse().unwrap(),
                    length: 16,
                    gateway: Some("10.64.0.1".parse().unwrap()),
                    interface: Some(0),
                },
                Address {
                    address: "fd64::5".parse().unwrap(),
                    length: 64,
                    gateway: None,
                    interface: Some(0),
                },
            ],
            routes: vec![Route {
                destination: ("0.0.0.0".parse().unwrap(), 0),
                gateway: Some("10.64.0.1".parse().unwrap()),
            }],
            dns: Map::new(),
        }
    }

    #[test]
    fn an_answer_has_the_shape_of_its_version() {
        let old = outcome().document(Version::V0_3_1);
        assert_eq!(
            old["ips"][0],
            json!({"version": "4", "address": "10.64.0.5/16", "gateway": "10.64.0.1", "interface": 0})
        );
        assert_eq!(old["ips"][1]["version"], "6");
        assert_eq!(old["interfaces"][0].get("mtu"), None);
        let new = outcome().document(Version::V1_1_0);
        assert_eq!(
            new["ips"][0],
            json!({"address": "10.64.0.5/16", "gateway": "10.64.0.1", "interface": 0})
        );
        assert_eq!(new["interfaces"][0]["mtu"], 1400);
        assert_eq!(new["cniVersion"], "1.1.0");
    }

    #[test]
    fn one_that_gives_addresses_only_says_nothing_of_interfaces() {
        let mut outcome = outcome();
        outcome.interfaces.clear();
        for address in &mut outcome.addresses {
            address.interface = None;
        }
        let document = outcome.document(Version::V1_0_0);
        assert_eq!(document.get("interfaces"), None);
        assert_eq!(document["ips"][0].get("interface"), None);
    }

    #[test]
    fn what_is_said_is_read_again_in_every_version() {
        for version in Version::ALL {
            let mut expected = outcome();
            if version < Version::V1_1_0 {
                expected.interfaces[0].mtu = None;
            }
            assert_eq!(Outcome::read(&expected.document(version)), expected, "{version}");
        }
        for nonsense in [
            json!(null),
            json!([]),
            json!({"ips": [{"address": "10.0.0.1/99"}, 7], "routes": 3}),
        ] {
            assert_eq!(Outcome::read(&nonsense), Outcome::default());
        }
    }
}
