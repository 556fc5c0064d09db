//! Writes to Subnets: their finalizer and their status.

use berth_kit::api_error::{is_conflict, is_not_found};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_addr::Counts;
use berth_api::subnet::Use;
use berth_api::{Subnet, SubnetStatus, names};
use kube::api::{Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use super::FINALIZER;
use super::apply::Subnets;
use super::decide::Verdict;
use super::exhaustion::{Demand, Fill, NodeDemand, fill};
use super::services::overlap;
use super::status::{said, status};
use crate::controllers::Failure;

/// Between two writes of the same status: while addresses come and go, a person needs no more.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

impl Subnets {
    /// Over exactly the state that was read. `None` when it is another one by now: the watch tells.
    pub(super) async fn set_finalizer(
        &self,
        name: &str,
        subnet: &Subnet,
        wanted: bool,
    ) -> Result<Option<Arc<Subnet>>, Failure> {
        let mut finalizers: Vec<String> = subnet.finalizers().to_vec();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        if wanted {
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
        match self.context.subnets().patch(name, &params, &Patch::Merge(patch)).await {
            Err(error) if is_conflict(&error) || is_not_found(&error) => Ok(None),
            patched => Ok(Some(Arc::new(patched?))),
        }
    }

    pub(super) async fn write(
        &self,
        name: &str,
        subnet: &Subnet,
        verdict: &Verdict,
        counts: Option<Counts>,
    ) -> Result<(), Failure> {
        let known = self.state().known.get(name).cloned();
        let cidrs = known.as_ref().map(|known| known.plan.cidrs.as_slice());
        let fill = counts.map_or(Fill::Enough, |counts| self.fill(name, subnet, counts));
        let conflicts = self.context.claims.conflicts(name);
        let service = overlap(cidrs.unwrap_or_default(), &self.state().services).cloned();
        let mut next = status(
            subnet,
            verdict,
            cidrs,
            counts,
            fill,
            &conflicts,
            service.as_ref(),
            self.context.now(),
        );
        let epoch = i64::try_from(self.context.epoch.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        next.epoch = Some(epoch).filter(|epoch| *epoch > 0);
        if let Some(counts) = counts
            && counts.resting > 0
        {
            // Then some of it has rested.
            let delay = known.map(|known| known.reuse_delay);
            self.queue
                .add_after(name.to_owned(), delay.unwrap_or_default().max(BETWEEN_WRITES));
        }
        if subnet.status.as_ref() == Some(&next) {
            return Ok(());
        }
        if only_counts_differ(subnet.status.as_ref(), &next) {
            let wait = self.until_next_write(name);
            if !wait.is_zero() {
                self.queue.add_after(name.to_owned(), wait);
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
        match self
            .context
            .subnets()
            .patch_status(name, &params, &Patch::Apply(patch))
            .await
        {
            Err(error) if is_not_found(&error) => Ok(()),
            Ok(written) => {
                let mut state = self.state();
                state.written.insert(name.to_owned(), Instant::now());
                // Taken over at once: until the watch tells, this would be written again.
                if let Some(object) = state.objects.get_mut(name) {
                    *object = Arc::new(written);
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// From what its nodes ask for.
    fn fill(&self, name: &str, subnet: &Subnet, counts: Counts) -> Fill {
        let was = said(subnet).unwrap_or(Fill::Enough);
        if subnet.spec.usage != Use::Pods {
            let demand = Demand::of([], 0, was);
            return fill(was, counts, demand, subnet.spec.exhaustion);
        }
        let index = self.context.index();
        let pods = self.context.pods();
        let nodes = index.requests(name).map(|(node, requested)| NodeDemand {
            requested,
            pods: pods.demand(node),
        });
        let demand = Demand::of(nodes, index.starting(name), was);
        fill(was, counts, demand, subnet.spec.exhaustion)
    }

    pub(super) fn until_next_write(&self, name: &str) -> Duration {
        let written = self.state().written.get(name).copied();
        written.map_or(Duration::ZERO, |written| {
            BETWEEN_WRITES.saturating_sub(written.elapsed())
        })
    }
}

fn only_counts_differ(before: Option<&SubnetStatus>, next: &SubnetStatus) -> bool {
    before.is_some_and(|before| {
        before.conditions == next.conditions
            && before.observed_generation == next.observed_generation
            && before.cidrs == next.cidrs
    })
}
