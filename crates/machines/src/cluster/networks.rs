//! The networks that a Cluster names. Pure.

use berth_addr::Prefix;
use serde_json::Value;

use crate::ipam::flag::{FlagError, NetworkFlag};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    #[error("{field}: {source}")]
    Network { field: String, source: FlagError },
    #[error("{field}: {message}")]
    Field { field: String, message: &'static str },
    #[error(
        "spec.machineNetwork: {cidr} was removed, changed or moved: put it back; CIDRs \
         can only be appended"
    )]
    Removed { cidr: Prefix },
}

/// In their order; none where the Cluster has none.
pub fn networks(cluster: &Value) -> Result<Vec<NetworkFlag>, ClusterError> {
    let one = cluster.pointer("/spec/machineNetwork").filter(|value| !value.is_null());
    let many = cluster
        .pointer("/spec/machineNetworks")
        .filter(|value| !value.is_null());
    let networks = match (one, many) {
        (None, None) => Vec::new(),
        (Some(one), None) => of_blocks(one)?,
        (None, Some(many)) => of_list(many)?,
        (Some(_), Some(_)) => {
            let field = "spec.machineNetwork".to_owned();
            let message = "and machineNetworks are both set: use one of the two";
            return Err(ClusterError::Field { field, message });
        }
    };
    let field = "spec.machineNetwork".to_owned();
    NetworkFlag::check_all(&networks).map_err(|source| ClusterError::Network { field, source })?;
    Ok(networks)
}

/// One gateway and one set of name servers for all: each CIDR takes those of its family.
fn of_blocks(network: &Value) -> Result<Vec<NetworkFlag>, ClusterError> {
    let field = |name: &str| format!("spec.machineNetwork.{name}");
    let blocks = texts(network, "cidrBlocks", &field("cidrBlocks"))?;
    let gateway = text(network, "gateway", &field("gateway"))?;
    let dns = texts(network, "dnsServers", &field("dnsServers"))?;
    let of_family = |cidr: &str, address: &str| cidr.contains(':') == address.contains(':');
    let each = blocks.iter().enumerate().map(|(number, cidr)| {
        let gateway = gateway.as_deref().filter(|gateway| of_family(cidr, gateway));
        let dns: Vec<&str> = dns
            .iter()
            .map(String::as_str)
            .filter(|dns| of_family(cidr, dns))
            .collect();
        flag(cidr, gateway, &dns, field(&format!("cidrBlocks[{number}]")))
    });
    each.collect()
}

fn of_list(list: &Value) -> Result<Vec<NetworkFlag>, ClusterError> {
    let items = list.as_array().ok_or(ClusterError::Field {
        field: "spec.machineNetworks".to_owned(),
        message: "is no list",
    })?;
    let each = items.iter().enumerate().map(|(number, item)| {
        let field = format!("spec.machineNetworks[{number}]");
        let cidr = text(item, "cidr", &format!("{field}.cidr"))?.unwrap_or_default();
        let gateway = text(item, "gateway", &format!("{field}.gateway"))?;
        let dns = texts(item, "dnsServers", &format!("{field}.dnsServers"))?;
        let dns: Vec<&str> = dns.iter().map(String::as_str).collect();
        flag(&cidr, gateway.as_deref(), &dns, field)
    });
    each.collect()
}

fn flag(
    cidr: &str,
    gateway: Option<&str>,
    dns: &[&str],
    field: String,
) -> Result<NetworkFlag, ClusterError> {
    let parts = [cidr, gateway.unwrap_or_default()]
        .into_iter()
        .chain(dns.iter().copied());
    let text = parts.collect::<Vec<_>>().join(",");
    text.parse().map_err(|source| ClusterError::Network { field, source })
}

fn text(value: &Value, name: &str, field: &str) -> Result<Option<String>, ClusterError> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(ClusterError::Field {
            field: field.to_owned(),
            message: "is no text: put it in quotes",
        }),
    }
}

fn texts(value: &Value, name: &str, field: &str) -> Result<Vec<String>, ClusterError> {
    let wrong = || ClusterError::Field {
        field: field.to_owned(),
        message: "is no list of texts",
    };
    match value.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            let each = items
                .iter()
                .map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong));
            each.collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// Whether the CIDRs begin as they were: machines have addresses of those.
pub fn appended(before: &[Prefix], next: &[NetworkFlag]) -> Result<(), ClusterError> {
    for (number, cidr) in before.iter().enumerate() {
        if next.get(number).map(|network| network.cidr) != Some(*cidr) {
            return Err(ClusterError::Removed { cidr: *cidr });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(spec: Value) -> Result<Vec<String>, String> {
        let networks = networks(&json!({"spec": spec})).map_err(|error| error.to_string())?;
        Ok(networks.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn both_forms_are_read() {
        let seed = json!({"machineNetwork": {
            "cidrBlocks": ["192.168.1.128/25", "fd00::/64"], "gateway": "192.168.1.1", "dnsServers": ["192.168.1.1", "fd00::53"],
        }});
        assert_eq!(
            of(seed).unwrap(),
            ["192.168.1.128/25,192.168.1.1,192.168.1.1", "fd00::/64,,fd00::53"]
        );
        let later = json!({"machineNetworks": [{"cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "dnsServers": ["10.0.0.53"]}]});
        assert_eq!(of(later).unwrap(), ["10.0.0.0/24,10.0.0.1,10.0.0.53"]);
        assert_eq!(of(json!({})).unwrap(), [] as [String; 0]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field() {
        let why = |spec| of(spec).unwrap_err();
        assert!(
            why(json!({"machineNetwork": {"cidrBlocks": ["10.0.0.1/24"]}}))
                .starts_with("spec.machineNetwork.cidrBlocks[0]: ")
        );
        assert!(
            why(json!({"machineNetwork": {"cidrBlocks": "10.0.0.0/24"}}))
                .starts_with("spec.machineNetwork.cidrBlocks: ")
        );
        assert!(
            why(json!({"machineNetworks": [{"cidr": "10.0.0.0/24", "gateway": "fd00::1"}]}))
                .starts_with("spec.machineNetworks[0]: ")
        );
        assert!(
            why(json!({"machineNetwork": {"cidrBlocks": ["10.0.0.0/24", "10.0.0.0/25"]}}))
                .contains("overlap")
        );
        assert!(
            why(json!({"machineNetwork": {"cidrBlocks": []}, "machineNetworks": []}))
                .contains("both set")
        );
    }

    #[test]
    fn cidrs_can_be_appended_and_nothing_else() {
        let before: Vec<Prefix> =
            ["10.0.0.0/24", "10.0.1.0/24"].map(|cidr| cidr.parse().unwrap()).into();
        let next = |cidrs: &[&str]| {
            cidrs
                .iter()
                .map(|cidr| cidr.parse().unwrap())
                .collect::<Vec<NetworkFlag>>()
        };
        assert!(appended(&before, &next(&["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"])).is_ok());
        assert!(appended(&before, &next(&["10.0.1.0/24", "10.0.0.0/24"])).is_err());
        assert!(appended(&before, &next(&["10.0.0.0/24"])).is_err());
        assert!(appended(&before, &[]).is_err());
        assert!(appended(&[], &next(&["10.0.0.0/24"])).is_ok());
    }
}
