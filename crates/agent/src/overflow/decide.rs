//! What follows from a mark in the release queue. Pure: holdings and sandboxes come in.
//!
//! Why nobody loses an address who still has it:
//! - Every DEL that the mark stands for was started no later than the mark says, and detached what
//!   was attached before. So an ADD that was started after the mark is not considered.
//! - What was attached before is released only when the runtime lists no sandbox of its container,
//!   in any state. A runtime lists a sandbox only once all of it is there. A young attachment's
//!   sandbox may be about to be listed, so it is left to the next pass until the runtime must have
//!   given it up.
//! - The release carries the start of the considered ADD: a later ADD is not undone.
//! - An attachment that names no pod was made without the kubelet. The runtime may not know its
//!   container, alive or not, so it is left to its own DEL and to a CNI GC.
//!
//! Why no release is lost: the mark stays while any older attachment may still turn out to be gone.
//! The DEL of a listed sandbox may just have been left out, and the sandbox may leave the list a
//! moment later, so it is checked again until the mark is old. A stopped sandbox leaves the list
//! when it is removed.

use std::collections::BTreeMap;

use berth_api::agent::Release;
use berth_api::cni::Attachment;

use crate::cri::Sandbox;
use crate::pool::Holding;
use crate::queue::Mark;
use crate::reclaim::is_of;

/// What there is, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub mark: Mark,
    pub holdings: &'a BTreeMap<Attachment, Holding>,
    /// All sandboxes that the runtime lists, in any state, read after the holdings; `None` without
    /// a runtime.
    pub sandboxes: Option<&'a [Sandbox]>,
    /// When the last GC of each network was started.
    pub collected: &'a BTreeMap<String, u64>,
    /// Both in nanoseconds.
    pub now: u64,
    pub grace: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub releases: Vec<Release>,
    /// The number of attachments that may still turn out to be gone. While there are any, the mark
    /// stays.
    pub open: usize,
}

pub fn decide(view: &View<'_>) -> Decision {
    let mut decision = Decision::default();
    // The mark is of an earlier boot, whose clock was ahead of this one: no attachment of it is
    // left.
    if view.mark.started > view.now {
        return decision;
    }
    let is_older = |holding: &Holding| holding.started <= view.mark.started;
    // A GC after the mark has released all that the runtime did not list as valid.
    let is_collected = |holding: &Holding| {
        let at = view.collected.get(&holding.network);
        at.is_some_and(|at| *at > view.mark.started)
    };
    for (attachment, holding) in view.holdings {
        if !is_older(holding) || is_collected(holding) {
            continue;
        }
        match state_of(view, attachment, holding) {
            State::There => {}
            State::Open => decision.open += 1,
            State::Gone => decision.releases.push(Release {
                attachment: attachment.clone(),
                started: holding.started,
            }),
        }
    }
    decision
}

enum State {
    There,
    Open,
    Gone,
}

fn state_of(view: &View<'_>, attachment: &Attachment, holding: &Holding) -> State {
    let Some(sandboxes) = view.sandboxes else {
        return State::Open;
    };
    let is_over = |since: u64| view.now.saturating_sub(since) >= view.grace;
    let is_named = !holding.pod.name.is_empty() && !holding.pod.namespace.is_empty();
    let mut of_it = sandboxes
        .iter()
        .filter(|sandbox| is_of(&attachment.container, &sandbox.id))
        .peekable();
    if of_it.peek().is_none() {
        return match (is_named, is_over(holding.started)) {
            (false, _) => State::There,
            (true, false) => State::Open,
            (true, true) => State::Gone,
        };
    }
    if of_it.any(|sandbox| sandbox.ready) && is_over(view.mark.started) {
        State::There
    } else {
        State::Open
    }
}

#[cfg(test)]
mod tests;
