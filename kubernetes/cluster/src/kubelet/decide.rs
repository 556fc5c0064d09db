//! Decides what a virtual node does next for a pod that is bound to it. Pure: state in, action out.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::attachment::{Attachment, bound_to};
use super::status::{self, Addresses};
use crate::nodes::Fleet;

#[derive(Debug, PartialEq)]
pub enum Action {
    /// Delete the pod from the API: its sandbox holds nothing any more.
    Finish,
    /// Write this status.
    Report(Box<PodStatus>),
    /// Attach the sandbox: it needs addresses.
    Attach,
    /// Detach the sandbox: it needs no addresses any more.
    Detach,
}

/// The next action for `pod`, or `None` if all is done.
pub fn decide(
    pod: &Pod,
    fleet: Fleet,
    node_exists: bool,
    attachment: &Attachment,
    now: &Time,
) -> Option<Action> {
    let node = bound_to(pod)?;
    let before = pod.status.clone().unwrap_or_default();
    let deleted = pod.metadata.deletion_timestamp.is_some();
    let ends = deleted || !node_exists;
    if ends || matches!(before.phase.as_deref(), Some("Succeeded" | "Failed")) {
        // Detach first: once the pod has gone from the API, nobody else knows of its sandbox.
        if attachment.may_hold() {
            return Some(Action::Detach);
        }
        // The pod is held only by its finalizers and needs no second delete.
        let finished = deleted && pod.metadata.deletion_grace_period_seconds == Some(0);
        return (ends && !finished).then_some(Action::Finish);
    }
    if !fleet.runs(node) {
        return None;
    }
    let spec = pod.spec.as_ref()?;
    let addresses = Addresses::of(spec, &before, attachment, Fleet::address(node));
    let after = status::of(spec, &before, addresses, pod.metadata.generation, now);
    if after != before {
        return Some(Action::Report(Box::new(after)));
    }
    matches!(attachment, Attachment::Unknown { .. } | Attachment::Detached)
        .then_some(Action::Attach)
}

#[cfg(test)]
mod tests;
