//! Other users of the addresses of a CIDR.

use berth_addr::Prefix;
use berth_api::subnet::Use;

use crate::index::Index;

/// Subnets of this cluster and networks of other Clusters that overlap. They may be on separate
/// physical networks: a person must decide. `own` is the Subnet that machine IPAM itself makes for
/// the CIDR.
pub fn overlaps(index: &Index, cluster: &str, cidr: Prefix, own: &str) -> Vec<String> {
    let reads = |text: &String| text.parse::<Prefix>().ok();
    let overlapping = |texts: &[String]| -> Vec<Prefix> {
        let parsed = texts.iter().filter_map(reads);
        parsed.filter(|other| other.overlaps(cidr)).collect()
    };
    let mut told = Vec::new();
    for (name, subnet) in &index.facts.subnets {
        let is_own = name == own && subnet.spec.usage == Use::Machines;
        for other in overlapping(&subnet.spec.cidrs).iter().filter(|_| !is_own) {
            told.push(format!("{cidr} overlaps {other} of the Subnet {name}."));
        }
    }
    for (name, facts) in index.clusters.iter().filter(|(name, _)| *name != cluster) {
        for other in overlapping(&facts.cidrs) {
            told.push(format!(
                "{cidr} overlaps {other} of the Cluster {name}: on one wire two machines would get \
                 one address."
            ));
        }
    }
    told
}
