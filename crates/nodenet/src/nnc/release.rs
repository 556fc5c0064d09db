//! An nnc that is being deleted may go: what the node has is not the nnc's but the Node's.
//!
//! Of a Node that is there, the next nnc lists all of it again. Of one that is gone, reclaim takes
//! it back when its time has come.

use berth_api::{NodeNetworkConfig, names};
use berth_kit::api_error::{is_conflict, is_not_found};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::context::Context;
use crate::error::ReconcileError;
use crate::facts::NncFacts;

/// Whether it is off: not when the nnc is another one by now.
pub async fn remove_finalizer(
    context: &Context,
    name: &str,
    nnc: &NodeNetworkConfig,
) -> Result<bool, ReconcileError> {
    if !NncFacts::of(nnc).finalizer {
        return Ok(true);
    }
    let others = nnc
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != names::FINALIZER);
    let finalizers: Vec<&String> = others.collect();
    let patch = json!({"metadata": {
        "resourceVersion": nnc.metadata.resource_version,
        "finalizers": finalizers,
    }});
    let params = PatchParams {
        field_manager: Some(names::field_manager::NNC.to_owned()),
        ..PatchParams::default()
    };
    match context.nncs().patch(name, &params, &Patch::Merge(patch)).await {
        Err(error) if is_conflict(&error) => Ok(false),
        Err(error) if !is_not_found(&error) => Err(error.into()),
        _ => Ok(true),
    }
}
