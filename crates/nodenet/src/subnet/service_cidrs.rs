//! Addresses that the cluster gives to Services: a pod that has one of them can't be reached. Pure.

use berth_addr::Prefix;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::ResourceExt;

/// A ServiceCIDR and one of its CIDRs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    pub name: String,
    pub cidr: Prefix,
}

pub fn ranges(found: &ServiceCIDR) -> Vec<ServiceRange> {
    let spec = found.spec.as_ref();
    let cidrs = spec.and_then(|spec| spec.cidrs.clone()).unwrap_or_default();
    let range = |cidr: &String| {
        Some(ServiceRange {
            name: found.name_any(),
            cidr: cidr.parse().ok()?,
        })
    };
    cidrs.iter().filter_map(range).collect()
}

/// The first range that has addresses of these CIDRs.
pub fn overlap<'a>(cidrs: &[Prefix], services: &'a [ServiceRange]) -> Option<&'a ServiceRange> {
    let mut services = services.iter();
    services.find(|range| cidrs.iter().any(|cidr| cidr.overlaps(range.cidr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_that_has_addresses_of_services_is_found() {
        let services = [ServiceRange {
            name: "kubernetes".to_owned(),
            cidr: "10.96.0.0/16".parse().unwrap(),
        }];
        let cidrs = |texts: &[&str]| -> Vec<Prefix> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(overlap(&cidrs(&["10.64.0.0/16"]), &services), None);
        assert_eq!(
            overlap(&cidrs(&["10.64.0.0/16", "10.96.4.0/24"]), &services),
            Some(&services[0])
        );
    }
}
