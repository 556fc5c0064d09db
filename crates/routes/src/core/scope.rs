//! The address ranges that we make routes in.

use berth_addr::Prefix;

/// The cluster CIDRs. A route is in scope when one of them contains its whole destination. A route
/// that only overlaps a cluster CIDR, or contains it, is not ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    cidrs: Vec<Prefix>,
}

impl Scope {
    pub fn new(cidrs: impl IntoIterator<Item = Prefix>) -> Self {
        let mut cidrs: Vec<Prefix> = cidrs.into_iter().collect();
        cidrs.sort_unstable();
        cidrs.dedup();
        Self { cidrs }
    }

    pub fn covers(&self, destination: Prefix) -> bool {
        self.cidrs.iter().any(|cidr| cidr.covers(destination))
    }

    pub fn is_empty(&self) -> bool {
        self.cidrs.is_empty()
    }

    pub fn cidrs(&self) -> &[Prefix] {
        &self.cidrs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(cluster: &str, route: &str) -> bool {
        Scope::new([cluster.parse().unwrap()]).covers(route.parse().unwrap())
    }

    #[test]
    fn a_route_that_only_touches_the_cluster_cidr_is_not_ours() {
        assert!(!covers("10.120.0.0/16", "10.120.0.0/13"));
    }

    #[test]
    fn a_route_that_holds_the_cluster_cidr_is_not_ours() {
        assert!(!covers("10.120.0.0/16", "10.0.0.0/8"));
    }

    #[test]
    fn a_route_to_the_whole_cluster_cidr_is_in_scope() {
        assert!(covers("10.120.0.0/16", "10.120.0.0/16"));
    }
}
