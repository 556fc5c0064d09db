//! Which attachments have an owner that is gone. Pure: what the observers report comes in, with the
//! time.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use berth_api::cni::{Attachment, PodRef};

use crate::cluster::{PodFacts, PodKey};
use crate::cri::Sandbox;
use crate::pool::Holding;

/// The least number of passes in which both observers must have said it, even in a short grace
/// period.
const TIMES: u32 = 3;

/// What there is, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub holdings: &'a BTreeMap<Attachment, Holding>,
    /// All sandboxes that the runtime lists, in any state.
    pub sandboxes: &'a [Sandbox],
    /// All pods of the node.
    pub pods: &'a BTreeMap<PodKey, PodFacts>,
    /// Both in nanoseconds.
    pub now: u64,
    pub grace: u64,
}

/// For each attachment: since when and how often both observers have said that its owner is gone.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    gone: BTreeMap<Attachment, Sightings>,
}

#[derive(Clone, Copy, Debug)]
struct Sightings {
    /// The start of the ADD: a later ADD is another owner.
    started: u64,
    since: u64,
    times: u32,
}

/// Why the API server counts an owner as gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no such pod on the node.
    NoPod,
    Finished,
    /// Another pod has its name.
    OtherPod,
    /// The pod has a new sandbox with an address of its own.
    Replaced,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPod => "the pod is gone",
            Self::Finished => "the pod is finished",
            Self::OtherPod => "another pod has its name",
            Self::Replaced => "its sandbox was recreated",
        })
    }
}

/// To be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub attachment: Attachment,
    pub pod: PodRef,
    pub addresses: Vec<IpAddr>,
    pub started: u64,
    pub why: Why,
}

pub fn decide(view: &View<'_>, memory: &mut Memory) -> Vec<Candidate> {
    let mut gone = BTreeMap::new();
    let mut candidates = Vec::new();
    for (attachment, holding) in view.holdings {
        let Some(why) = is_gone(view, attachment, holding) else {
            continue;
        };
        let before = memory
            .gone
            .get(attachment)
            .filter(|before| before.started == holding.started);
        let sightings = Sightings {
            started: holding.started,
            since: before.map_or(view.now, |before| before.since),
            times: before.map_or(1, |before| before.times.saturating_add(1)),
        };
        gone.insert(attachment.clone(), sightings);
        if sightings.times >= TIMES && view.now.saturating_sub(sightings.since) >= view.grace {
            candidates.push(Candidate {
                attachment: attachment.clone(),
                pod: holding.pod.clone(),
                addresses: holding.held.iter().map(|held| held.address).collect(),
                started: holding.started,
                why,
            });
        }
    }
    // An owner that was observed again is no longer in it, and starts from zero.
    memory.gone = gone;
    candidates
}

/// `None` when one of the observers knows the owner, or would not know it in any case.
fn is_gone(view: &View<'_>, attachment: &Attachment, holding: &Holding) -> Option<Why> {
    let pod = &holding.pod;
    let is_named = !pod.name.is_empty() && !pod.namespace.is_empty();
    if !is_named || has_sandbox(view, attachment) {
        return None;
    }
    let known = view.pods.get(&(pod.namespace.clone(), pod.name.clone()));
    let over = known.map_or(Some(Why::NoPod), |known| is_over(pod, known));
    over.or_else(|| is_replaced(view, attachment, holding).then_some(Why::Replaced))
}

/// Why an existing pod is not the owner, or no longer needs an address.
pub(super) fn is_over(pod: &PodRef, known: &PodFacts) -> Option<Why> {
    if !pod.uid.is_empty() && !known.uid.is_empty() && pod.uid != known.uid {
        Some(Why::OtherPod)
    } else {
        known.is_finished.then_some(Why::Finished)
    }
}

fn has_sandbox(view: &View<'_>, attachment: &Attachment) -> bool {
    view.sandboxes
        .iter()
        .any(|sandbox| is_of(&attachment.container, &sandbox.id))
}

/// Whether the sandbox is this container's. azure-vnet names a container by the first eight letters
/// of its id and its interface.
pub(crate) fn is_of(container: &str, sandbox: &str) -> bool {
    const SHORT: usize = 8;
    let short = container
        .get(..SHORT)
        .filter(|_| container.as_bytes().get(SHORT) == Some(&b'-'));
    container == sandbox || short.is_some_and(|short| sandbox.starts_with(short))
}

/// Whether the same pod has, at the same interface, a later attachment whose sandbox is there.
fn is_replaced(view: &View<'_>, attachment: &Attachment, holding: &Holding) -> bool {
    let is_later = |other: &Attachment, later: &Holding| {
        other != attachment
            && other.interface == attachment.interface
            && later.pod == holding.pod
            && later.started > holding.started
    };
    let mut others = view.holdings.iter();
    others.any(|(other, later)| is_later(other, later) && has_sandbox(view, other))
}

#[cfg(test)]
mod tests;
