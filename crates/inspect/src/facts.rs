//! The state of the API server at one moment.

mod agents;
mod blocks;
mod events;
mod machine;
mod nnc;
mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::IpAddr;

use berth_addr::Prefix;
use berth_api::agent::DigestLine;
use berth_api::subnet::Use;
use berth_api::{
    AddressBlock, ClusterSubnetState, NodeNetworkConfig, ObservedNode, ObservedPod, Subnet,
};
use berth_kit::api_error::is_not_found;
use berth_kit::watch::Key;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

pub use agents::ask_agents;
pub use blocks::{Held, Unit, units};
pub use events::{ClaimFacts, EventFacts, gather_reports};
pub use machine::MachineFacts;
pub use nnc::NncFacts;
pub use pod::PodFacts;

/// Why the facts could not be read.
#[derive(Debug, thiserror::Error)]
#[error("reading {kind}: {source}")]
pub struct GatherError {
    kind: String,
    #[source]
    source: Box<kube::Error>,
}

/// All facts. A kind that the cluster does not have is empty and named in `missing`.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub now: Timestamp,
    pub nodes: BTreeMap<String, ObservedNode>,
    pub nncs: BTreeMap<String, NncFacts>,
    pub subnets: BTreeMap<String, Subnet>,
    pub states: BTreeMap<String, ClusterSubnetState>,
    pub pods: BTreeMap<Key, PodFacts>,
    pub machines: BTreeMap<Key, MachineFacts>,
    /// By subnet and unit. Empty if the ledger is not kept in the API server.
    pub units: BTreeMap<(String, Prefix), Unit>,
    pub missing: Vec<String>,
    /// What the agents hold, by node and address, for the agents that answered.
    pub digests: BTreeMap<String, BTreeMap<IpAddr, DigestLine>>,
    /// Why the other agents did not answer, by node.
    pub unanswered: BTreeMap<String, String>,
    /// Warnings of the last hour, where they were read.
    pub events: Vec<EventFacts>,
    pub claims: BTreeMap<Key, ClaimFacts>,
    pub clusters: BTreeSet<String>,
}

/// Reads every kind once, side by side.
pub fn gather(client: &Client) -> BoxFuture<'_, Result<Facts, GatherError>> {
    Box::pin(async move {
        let (nodes, nncs, subnets, states, blocks, pods, machines, other_machines) = futures::try_join!(
            list::<ObservedNode>(client),
            list::<NodeNetworkConfig>(client),
            list::<Subnet>(client),
            list::<ClusterSubnetState>(client),
            list::<AddressBlock>(client),
            list::<ObservedPod>(client),
            list_machines(client, "machine.k8s.io"),
            list_machines(client, "cluster.k8s.io"),
        )?;
        let mut facts = Facts {
            now: Timestamp::now(),
            ..Facts::default()
        };
        facts.nodes = facts.by_name(nodes);
        for nnc in facts.known(nncs) {
            facts.nncs.insert(nnc.name_any(), NncFacts::of(nnc));
        }
        facts.subnets = facts.by_name(subnets);
        facts.states = facts.by_name(states);
        facts.units = units(&facts.known(blocks));
        for pod in facts.known(pods) {
            facts.pods.insert(Key::of(&pod), PodFacts::of(&pod));
        }
        // Most clusters have no Machines: these kinds are not named in `missing`.
        for machine in [machines, other_machines].into_iter().flatten().flatten() {
            facts.machines.insert(Key::of(&machine), MachineFacts::of(&machine));
        }
        Ok(facts)
    })
}

impl Facts {
    fn known<K: Resource<DynamicType = ()>>(&mut self, list: Option<Vec<K>>) -> Vec<K> {
        if list.is_none() {
            self.missing.push(K::kind(&()).into_owned());
        }
        list.unwrap_or_default()
    }

    fn by_name<K: Resource<DynamicType = ()>>(
        &mut self,
        list: Option<Vec<K>>,
    ) -> BTreeMap<String, K> {
        let list = self.known(list);
        list.into_iter().map(|object| (object.name_any(), object)).collect()
    }

    /// The Subnet that this address belongs to.
    pub fn subnet_of(&self, address: IpAddr) -> Option<&Subnet> {
        let has = |subnet: &&Subnet| cidrs(subnet).iter().any(|cidr| cidr.contains(address));
        self.subnets.values().find(has)
    }

    /// Living pods that show this address.
    pub fn pods_with(&self, address: IpAddr) -> impl Iterator<Item = (&Key, &PodFacts)> {
        let has = move |pod: &PodFacts| pod.is_living() && pod.addresses.contains(&address);
        self.pods.iter().filter(move |(_, pod)| has(pod))
    }

    /// Nodes whose NodeNetworkConfig lists this address.
    pub fn nodes_with(&self, address: IpAddr) -> impl Iterator<Item = &str> {
        let having = self.nncs.iter().filter(move |(_, nnc)| nnc.lists(address));
        having.map(|(name, _)| name.as_str())
    }

    pub fn pods_on(&self, node: &str) -> impl Iterator<Item = (&Key, &PodFacts)> {
        self.pods
            .iter()
            .filter(move |(_, pod)| pod.node.as_deref() == Some(node))
    }

    /// The unit that contains this address, with its owner, from the ledger's records.
    pub fn unit_of(&self, address: IpAddr) -> Option<(&str, Prefix, &Unit)> {
        let found = self.units.iter().find(|((_, unit), _)| unit.contains(address));
        found.map(|((subnet, prefix), unit)| (subnet.as_str(), *prefix, unit))
    }

    /// Whether the ledger keeps its records of this subnet in the API server.
    pub fn has_blocks(&self, subnet: &str) -> bool {
        self.units.keys().any(|(name, _)| name == subnet)
    }
}

/// The CIDRs that the controllers use: those of the status, or of the spec while the status has
/// none.
pub fn cidrs(subnet: &Subnet) -> Vec<Prefix> {
    let followed = subnet.status.as_ref().map(|status| &status.cidrs);
    let cidrs = followed.filter(|cidrs| !cidrs.is_empty()).unwrap_or(&subnet.spec.cidrs);
    cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect()
}

pub fn is_for_pods(subnet: &Subnet) -> bool {
    subnet.spec.usage == Use::Pods
}

/// `None` when the cluster does not have the kind.
async fn list<K>(client: &Client) -> Result<Option<Vec<K>>, GatherError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    all(Api::<K>::all(client.clone()), &K::kind(&())).await
}

async fn list_machines(
    client: &Client,
    group: &str,
) -> Result<Option<Vec<DynamicObject>>, GatherError> {
    let kind = GroupVersionKind::gvk(group, "v1alpha1", "Machine");
    let resource = ApiResource::from_gvk_with_plural(&kind, "machines");
    all(Api::all_with(client.clone(), &resource), "Machine").await
}

async fn all<K>(api: Api<K>, kind: &str) -> Result<Option<Vec<K>>, GatherError>
where
    K: Clone + Debug + DeserializeOwned,
{
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(Some(list.items)),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(source) => Err(GatherError {
            kind: kind.to_owned(),
            source: Box::new(source),
        }),
    }
}
