//! Keeps only the part of large objects that is read here: there are thousands of them.

use berth_api::{NodeNetworkConfig, ObservedNode};
use berth_inspect::facts::NncFacts;
use kube::core::ObjectMeta;

pub fn node(node: &ObservedNode) -> ObservedNode {
    let mut node = node.clone();
    node.metadata = metadata(&node.metadata);
    node
}

pub fn nnc(nnc: &NodeNetworkConfig) -> NncFacts {
    let mut nnc = NncFacts::of(nnc.clone());
    nnc.object.metadata = metadata(&nnc.object.metadata);
    nnc
}

fn metadata(of: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: of.name.clone(),
        namespace: of.namespace.clone(),
        uid: of.uid.clone(),
        creation_timestamp: of.creation_timestamp.clone(),
        deletion_timestamp: of.deletion_timestamp.clone(),
        ..ObjectMeta::default()
    }
}
