//! Addresses that the cluster gives to Services: a pod that has one of them can't be reached.

use std::time::Duration;

use berth_addr::Prefix;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::Api;
use kube::ResourceExt;
use kube::api::ListParams;

use super::apply::Subnets;

/// They are made with the cluster and change hardly ever; where they can't be read, nothing is
/// said.
const INTERVAL: Duration = Duration::from_secs(60);

/// A ServiceCIDR and one of its CIDRs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    pub name: String,
    pub cidr: Prefix,
}

impl Subnets {
    /// For the lifetime of the controllers.
    pub async fn follow_services(&self) {
        let api: Api<ServiceCIDR> = Api::all(self.context.client.clone());
        loop {
            if let Ok(found) = api.list(&ListParams::default()).await {
                let ranges = found.items.iter().flat_map(ranges).collect();
                if self.set_services(ranges) {
                    let names: Vec<String> = self.state().objects.keys().cloned().collect();
                    names.into_iter().for_each(|name| self.queue.add(name));
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Whether they are others than before.
    fn set_services(&self, ranges: Vec<ServiceRange>) -> bool {
        let mut state = self.state();
        let changed = state.services != ranges;
        state.services = ranges;
        changed
    }
}

fn ranges(found: &ServiceCIDR) -> Vec<ServiceRange> {
    let cidrs = found
        .spec
        .as_ref()
        .and_then(|spec| spec.cidrs.clone())
        .unwrap_or_default();
    let range = |cidr: &String| {
        Some(ServiceRange {
            name: found.name_any(),
            cidr: cidr.parse().ok()?,
        })
    };
    cidrs.iter().filter_map(range).collect()
}

/// The first that has addresses of these CIDRs.
pub fn overlap<'a>(cidrs: &[Prefix], services: &'a [ServiceRange]) -> Option<&'a ServiceRange> {
    services
        .iter()
        .find(|range| cidrs.iter().any(|cidr| cidr.overlaps(range.cidr)))
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
        let cidrs = |texts: &[&str]| {
            texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Prefix>>()
        };
        assert_eq!(overlap(&cidrs(&["10.64.0.0/16"]), &services), None);
        assert_eq!(
            overlap(&cidrs(&["10.64.0.0/16", "10.96.4.0/24"]), &services),
            Some(&services[0])
        );
    }
}
