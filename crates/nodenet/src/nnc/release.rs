//! Lets an nnc that is being deleted go: its addresses belong to the Node, not to the nnc.
//!
//! If the Node exists, the next nnc lists them all again. If it is gone, reclaim takes them back
//! after the grace period.

use berth_api::{NodeNetworkConfig, names};
use berth_kit::api_error::{is_conflict, is_not_found};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::context::Context;
use crate::error::ReconcileError;
use crate::facts::NncFacts;

/// Returns whether the finalizer is off; it is not if the nnc has changed since.
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
