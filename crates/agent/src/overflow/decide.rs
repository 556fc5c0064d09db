//! What a mark in the release queue comes to. Pure: who has what and who is there comes in.
//!
//! Why nobody loses an address who still has it:
//! - Every DEL that the mark stands for was started no later than the mark says, and what it
//!   detached was attached before. An ADD that was started after the mark is therefore none of its
//!   business, and is not looked at.
//! - What was attached before is released only when the runtime lists no sandbox of its container,
//!   in any state. A runtime lists a sandbox only once all of it is there: one that is young may be
//!   on its way, and is left for the next look until the runtime must have given it up.
//! - The release carries the start of the ADD that was looked at: one that came since is not
//!   undone.
//! - A container that names no pod was started beside the kubelet. The runtime may not know it,
//!   alive or not, so it is left to its own DEL and to the GC of the CNI.
//!
//! Why no release is lost: the mark stays until nothing that is older than it can still be on its
//! way out. A sandbox that is listed may be one whose DEL has just been left out, and goes from the
//! list a moment later; it is looked at again until the mark is old. One that is stopped but listed
//! goes from the list when it is removed.

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
    /// All that the runtime lists, in any state, asked after the holdings; `None` without a
    /// runtime.
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
    /// So many may still turn out to be gone: the mark stays.
    pub open: usize,
}

pub fn decide(view: &View<'_>) -> Decision {
    let mut decision = Decision::default();
    // Of an earlier boot, whose clock had come further: nothing of then is left.
    if view.mark.started > view.now {
        return decision;
    }
    let is_older = |holding: &Holding| holding.started <= view.mark.started;
    // A GC that came after the mark has released what the runtime did not name.
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
