//! The machine networks of a Cluster, in both forms, and the rules for them. Pure.

use berth_addr::Prefix;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::flag::{NetworkFlag, Part, RuleError};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    #[error("{field}: {source}")]
    Network { field: String, source: RuleError },
    #[error("{field}: {message}")]
    Field { field: String, message: &'static str },
    #[error(
        "spec.machineNetwork: {cidr} was removed, changed or moved: put it back, as machines may \
         have addresses of it; CIDRs can only be appended"
    )]
    Removed { cidr: Prefix },
}

impl ClusterError {
    pub fn field(&self) -> &str {
        match self {
            Self::Network { field, .. } | Self::Field { field, .. } => field,
            Self::Removed { .. } => "spec.machineNetwork",
        }
    }
}

type All<T> = Result<T, Vec<ClusterError>>;

/// The kind, as Kubermatic defined it.
pub fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("kubermatic.k8s.io", "v1", "Cluster"),
        "clusters",
    )
}

/// The networks in order; empty if the Cluster has none.
pub fn networks(cluster: &Value) -> Result<Vec<NetworkFlag>, ClusterError> {
    check(cluster).map_err(|mut errors| errors.swap_remove(0))
}

/// As [`networks`], with all errors: at least one.
pub fn check(cluster: &Value) -> All<Vec<NetworkFlag>> {
    let one = cluster.pointer("/spec/machineNetwork").filter(|value| !value.is_null());
    let many = cluster
        .pointer("/spec/machineNetworks")
        .filter(|value| !value.is_null());
    let (networks, list, member) = match (one, many) {
        (None, None) => return Ok(Vec::new()),
        (Some(one), None) => (of_blocks(one)?, "machineNetwork.cidrBlocks", ""),
        (None, Some(many)) => (of_list(many)?, "machineNetworks", ".cidr"),
        (Some(_), Some(_)) => {
            let field = "spec.machineNetwork".to_owned();
            let message = "and machineNetworks are both set: use one of the two";
            return Err(vec![ClusterError::Field { field, message }]);
        }
    };
    let overlaps = (0..networks.len()).filter_map(|place| {
        let (other, before) = (&networks[place], &networks[..place]);
        let one = before.iter().find(|one| one.cidr.overlaps(other.cidr))?;
        let source = RuleError::Overlap {
            one: one.cidr,
            other: other.cidr,
        };
        let field = format!("spec.{list}[{place}]{member}");
        Some(ClusterError::Network { field, source })
    });
    let overlaps: Vec<ClusterError> = overlaps.collect();
    if overlaps.is_empty() {
        Ok(networks)
    } else {
        Err(overlaps)
    }
}

/// One gateway and one set of name servers for all CIDRs: each CIDR takes those of its family.
fn of_blocks(network: &Value) -> All<Vec<NetworkFlag>> {
    let field = |name: &str| format!("spec.machineNetwork.{name}");
    let blocks = texts(network, "cidrBlocks", &field("cidrBlocks")).map_err(alone)?;
    let gateway = text(network, "gateway", &field("gateway")).map_err(alone)?;
    let gateway = gateway.unwrap_or_default();
    let dns = texts(network, "dnsServers", &field("dnsServers")).map_err(alone)?;
    let of_family = |cidr: &str, address: &str| cidr.contains(':') == address.contains(':');
    // An address of the other family counts as missing.
    let keep = |cidr: &str, address: &str| of_family(cidr, address).then(|| address.to_owned());
    let each = blocks.iter().enumerate().map(|(number, cidr)| {
        let gateway = keep(cidr, &gateway).unwrap_or_default();
        let dns: Vec<String> = dns.iter().map(|dns| keep(cidr, dns).unwrap_or_default()).collect();
        let dns: Vec<&str> = dns.iter().map(String::as_str).collect();
        let field = |part| match part {
            Part::Cidr => field(&format!("cidrBlocks[{number}]")),
            Part::Gateway => field("gateway"),
            Part::Dns(place) => field(&format!("dnsServers[{place}]")),
        };
        named(NetworkFlag::new(cidr, &gateway, &dns), field)
    });
    gather(each)
}

fn of_list(list: &Value) -> All<Vec<NetworkFlag>> {
    let items = list.as_array().ok_or_else(|| {
        alone(ClusterError::Field {
            field: "spec.machineNetworks".to_owned(),
            message: "is not a list",
        })
    })?;
    let each = items.iter().enumerate().map(|(number, item)| {
        let field = |name: &str| format!("spec.machineNetworks[{number}].{name}");
        let cidr = text(item, "cidr", &field("cidr")).map_err(alone)?.unwrap_or_default();
        let gateway = text(item, "gateway", &field("gateway")).map_err(alone)?;
        let gateway = gateway.unwrap_or_default();
        let dns = texts(item, "dnsServers", &field("dnsServers")).map_err(alone)?;
        let dns: Vec<&str> = dns.iter().map(String::as_str).collect();
        let field = |part| match part {
            Part::Cidr => field("cidr"),
            Part::Gateway => field("gateway"),
            Part::Dns(place) => field(&format!("dnsServers[{place}]")),
        };
        named(NetworkFlag::new(&cidr, &gateway, &dns), field)
    });
    gather(each)
}

fn alone(error: ClusterError) -> Vec<ClusterError> {
    vec![error]
}

fn named(
    network: Result<NetworkFlag, Vec<RuleError>>,
    field: impl Fn(Part) -> String,
) -> All<NetworkFlag> {
    let name = |source: RuleError| ClusterError::Network {
        field: field(source.part()),
        source,
    };
    network.map_err(|errors| errors.into_iter().map(name).collect())
}

/// All networks, or all errors; equal errors of two networks are reported once.
fn gather(each: impl Iterator<Item = All<NetworkFlag>>) -> All<Vec<NetworkFlag>> {
    let (mut networks, mut errors) = (Vec::new(), Vec::new());
    for one in each {
        match one {
            Ok(network) => networks.push(network),
            Err(wrong) => errors.extend(wrong),
        }
    }
    let mut told = Vec::new();
    for error in errors {
        if !told.contains(&error) {
            told.push(error);
        }
    }
    if told.is_empty() { Ok(networks) } else { Err(told) }
}

fn text(value: &Value, name: &str, field: &str) -> Result<Option<String>, ClusterError> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(ClusterError::Field {
            field: field.to_owned(),
            message: "is not text: put it in quotes",
        }),
    }
}

fn texts(value: &Value, name: &str, field: &str) -> Result<Vec<String>, ClusterError> {
    let wrong = || ClusterError::Field {
        field: field.to_owned(),
        message: "is not a list of strings",
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

/// Checks that the next CIDRs begin with those from before: machines may have addresses of them.
pub fn appended(before: &[Prefix], next: &[NetworkFlag]) -> Result<(), ClusterError> {
    begins_with(before, |place| next.get(place).map(|network| network.cidr))
}

/// As [`appended`], also if some of the next CIDRs cannot be parsed.
pub fn begins_with(
    before: &[Prefix],
    next: impl Fn(usize) -> Option<Prefix>,
) -> Result<(), ClusterError> {
    let mut all = before.iter().enumerate();
    match all.find(|(place, cidr)| next(*place) != Some(**cidr)) {
        Some((_, cidr)) => Err(ClusterError::Removed { cidr: *cidr }),
        None => Ok(()),
    }
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
                .starts_with("spec.machineNetworks[0].gateway: ")
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
    fn all_that_is_wrong_is_told_with_its_field() {
        let fields = |spec: Value| -> Vec<String> {
            let errors = check(&json!({"spec": spec})).unwrap_err();
            errors.iter().map(|error| error.field().to_owned()).collect()
        };
        let list = json!({"machineNetworks": [
            {"cidr": "10.0.0.1/24", "gateway": "x"},
            {"cidr": "10.0.1.0/24", "dnsServers": ["10.0.1.1", "fd00::1"]},
        ]});
        let expected = ["[0].cidr", "[0].gateway", "[1].dnsServers[1]"];
        assert_eq!(fields(list), expected.map(|part| format!("spec.machineNetworks{part}")));
        let overlap = json!({"machineNetworks": [
            {"cidr": "10.0.0.0/24"}, {"cidr": "10.0.1.0/24"}, {"cidr": "10.0.1.128/25"},
        ]});
        assert_eq!(fields(overlap), ["spec.machineNetworks[2].cidr"]);
        let blocks = json!({"machineNetwork": {
            "cidrBlocks": ["10.0.0.0/24", "10.0.1.0/24"], "gateway": "x",
        }});
        assert_eq!(fields(blocks), ["spec.machineNetwork.gateway"]);
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
