//! The names of leases: UUIDs derived from what a lease is for. So a repeated request, also after a
//! crash, asks for the same lease. A NodeNetworkConfig lists them as `ipAssignments[].name`.

use std::net::IpAddr;

use berth_addr::Prefix;
use uuid::Uuid;

/// What a lease is for. `nc` is the id of a node's network container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOf<'a> {
    /// A node's own address. Its network container has the same id, so a node has one network
    /// container, however often it is requested. A Node with another UID is another node.
    Node {
        cluster: &'a str,
        node: &'a str,
        uid: &'a str,
    },
    /// An address for a pod: number `number` of one request.
    Request { request: Uuid, number: usize },
    /// An address that the node was observed to have, and whose name is unknown. The first address
    /// of a dual-stack pod names both.
    Observed { nc: Uuid, first: IpAddr },
    /// The IPv6 address of a lease with both families. The first address, IPv4 if there is one, has
    /// the lease's own name.
    Ipv6 { lease: Uuid },
    /// The podCIDRs that we gave the node.
    PodCidrs { nc: Uuid },
    /// A podCIDR that the node already had, no matter who assigned it.
    PodCidr { nc: Uuid, cidr: Prefix },
}

/// All names of leases are made here.
pub fn lease_name(of: LeaseOf<'_>) -> Uuid {
    match of {
        LeaseOf::Node { cluster, node, uid } => {
            let text = format!("container/{cluster}/{node}/{uid}");
            Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes())
        }
        LeaseOf::Request { request, number } => Uuid::new_v5(&request, &number.to_be_bytes()),
        LeaseOf::Observed { nc, first } => {
            Uuid::new_v5(&nc, format!("observed/{first}").as_bytes())
        }
        LeaseOf::Ipv6 { lease } => Uuid::new_v5(&lease, b"ipv6"),
        LeaseOf::PodCidrs { nc } => Uuid::new_v5(&nc, b"node-cidr"),
        LeaseOf::PodCidr { nc, cidr } => Uuid::new_v5(&nc, cidr.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_for_ever() {
        let node = LeaseOf::Node {
            cluster: "blue",
            node: "node-1",
            uid: "9f0c",
        };
        let nc = lease_name(node);
        assert_eq!(nc.to_string(), "4a4ead20-6bbe-5529-b03f-df910a63d827");
        let request = "5f2b8a36-9f0c-4e55-8a51-0d7c0c1a9b11".parse().unwrap();
        let first = lease_name(LeaseOf::Request { request, number: 0 });
        assert_eq!(first.to_string(), "00a77f21-c82b-5550-8fb3-f4e27ea82a44");
    }

    #[test]
    fn what_is_for_something_else_has_another_name() {
        let nc = Uuid::nil();
        let names = [
            LeaseOf::Request {
                request: nc,
                number: 0,
            },
            LeaseOf::Request {
                request: nc,
                number: 1,
            },
            LeaseOf::Observed {
                nc,
                first: "10.0.0.5".parse().unwrap(),
            },
            LeaseOf::Observed {
                nc,
                first: "10.0.0.6".parse().unwrap(),
            },
            LeaseOf::Ipv6 { lease: nc },
            LeaseOf::PodCidrs { nc },
            LeaseOf::PodCidr {
                nc,
                cidr: "10.0.0.0/24".parse().unwrap(),
            },
        ]
        .map(lease_name);
        let unique: std::collections::BTreeSet<Uuid> = names.into_iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
