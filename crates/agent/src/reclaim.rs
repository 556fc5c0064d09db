//! Takes back the addresses of owners that are gone without a DEL.
//!
//! Two observers must agree. The container runtime lists no sandbox of the attachment's container,
//! not even a stopped one. And the API server no longer has the pod on the node, or it is finished,
//! or another pod has its name, or the pod has been attached again. Both must say so each time they
//! are asked during the whole grace period, and the API server once more at its end. An observer
//! that can't be asked says nothing.
//!
//! An attachment that names no pod is left alone: neither observer knows containers that were
//! started without the kubelet, dead or alive. DEL and a CNI GC release those.

mod decide;

use std::time::Duration;

use berth_api::ObservedPod;
use berth_api::agent::{Refusal, Release};
use berth_api::cni::PodRef;
use berth_kit::events::{Event, Recorder};
use kube::runtime::events::EventType;
use kube::{Api, Client};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

pub(crate) use decide::is_of;
pub use decide::{Candidate, Memory, View, Why, decide};

use crate::agent::Agent;
use crate::clock::nanoseconds;
use crate::cluster::PodFacts;
use crate::cri::{Cri, CriError};
use crate::node::reference;

/// The default time between two passes.
const PERIOD: Duration = Duration::from_secs(30);
/// The most pods about which one pass asks the API server; the rest waits for the next pass.
const MAX: usize = 64;
/// The most owners that an event names.
const NAMED: usize = 5;

#[derive(Debug, thiserror::Error)]
pub enum ReclaimError {
    #[error(transparent)]
    Runtime(#[from] CriError),
    #[error("the API server does not say whether pod {pod} is there: {error}")]
    ApiServer { pod: String, error: Box<kube::Error> },
    #[error("what no pod has any more can't be released: {0}")]
    Refused(#[from] Refusal),
}

/// Looks for owners that are gone.
#[derive(Debug)]
pub struct Reclaim {
    agent: Agent,
    cri: Cri,
    grace: Duration,
    period: Duration,
    memory: Memory,
}

impl Reclaim {
    pub fn new(agent: Agent, cri: Cri, grace: Duration) -> Self {
        Self {
            agent,
            cri,
            grace,
            period: PERIOD,
            memory: Memory::default(),
        }
    }

    /// Sets the time between two passes.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Runs until it is told to stop.
    pub async fn run(mut self, client: Client, events: Recorder, stopping: CancellationToken) {
        let running = async {
            let mut ticks = tokio::time::interval(self.period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                match self.pass(&client).await {
                    Ok(taken) if taken.is_empty() => {}
                    Ok(taken) => events.record(&reference(self.agent.node()), event(&taken)),
                    Err(error) => {
                        warn!(%error, "cannot reclaim addresses; retrying at the next pass");
                    }
                }
            }
        };
        stopping.run_until_cancelled(running).await;
    }

    /// Asks both observers, and takes back the addresses that both have reported for long enough.
    pub async fn pass(&mut self, client: &Client) -> Result<Vec<Candidate>, ReclaimError> {
        let Some(pods) = self.agent.pods() else {
            debug!("the node's pods are not listed yet; reclaiming nothing");
            return Ok(Vec::new());
        };
        // Holdings first, then sandboxes: an ADD in between is not mistaken for one whose sandbox
        // is gone.
        let holdings = self.agent.holdings();
        let sandboxes = self.cri.sandboxes().await?;
        let view = View {
            holdings: &holdings,
            sandboxes: &sandboxes,
            pods: &pods,
            now: self.agent.now(),
            grace: nanoseconds(self.grace),
        };
        let candidates = decide(&view, &mut self.memory);
        let mut confirmed = Vec::new();
        let mut asked = 0;
        let mut answered = 0;
        let mut failed = None;
        for candidate in candidates {
            if candidate.why == Why::Replaced {
                confirmed.push(candidate);
                continue;
            }
            asked += 1;
            if asked > MAX {
                break;
            }
            match is_gone(client, &candidate.pod, self.agent.node()).await {
                Ok(is_gone) => {
                    answered += 1;
                    confirmed.extend(is_gone.then_some(candidate));
                }
                // An error about one pod does not stop the pass, as long as some pods are answered
                // for.
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            if answered == 0 {
                return Err(error);
            }
            warn!(%error, "cannot check whether a pod is gone; its addresses stay assigned");
        }
        // The release carries the start of the known ADD: a later ADD is not undone.
        let release = |candidate: &Candidate| Release {
            attachment: candidate.attachment.clone(),
            started: candidate.started,
        };
        let releases: Vec<Release> = confirmed.iter().map(release).collect();
        if releases.is_empty() {
            return Ok(confirmed);
        }
        let done = self.agent.release_all(&releases)?;
        self.agent.metrics().reclaimed(done.released);
        for Candidate {
            attachment,
            pod,
            why,
            addresses,
            ..
        } in &confirmed
        {
            info!(%attachment, pod = %shown(pod), ?addresses, %why, "sandbox is gone without a \
                                                                     DEL; addresses reclaimed");
        }
        Ok(confirmed)
    }
}

/// Asks the API server itself, because the watch of pods may be late.
async fn is_gone(client: &Client, pod: &PodRef, node: &str) -> Result<bool, ReclaimError> {
    let api: Api<ObservedPod> = Api::namespaced(client.clone(), &pod.namespace);
    let found = api.get_opt(&pod.name).await.map_err(|error| ReclaimError::ApiServer {
        pod: shown(pod),
        error: Box::new(error),
    })?;
    let Some(found) = found else {
        return Ok(true);
    };
    // A pod of the same name may have been created on another node.
    let is_here = found.node() == Some(node);
    Ok(!is_here || decide::is_over(pod, &PodFacts::of(&found)).is_some())
}

fn shown(pod: &PodRef) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn event(taken: &[Candidate]) -> Event {
    let name = |candidate: &Candidate| {
        let addresses: Vec<String> = candidate.addresses.iter().map(ToString::to_string).collect();
        format!(
            "{} of pod {} ({})",
            addresses.join(", "),
            shown(&candidate.pod),
            candidate.why
        )
    };
    let mut named: Vec<String> = taken.iter().take(NAMED).map(name).collect();
    if taken.len() > NAMED {
        named.push(format!("and {} more", taken.len() - NAMED));
    }
    Event {
        type_: EventType::Warning,
        reason: "AddressReclaimed",
        action: "Reclaim",
        note: format!(
            "Taken back, because nobody gave it back and nobody has it: {}",
            named.join("; ")
        ),
        related: None,
    }
}
