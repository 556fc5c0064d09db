//! The answers to a plugin.

use std::net::IpAddr;

use serde::Serialize;

use super::Outcome;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IpConfigsResponse {
    /// One for each family.
    #[serde(rename = "podIPInfo")]
    pub pod_ip_info: Vec<PodIpInfo>,
    pub response: Outcome,
}

/// The older form, for one address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct IpConfigResponse {
    pub pod_ip_info: PodIpInfo,
    pub response: Outcome,
}

/// CNS puts the outcome of a release into `response`. Its client looks for it beside `response`,
/// and so takes every failure for success. Here it is in both places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Released {
    pub response: Outcome,
    #[serde(flatten)]
    pub beside: Outcome,
}

impl From<Outcome> for Released {
    fn from(outcome: Outcome) -> Self {
        Self {
            response: outcome.clone(),
            beside: outcome,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodIpInfo {
    #[serde(rename = "PodIPConfig")]
    pub pod: IpSubnet,
    #[serde(rename = "NetworkContainerPrimaryIPConfig")]
    pub container: IpConfiguration,
    #[serde(rename = "HostPrimaryIPInfo")]
    pub host: HostInfo,
    #[serde(rename = "NICType")]
    pub nic_type: &'static str,
    #[serde(rename = "InterfaceName")]
    pub interface: String,
    #[serde(rename = "MacAddress")]
    pub mac: String,
    #[serde(rename = "SkipDefaultRoutes")]
    pub skips_default_routes: bool,
    /// Empty: the plugin sets the default route.
    #[serde(rename = "Routes")]
    pub routes: Vec<String>,
}

impl PodIpInfo {
    /// An address with the prefix length of its subnet.
    pub fn new(address: IpAddr, length: u8, gateway: Option<IpAddr>) -> Self {
        let pod = IpSubnet {
            address: address.to_string(),
            length,
        };
        let subnet = IpSubnet {
            address: first(address, length).to_string(),
            length,
        };
        let gateway = gateway.map(|gateway| gateway.to_string()).unwrap_or_default();
        let (gateway_v4, gateway_v6) = match address {
            IpAddr::V4(_) => (gateway, String::new()),
            IpAddr::V6(_) => (String::new(), gateway),
        };
        Self {
            pod,
            container: IpConfiguration {
                subnet_v6: if address.is_ipv6() {
                    subnet.clone()
                } else {
                    IpSubnet::default()
                },
                // azure-ipam takes the prefix length from here for both families.
                subnet,
                dns_servers: Vec::new(),
                gateway_v4,
                gateway_v6,
            },
            nic_type: "InfraNIC",
            ..Self::default()
        }
    }
}

/// An address, and the length of the prefix around it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IpSubnet {
    #[serde(rename = "IPAddress")]
    pub address: String,
    #[serde(rename = "PrefixLength")]
    pub length: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IpConfiguration {
    #[serde(rename = "IPSubnet")]
    pub subnet: IpSubnet,
    #[serde(rename = "IPSubnetV6")]
    pub subnet_v6: IpSubnet,
    #[serde(rename = "DNSServers")]
    pub dns_servers: Vec<String>,
    #[serde(rename = "GatewayIPAddress")]
    pub gateway_v4: String,
    #[serde(rename = "GatewayIPv6Address")]
    pub gateway_v6: String,
}

/// The machine's own network, which we do not report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostInfo {
    pub gateway: String,
    #[serde(rename = "PrimaryIP")]
    pub primary_ip: String,
    pub subnet: String,
}

/// The first address of the prefix.
fn first(address: IpAddr, length: u8) -> IpAddr {
    let host = |bits: u32| bits.saturating_sub(u32::from(length));
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(host(32)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(host(128)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}
