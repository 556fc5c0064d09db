//! The loop that keeps or waits for the lease: get, decide, write, wait.

use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, debug, info, info_span, warn};

use crate::api_error::told;

use super::{
    ElectionMetrics, Leadership, Timing,
    decide::{Decision, Observation, decide, first, held, released},
    term::Standing,
};

/// One candidate for one Lease.
#[derive(Debug)]
pub struct LeaderElection {
    api: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    timing: Timing,
    standing: watch::Sender<Standing>,
    leading: Gauge,
    /// The Lease as we last read it, and when we saw it change.
    observed: Option<Observation>,
    /// The Lease as our last write left it, so that a renewal needs no read. `None` after a
    /// failure.
    ours: Option<Lease>,
    /// The leader that the log named last.
    leader: Option<String>,
}

impl LeaderElection {
    /// `identity` must be unique to this process, for example the pod's name and a random suffix: a
    /// process that finds its identity in the Lease takes the Lease for its own.
    pub fn new(client: Client, namespace: &str, name: &str, identity: impl Into<String>) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.into(),
            timing: Timing::default(),
            standing: watch::Sender::new(Standing::default()),
            leading: Gauge::default(),
            observed: None,
            ours: None,
            leader: None,
        }
    }

    pub fn with_timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    pub fn with_metrics(self, metrics: &ElectionMetrics) -> Self {
        let leading = metrics.leading(&self.name);
        Self { leading, ..self }
    }

    pub fn leadership(&self) -> Leadership {
        Leadership::new(self.standing.subscribe())
    }

    /// Stands for election until `stop`. Then no new term begins, and the current one is over. The
    /// lease is released once every holder of the term has dropped it. If one holds the term until
    /// the renew deadline, the lease is left to expire.
    pub fn run(mut self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let span = info_span!("lease", namespace = self.namespace, name = self.name);
            async {
                // An attempt is never cut short by `stop`: its write may have arrived, and then
                // there is a lease to release.
                while !stop.is_cancelled() {
                    let next = self.attempt().await;
                    tokio::select! {
                        () = sleep_until(next) => {}
                        () = stop.cancelled() => {}
                    }
                }
                self.release().await;
            }
            .instrument(span)
            .await;
        })
    }

    /// One attempt to get or keep the lease. A leader's attempt ends no later than its time as
    /// leader. Returns when to try again.
    async fn attempt(&mut self) -> Instant {
        let started = Instant::now();
        if !self.leads() {
            self.step_down("the lease was not renewed in time");
        }
        let retry = started + self.timing.retry_period;
        let deadline = self.deadline(started);
        let outcome = timeout_at(deadline, self.get_decide_write()).await;
        match outcome {
            Ok(Ok(Decision::Renew | Decision::Take)) => return retry,
            Ok(Ok(Decision::Wait(ends))) => {
                // If we led, somebody has overwritten the Lease.
                self.step_down("another process holds the lease");
                return ends.min(retry);
            }
            Ok(Err(error)) => {
                warn!(error = told(&error), "cannot acquire or renew the lease; retrying");
            }
            Err(_) => warn!("cannot acquire or renew the lease: no answer in time; retrying"),
        }
        // A leader tries again no later than its time ends: that attempt then reports the loss.
        let until = self.standing.borrow().until;
        until.map_or(retry, |until| until.min(retry))
    }

    async fn get_decide_write(&mut self) -> Result<Decision, kube::Error> {
        if let Some(lease) = self.ours.take() {
            match self.hold(lease).await {
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                    debug!("lease was changed or deleted by others; reading it again")
                }
                renewed => return renewed.map(|()| Decision::Renew),
            }
        }
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            return self.create().await.map(|()| Decision::Take);
        };
        let now = Instant::now();
        let spec = lease.spec.clone().unwrap_or_default();
        let observed = Observation::update(&mut self.observed, &spec, now);
        let decision = decide(observed, &self.identity, self.timing.lease_duration, now);
        match decision {
            Decision::Wait(_) => self.log_leader(spec.holder_identity),
            Decision::Renew | Decision::Take => self.hold(lease).await?,
        }
        Ok(decision)
    }

    /// Logs each leader once, so that a waiting process does not look like one that hangs.
    fn log_leader(&mut self, holder: Option<String>) {
        if let Some(holder) = holder.filter(|holder| self.leader.as_ref() != Some(holder)) {
            info!(identity = self.identity, holder, "waiting: another process leads");
            self.leader = Some(holder);
        }
    }

    async fn create(&mut self) -> Result<(), kube::Error> {
        let sent = Instant::now();
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                namespace: Some(self.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(first(&self.identity, self.timing.lease_seconds(), Timestamp::now())),
        };
        let written = self.api.create(&PostParams::default(), &lease).await?;
        self.lead(written, sent);
        Ok(())
    }

    /// Makes us the holder of exactly this `lease`: the write carries its resourceVersion.
    async fn hold(&mut self, mut lease: Lease) -> Result<(), kube::Error> {
        let sent = Instant::now();
        let before = lease.spec.take().unwrap_or_default();
        let seconds = self.timing.lease_seconds();
        lease.spec = Some(held(&before, &self.identity, seconds, Timestamp::now()));
        let written = self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        self.lead(written, sent);
        Ok(())
    }

    /// Time counts from `sent`, not from the answer: others may have observed our write at any time
    /// since.
    fn lead(&mut self, written: Lease, sent: Instant) {
        let until = sent + self.timing.renew_deadline;
        let renewed = self.leads();
        if !renewed {
            let transitions = written.spec.as_ref().and_then(|spec| spec.lease_transitions);
            info!(identity = self.identity, transitions, "lease acquired; leading");
            self.leader = None;
        }
        self.ours = Some(written);
        self.leading.set(1);
        self.standing.send_modify(|standing| {
            standing.until = Some(until);
            if !renewed {
                standing.term += 1;
                standing.held = TaskTracker::new();
            }
        });
    }

    fn leads(&self) -> bool {
        self.standing.borrow().leads(Instant::now())
    }

    /// Until when to wait for an attempt that starts now.
    fn deadline(&self, now: Instant) -> Instant {
        let until = self.standing.borrow().until;
        until
            .filter(|_| self.leads())
            .unwrap_or(now + self.timing.renew_deadline)
    }

    fn step_down(&mut self, why: &str) {
        self.leading.set(0);
        let led = self
            .standing
            .send_if_modified(|standing| standing.until.take().is_some());
        if led {
            warn!(identity = self.identity, "lease lost; stepping down: {why}");
        }
    }

    /// Gives the lease up if it is ours, after everything that works as leader has stopped.
    async fn release(&mut self) {
        if !self.leads() {
            return;
        }
        let deadline = self.deadline(Instant::now());
        let held = self.standing.borrow().held.clone();
        self.leading.set(0);
        self.standing.send_modify(|standing| standing.until = None);
        held.close();
        let outcome = timeout_at(deadline, async {
            held.wait().await;
            self.write_release().await
        })
        .await;
        match outcome {
            Ok(Ok(())) => info!(identity = self.identity, "lease released"),
            Ok(Err(error)) => warn!(%error, "cannot release the lease; leaving it to expire"),
            Err(_) => warn!("cannot release the lease in time; leaving it to expire"),
        }
    }

    /// The Lease is read again: the last renewal may have been written without our knowing, or
    /// somebody may have labelled it.
    async fn write_release(&self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            return Ok(());
        };
        let before = lease.spec.take().unwrap_or_default();
        if before.holder_identity.as_ref() == Some(&self.identity) {
            lease.spec = Some(released(&before, Timestamp::now()));
            self.api.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }
}
