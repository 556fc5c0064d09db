//! The content of a NodeNetworkConfig, parsed and checked once, so that no other code reads the
//! wire form.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_addr::scaling::Scaler;
use berth_addr::{Family, Prefix};
use berth_api::nnc::{AssignmentMode, IpAssignment, NetworkContainer, OVERLAY, VNET_BLOCK};
use berth_api::{LeaseOf, NodeNetworkConfig, lease_name};
use kube::ResourceExt;
use uuid::Uuid;

use crate::journal::Held;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub uid: String,
    pub containers: Vec<Container>,
    pub requested: i64,
    pub not_in_use: BTreeSet<String>,
    pub scaler: Scaler,
    /// What was left out, and why: for the log.
    pub left_out: Vec<String>,
}

/// A network container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub id: String,
    pub subnet: String,
    /// One space for each family.
    pub spaces: Vec<Space>,
    pub content: Content,
}

/// The subnet around a container's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub prefix: Prefix,
    pub gateway: Option<IpAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Leases come and go one by one, and have names.
    Leases(Vec<Lease>),
    /// All addresses of a block are the node's.
    Blocks(Vec<Prefix>),
}

/// An address, or one of each family that come and go together. The first one's name is the
/// lease's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub held: Vec<Held>,
}

impl Lease {
    pub fn name(&self) -> &str {
        self.held.first().map_or("", |held| held.name.as_str())
    }
}

impl Delivered {
    /// Stands for a missing NodeNetworkConfig.
    pub fn nothing() -> Self {
        Self::read(&NodeNetworkConfig::default())
    }

    /// Reads a NodeNetworkConfig. One that is being deleted delivers nothing: its addresses go back
    /// to the subnet.
    pub fn read(nnc: &NodeNetworkConfig) -> Self {
        let mut reader = Reader::default();
        let status = nnc.status.as_ref();
        let containers = status
            .map(|status| status.network_containers.as_slice())
            .unwrap_or_default();
        let ends = nnc.metadata.deletion_timestamp.is_some();
        let containers = containers.iter().filter(|_| !ends);
        let containers = containers.filter_map(|container| reader.container(container)).collect();
        let scaler = status.and_then(|status| status.scaler).unwrap_or_default();
        Self {
            uid: nnc.uid().unwrap_or_default(),
            containers,
            requested: nnc.spec.requested_ip_count,
            not_in_use: nnc.spec.ips_not_in_use.iter().cloned().collect(),
            scaler: Scaler::from_wire(
                scaler.batch_size,
                scaler.request_threshold_percent,
                scaler.max_ip_count,
            ),
            left_out: reader.left_out,
        }
    }
}

impl Container {
    /// The families of its subnet, which its addresses have or will have.
    pub fn families(&self) -> BTreeSet<Family> {
        let leases = match &self.content {
            Content::Leases(leases) => leases.as_slice(),
            Content::Blocks(_) => &[],
        };
        let leased = leases
            .iter()
            .flat_map(|lease| &lease.held)
            .map(|held| Family::of(held.address));
        let around = self.spaces.iter().map(|space| space.prefix.family());
        around.chain(leased).collect()
    }

    /// Whether its addresses come and go.
    pub fn has_leases(&self) -> bool {
        matches!(self.content, Content::Leases(_))
    }

    pub fn space_of(&self, address: IpAddr) -> Option<Space> {
        let family = Family::of(address);
        self.spaces
            .iter()
            .find(|space| space.prefix.family() == family)
            .copied()
    }
}

#[derive(Default)]
struct Reader {
    /// The addresses read so far. An address belongs to the first container and lease that lists
    /// it.
    seen: BTreeSet<IpAddr>,
    left_out: Vec<String>,
}

impl Reader {
    fn container(&mut self, container: &NetworkContainer) -> Option<Container> {
        let id = container.id.clone();
        if !is_word(&id) {
            self.left_out.push(format!("a container with the id {id:?}"));
            return None;
        }
        let is_static = container.assignment_mode == AssignmentMode::Static;
        let blocks = is_static || matches!(container.container_type.as_str(), VNET_BLOCK | OVERLAY);
        let primaries = [Some(&container.primary_ip), container.primary_ip_v6.as_ref()];
        let primaries: Vec<&String> = primaries
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
            .collect();
        let content = if blocks {
            let listed = container.ip_assignments.iter().map(|assignment| &assignment.ip);
            Content::Blocks(self.blocks(&id, primaries.into_iter().chain(listed)))
        } else {
            // The network container's own address is not given to pods.
            self.seen
                .extend(primaries.into_iter().filter_map(|text| address_of(text)));
            Content::Leases(self.leases(&id, &container.ip_assignments))
        };
        Some(Container {
            spaces: spaces(container, &content),
            subnet: container.subnet_name.clone(),
            id,
            content,
        })
    }

    fn blocks<'a>(&mut self, id: &str, texts: impl Iterator<Item = &'a String>) -> Vec<Prefix> {
        let mut blocks: Vec<Prefix> = Vec::new();
        for text in texts {
            // Without a length it is a single address, the network container's own.
            match block_of(text).filter(|_| text.contains('/')) {
                Some(block) if !blocks.iter().any(|other| other.overlaps(block)) => {
                    blocks.push(block)
                }
                _ => self.left_out.push(format!("{text:?} of container {id}")),
            }
        }
        blocks
    }

    fn leases(&mut self, id: &str, assignments: &[IpAssignment]) -> Vec<Lease> {
        let seconds: BTreeMap<String, &str> = assignments
            .iter()
            .filter_map(|assignment| {
                Some((assignment.name.parse::<Uuid>().ok()?, assignment.name.as_str()))
            })
            .map(|(lease, first)| (lease_name(LeaseOf::Ipv6 { lease }).to_string(), first))
            .collect();
        let mut leases: BTreeMap<&str, Lease> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for assignment in assignments {
            let address = assignment.ip.parse::<IpAddr>().ok();
            let address =
                address.filter(|_| is_word(&assignment.name) && names.insert(&assignment.name));
            let Some(address) = address.filter(|address| self.seen.insert(*address)) else {
                let IpAssignment { name, ip } = assignment;
                self.left_out.push(format!("{ip:?} named {name:?} of container {id}"));
                continue;
            };
            let held = Held {
                name: assignment.name.clone(),
                address,
            };
            let lease = seconds.get(&assignment.name).copied().unwrap_or(&assignment.name);
            let lease = leases.entry(lease).or_insert_with(|| Lease { held: Vec::new() });
            lease.held.push(held);
            // IPv4 first, as their names say.
            lease.held.sort_by_key(|held| held.address.is_ipv6());
        }
        leases.into_values().collect()
    }
}

fn spaces(container: &NetworkContainer, content: &Content) -> Vec<Space> {
    let gateways = [&container.default_gateway, &container.default_gateway_v6];
    let gateways: Vec<IpAddr> = gateways
        .into_iter()
        .flatten()
        .filter_map(|text| text.parse().ok())
        .collect();
    let listed = [
        Some(&container.subnet_address_space),
        container.subnet_address_space_v6.as_ref(),
    ];
    let mut prefixes: Vec<Prefix> =
        listed.into_iter().flatten().filter_map(|text| block_of(text)).collect();
    if let Content::Blocks(blocks) = content {
        // If no subnet around the blocks is named, the blocks stand for it.
        let silent =
            |block: &&Prefix| !prefixes.iter().any(|prefix| prefix.family() == block.family());
        let own: Vec<Prefix> = blocks.iter().filter(silent).copied().collect();
        prefixes.extend(own);
    }
    let mut families = BTreeSet::new();
    prefixes.retain(|prefix| families.insert(prefix.family()));
    let space = |prefix: Prefix| Space {
        prefix,
        gateway: gateways
            .iter()
            .find(|gateway| Family::of(**gateway) == prefix.family())
            .copied(),
    };
    prefixes.into_iter().map(space).collect()
}

/// Whether the journal can store the text as a name.
fn is_word(text: &str) -> bool {
    let odd =
        |letter: char| letter.is_whitespace() || letter.is_control() || matches!(letter, ',' | '=');
    !text.is_empty() && text != "-" && text.len() <= 253 && !text.contains(odd)
}

/// An address with or without a length, which is ignored.
fn address_of(text: &str) -> Option<IpAddr> {
    text.split('/').next()?.parse().ok()
}

/// `10.0.0.1/30` is all of 10.0.0.0 to 10.0.0.3; a bare address is itself.
fn block_of(text: &str) -> Option<Prefix> {
    match text.split_once('/') {
        Some((address, length)) => Prefix::around(address.parse().ok()?, length.parse().ok()?),
        None => text.parse::<IpAddr>().ok().map(Prefix::from),
    }
}
