//! Whose owner is gone. Pure: what the observers say comes in, with the time.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use berth_api::cni::{Attachment, PodRef};

use crate::cluster::{PodFacts, PodKey};
use crate::cri::Sandbox;
use crate::pool::Holding;

/// However long the grace period is, they must have said it so often.
const TIMES: u32 = 3;

/// What there is, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub holdings: &'a BTreeMap<Attachment, Holding>,
    /// All that the runtime lists, in any state.
    pub sandboxes: &'a [Sandbox],
    /// All pods of the node.
    pub pods: &'a BTreeMap<PodKey, PodFacts>,
    /// Both in nanoseconds.
    pub now: u64,
    pub grace: u64,
}

/// Since when, and how often, both observers have said of an attachment that its owner is gone.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    gone: BTreeMap<Attachment, Sightings>,
}

#[derive(Clone, Copy, Debug)]
struct Sightings {
    /// Of the ADD: a later one is another owner.
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
    /// One of the same name took its place.
    OtherPod,
    /// Its sandbox was made anew, and that one has an address of its own.
    Replaced,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPod => "the pod is gone",
            Self::Finished => "the pod is finished",
            Self::OtherPod => "another pod has its name",
            Self::Replaced => "its sandbox was made anew",
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
    // Whoever was seen to be there is not in it any more, and begins anew.
    memory.gone = gone;
    candidates
}

/// `None` when one of the observers knows the owner, or can't know it.
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

/// Why a pod that is there is not the owner, or needs nothing any more.
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

/// azure-vnet knows a container by the first eight letters of its id and the name of its interface.
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
