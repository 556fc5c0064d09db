//! What plugins ask for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use berth_api::agent::{Check, Done, Gc, Granted, Reason, Refusal, Release, Request};
use berth_api::cni::{Attachment, InvalidAttachment, PodRef};
use tokio::time::{Instant, timeout_at};

use super::{Agent, MAX_COLLECTED, MAX_REFUSED_ADDS};
use crate::pool::Plan;

/// The longest time that an ADD waits for an address.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// One of each family is usual.
const MAX_DESIRED: usize = 16;

impl Agent {
    /// An ADD. When no address is free, it waits as long as the request allows.
    pub async fn request(&self, request: Request) -> Result<Granted, Refusal> {
        let begun = Instant::now();
        let outcome = self.request_in_time(&request, begun).await;
        self.metrics().call("add", &outcome, begun.elapsed());
        outcome
    }

    async fn request_in_time(&self, request: &Request, begun: Instant) -> Result<Granted, Refusal> {
        validate(&request.attachment)?;
        validate_pod(&request.pod)?;
        validate_network(&request.network)?;
        validate_desired(&request.desired)?;
        let wait = Duration::from_millis(request.wait_ms).min(LONGEST_WAIT);
        let mut place = None;
        loop {
            let freed = self.shared.came_free.notified();
            tokio::pin!(freed);
            // From here on, no address that comes free is missed.
            freed.as_mut().enable();
            let refusal = match self.try_request(request) {
                Err(refusal) if refusal.reason == Reason::PoolEmpty => refusal,
                other => return other,
            };
            if place.is_none() {
                place = self.shared.waiting.try_acquire().ok();
            }
            let in_time = place.is_some() && timeout_at(begun + wait, freed).await.is_ok();
            if !in_time {
                return Err(refusal);
            }
        }
    }

    fn try_request(&self, request: &Request) -> Result<Granted, Refusal> {
        let now = self.now();
        let mut inside = self.shared.inside.lock();
        let held = match inside.pool.plan_request(request, now) {
            Ok(Plan::Existing(held)) => held,
            Ok(Plan::New(held, entry)) => {
                inside.commit(&[entry], now)?;
                inside.refused_adds.remove(&request.attachment);
                self.changed(&mut inside);
                held
            }
            Err(refusal) => {
                if refusal.reason == Reason::PoolEmpty {
                    inside.starved.get_or_insert(now);
                    let known = inside.refused_adds.len() < MAX_REFUSED_ADDS;
                    if known
                        && inside.refused_adds.insert(request.attachment.clone(), now).is_none()
                    {
                        self.shared.changed.notify_one();
                    }
                }
                return Err(refusal);
            }
        };
        let addresses = inside.pool.granted(&held);
        Ok(Granted { addresses })
    }

    /// A DEL. It is recorded even when the attachment has no address: a late ADD must not take one
    /// that nobody would release.
    pub fn release(&self, release: &Release) -> Result<Done, Refusal> {
        let begun = Instant::now();
        let outcome = validate(&release.attachment)
            .and_then(|()| self.release_all(std::slice::from_ref(release)));
        self.metrics().call("del", &outcome, begun.elapsed());
        outcome
    }

    /// Several in one write: all of them, or none.
    pub fn release_all(&self, releases: &[Release]) -> Result<Done, Refusal> {
        let now = self.now();
        let mut inside = self.shared.inside.lock();
        let entries: Vec<_> = releases
            .iter()
            .filter_map(|release| inside.pool.plan_release(release, now))
            .collect();
        let released = inside.commit(&entries, now)?;
        for release in releases {
            inside.refused_adds.remove(&release.attachment);
        }
        self.changed(&mut inside);
        Ok(Done { released })
    }

    /// Whether the attachment has exactly these addresses.
    pub fn check(&self, check: &Check) -> Result<Done, Refusal> {
        let begun = Instant::now();
        let outcome = validate(&check.attachment).and_then(|()| self.compare(check));
        self.metrics().call("check", &outcome, begun.elapsed());
        outcome
    }

    fn compare(&self, check: &Check) -> Result<Done, Refusal> {
        let inside = self.shared.inside.lock();
        let Some(holding) = inside.pool.holdings().get(&check.attachment) else {
            let message =
                format!("{} has no address: detach it and attach it again", check.attachment);
            return Err(Refusal::new(Reason::Mismatch, message));
        };
        let mut has: Vec<IpAddr> = holding.held.iter().map(|held| held.address).collect();
        let mut told = check.addresses.clone();
        has.sort_unstable();
        told.sort_unstable();
        if has != told {
            let message = format!(
                "{} has {has:?} and not {told:?}: detach it and attach it again",
                check.attachment
            );
            return Err(Refusal::new(Reason::Mismatch, message));
        }
        Ok(Done::default())
    }

    /// A GC: releases all attachments of the network that are not in the valid list.
    pub fn gc(&self, gc: &Gc) -> Result<Done, Refusal> {
        let begun = Instant::now();
        let outcome = self.collect(gc);
        self.metrics().call("gc", &outcome, begun.elapsed());
        outcome
    }

    fn collect(&self, gc: &Gc) -> Result<Done, Refusal> {
        validate_network(&gc.network)?;
        if gc.network.is_empty() {
            return Err(invalid(
                "network is empty: name the network whose attachments are valid",
            ));
        }
        gc.valid.iter().try_for_each(validate)?;
        let now = self.now();
        let mut inside = self.shared.inside.lock();
        let entries = inside.pool.plan_gc(gc, now);
        let released = inside.commit(&entries, now)?;
        let known = inside.collected.contains_key(&gc.network);
        if known || inside.collected.len() < MAX_COLLECTED {
            let started = if gc.started == 0 { now } else { gc.started };
            inside.collected.insert(gc.network.clone(), started);
        }
        self.shared.collection.notify_one();
        self.changed(&mut inside);
        Ok(Done { released })
    }
}

fn validate(attachment: &Attachment) -> Result<(), Refusal> {
    attachment.validate().map_err(|error| {
        let field = match error {
            InvalidAttachment::Container(_) => "attachment.container",
            InvalidAttachment::Interface(_) => "attachment.interface",
        };
        invalid(&format!("{field} {error}"))
    })
}

fn validate_pod(pod: &PodRef) -> Result<(), Refusal> {
    let wrong =
        || invalid("pod has a name that is none in Kubernetes: use letters, digits, '-' and '.'");
    pod.is_valid().then_some(()).ok_or_else(wrong)
}

fn validate_desired(desired: &[IpAddr]) -> Result<(), Refusal> {
    let different: BTreeSet<&IpAddr> = desired.iter().collect();
    if desired.len() > MAX_DESIRED {
        return Err(invalid(&format!(
            "desired has more than {MAX_DESIRED} addresses: name fewer"
        )));
    }
    let wrong = || invalid("desired has an address twice: name each once");
    (different.len() == desired.len()).then_some(()).ok_or_else(wrong)
}

/// A network name as the CNI specification allows it, or an empty one.
fn validate_network(network: &str) -> Result<(), Refusal> {
    let named = network.is_empty() || (network.len() <= 253 && berth_api::cni::is_name(network));
    let wrong = || {
        invalid(&format!(
            "network is {network:?}: use letters, digits, '_', '.' and '-', and begin \
             with a letter or a digit"
        ))
    };
    named.then_some(()).ok_or_else(wrong)
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(Reason::Invalid, message)
}
