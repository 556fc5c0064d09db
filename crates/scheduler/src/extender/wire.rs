//! What kube-scheduler sends and expects, `k8s.io/kube-scheduler/extender/v1`. The Go types have no
//! JSON tags, so keys are the names of the Go fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// The arguments of filter and prioritize: either the names of nodes, or whole nodes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Args<'a> {
    #[serde(borrow)]
    pub pod: Option<Pod<'a>>,
    #[serde(borrow, default)]
    pub nodes: Option<NodeList<'a>>,
    #[serde(borrow, default)]
    pub node_names: Option<Vec<NodeName<'a>>>,
}

/// Borrows from the body. Without this type serde would copy each name: it borrows fields only, not
/// the items of a list of `Cow`s.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct NodeName<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The part of a pod that is needed here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod<'a> {
    #[serde(borrow)]
    pub metadata: Metadata<'a>,
    pub spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    #[serde(borrow)]
    pub namespace: Cow<'a, str>,
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Spec {
    pub host_network: bool,
}

/// Whole nodes, unparsed: the answer returns them unchanged.
#[derive(Debug, Default, Deserialize)]
pub struct NodeList<'a> {
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

/// The part of a whole node that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamedNode<'a> {
    #[serde(borrow)]
    pub metadata: Metadata<'a>,
}

/// One of the two lists is always set: with both null, kube-scheduler would find no node.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult<'a> {
    pub nodes: Option<FilteredNodes<'a>>,
    pub node_names: Option<Vec<&'a str>>,
    pub failed_nodes: BTreeMap<&'a str, String>,
    #[serde(serialize_with = "as_map")]
    pub failed_and_unresolvable_nodes: Vec<Failed<'a>>,
    pub error: String,
}

#[derive(Debug, Serialize)]
pub struct FilteredNodes<'a> {
    pub metadata: BTreeMap<String, String>,
    pub items: Vec<&'a RawValue>,
}

/// One entry of the map of nodes that failed.
#[derive(Debug)]
pub struct Failed<'a> {
    pub node: &'a str,
    pub reason: Arc<str>,
}

fn as_map<S: Serializer>(failed: &[Failed<'_>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(failed.iter().map(|failed| (failed.node, &*failed.reason)))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct HostPriority<'a> {
    pub host: Cow<'a, str>,
    pub score: u8,
}

#[derive(Debug, Deserialize)]
pub struct BindingArgs {
    #[serde(rename = "PodName", default)]
    pub pod_name: String,
    #[serde(rename = "PodNamespace", default)]
    pub pod_namespace: String,
    #[serde(rename = "PodUID", default)]
    pub pod_uid: String,
    #[serde(rename = "Node", default)]
    pub node: String,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindingResult {
    pub error: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionArgs<'a> {
    #[serde(borrow)]
    pub pod: Option<Pod<'a>>,
    #[serde(borrow, default)]
    pub node_name_to_victims: Option<BTreeMap<Cow<'a, str>, Victims<'a>>>,
    #[serde(default)]
    pub node_name_to_meta_victims: Option<BTreeMap<String, MetaVictims>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Victims<'a> {
    #[serde(borrow, default)]
    pub pods: Option<Vec<NamedNode<'a>>>,
    #[serde(rename = "NumPDBViolations", default)]
    pub num_pdb_violations: i64,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct MetaVictims {
    #[serde(default)]
    pub pods: Option<Vec<MetaPod>>,
    #[serde(rename = "NumPDBViolations", default)]
    pub num_pdb_violations: i64,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct MetaPod {
    #[serde(rename = "UID", default)]
    pub uid: String,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionResult {
    pub node_name_to_meta_victims: BTreeMap<String, MetaVictims>,
}
