//! Writes to Subnets: their finalizer and their status.

use std::sync::Arc;

use berth_addr::Counts;
use berth_api::subnet::Use;
use berth_api::{Subnet, SubnetStatus, names};
use berth_kit::api_error::{is_conflict, is_not_found};
use kube::api::{Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::FINALIZER;
use super::decide::Verdict;
use super::exhaustion::{Demand, Fill, NodeDemand, fill};
use super::index::{Subnets, WRITE_INTERVAL};
use super::service_cidrs::overlap;
use super::status::{Report, published_fill, status};
use crate::context::Context;
use crate::error::ReconcileError;

/// Writes over exactly the state that was read. `None` if it has changed since: the watch will
/// report it.
pub async fn set_finalizer(
    context: &Context,
    name: &str,
    subnet: &Subnet,
    is_set: bool,
) -> Result<Option<Arc<Subnet>>, ReconcileError> {
    let mut finalizers: Vec<String> = subnet.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != FINALIZER);
    if is_set {
        finalizers.push(FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {
        "resourceVersion": subnet.metadata.resource_version,
        "finalizers": finalizers,
    }});
    let params = PatchParams {
        field_manager: Some(names::field_manager::SUBNET.to_owned()),
        ..PatchParams::default()
    };
    match context.subnets().patch(name, &params, &Patch::Merge(patch)).await {
        Err(error) if is_conflict(&error) || is_not_found(&error) => Ok(None),
        patched => Ok(Some(Arc::new(patched?))),
    }
}

pub async fn write_status(
    subnets: &Subnets,
    name: &str,
    subnet: &Subnet,
    verdict: &Verdict,
    counts: Option<Counts>,
) -> Result<(), ReconcileError> {
    let context = &subnets.context;
    let (registered, services, epoch) = {
        let index = subnets.index();
        let registered = index.registered.get(name).cloned();
        (registered, index.services.clone(), index.epoch)
    };
    let cidrs = registered.as_ref().map(|registered| registered.plan.cidrs.as_slice());
    let report = Report {
        verdict,
        cidrs,
        counts,
        fill: counts.map_or(Fill::Enough, |counts| fill_of(context, name, subnet, counts)),
        conflicts: &context.claims.conflicts(name),
        service: overlap(cidrs.unwrap_or_default(), &services),
    };
    let mut next = status(subnet, report, context.now());
    let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
    next.epoch = Some(epoch).filter(|epoch| *epoch > 0);
    if let Some(counts) = counts
        && counts.cooling_down > 0
    {
        // Then some of it has cooled down.
        let delay = registered.map(|registered| registered.reuse_delay);
        subnets.enqueue_after(name, delay.unwrap_or_default().max(WRITE_INTERVAL));
    }
    let before = subnet.status.clone().map(|before| SubnetStatus {
        pods_that_fit: None,
        ..before
    });
    if before.as_ref() == Some(&next) {
        return Ok(());
    }
    if only_counts_differ(before.as_ref(), &next) {
        let wait = subnets.until_next_write(name);
        if !wait.is_zero() {
            subnets.enqueue_after(name, wait);
            return Ok(());
        }
    }
    let patch = json!({
        "apiVersion": Subnet::api_version(&()),
        "kind": Subnet::kind(&()),
        "metadata": {"name": name},
        "status": next,
    });
    let params = PatchParams::apply(names::field_manager::SUBNET).force();
    match context
        .subnets()
        .patch_status(name, &params, &Patch::Apply(patch))
        .await
    {
        Err(error) if is_not_found(&error) => Ok(()),
        Ok(written) => {
            let mut index = subnets.index();
            index.written.insert(name.to_owned(), Instant::now());
            // The index gets it at once: until the watch reports it, this would be written again.
            if let Some(object) = index.objects.get_mut(name) {
                *object = Arc::new(written);
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The fill that follows from what the subnet's nodes request.
fn fill_of(context: &Context, name: &str, subnet: &Subnet, counts: Counts) -> Fill {
    let was = published_fill(subnet).unwrap_or(Fill::Enough);
    if subnet.spec.usage != Use::Pods {
        let demand = Demand::of([], 0, was);
        return fill(was, counts, demand, subnet.spec.exhaustion);
    }
    let index = context.index();
    let pods = context.pods();
    let nodes = index.requests(name).map(|(node, requested)| NodeDemand {
        requested,
        pods: pods.demand(node),
    });
    let demand = Demand::of(nodes, index.starting(name), was);
    fill(was, counts, demand, subnet.spec.exhaustion)
}

fn only_counts_differ(before: Option<&SubnetStatus>, next: &SubnetStatus) -> bool {
    before.is_some_and(|before| {
        before.conditions == next.conditions
            && before.observed_generation == next.observed_generation
            && before.cidrs == next.cidrs
    })
}
