//! The part of a Machine, of either shape, that is read here.

use std::net::IpAddr;

use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::Value;

const INITIALIZERS: &str = "machine-controller.kubermatic.io/initializers";
const OURS: &str = "ipam.berth.dev";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    pub uid: String,
    pub addresses: Vec<IpAddr>,
    pub is_gated: bool,
    pub is_deleting: bool,
    pub phase: String,
    /// Why machine IPAM has given it no network.
    pub why_not: Option<String>,
    /// The reason of that condition, in one word.
    pub reason: Option<String>,
    /// The provider's message.
    pub message: String,
}

impl MachineFacts {
    pub fn of(machine: &DynamicObject) -> Self {
        let data = &machine.data;
        let places = ["/spec/providerConfig/network", "/spec/providerSpec/value/network"];
        let network = places.iter().find_map(|place| data.pointer(place));
        let list = machine.annotations().get(INITIALIZERS).cloned().unwrap_or_default();
        let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let refused = conditions.into_iter().flatten().find(|condition| {
            text(condition, "type") == "NetworkAllocated" && text(condition, "status") == "False"
        });
        Self {
            uid: machine.uid().unwrap_or_default(),
            addresses: network.map(addresses).unwrap_or_default(),
            is_gated: list.split(',').any(|entry| entry.trim() == OURS),
            is_deleting: machine.metadata.deletion_timestamp.is_some(),
            phase: data
                .pointer("/status/phase")
                .and_then(Value::as_str)
                .unwrap_or("")
                .to_owned(),
            why_not: refused.map(|condition| text(condition, "message")),
            reason: refused.map(|condition| text(condition, "reason")),
            message: data
                .pointer("/status/message")
                .and_then(Value::as_str)
                .unwrap_or("")
                .to_owned(),
        }
    }
}

/// Reads all three forms: `ip` with `netmask`, `cidr`, and `addresses[]` with both families.
fn addresses(network: &Value) -> Vec<IpAddr> {
    let mut texts: Vec<&str> = Vec::new();
    let own = [network.get("ip"), network.get("cidr")];
    texts.extend(own.into_iter().flatten().filter_map(Value::as_str));
    let more = network.get("addresses").and_then(Value::as_array);
    for one in more.into_iter().flatten() {
        let field = one.as_str().or_else(|| one.get("cidr").and_then(Value::as_str));
        texts.extend(field.or_else(|| one.get("ip").and_then(Value::as_str)));
    }
    let mut found = Vec::new();
    for text in texts {
        let bare = text.split('/').next().unwrap_or_default();
        if let Ok(address) = bare.parse()
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}
