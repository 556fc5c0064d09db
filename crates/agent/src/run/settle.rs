//! Asking the container runtime who has what, at the start and while that is not certain.

use std::time::Duration;

use berth_api::cni::Attachment;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::agent::{Agent, Witnessed};
use crate::cri::{Cri, CriError};

/// While it is not certain who has what, it is looked at so often.
const LOOK: Duration = Duration::from_secs(2);
/// What a kubelet calls the interface of every pod.
const INTERFACE: &str = "eth0";

/// Before the first answer. A journal that can be trusted needs no runtime; without one, nothing is answered until the runtime was asked.
pub async fn learn(agent: &Agent, cri: Option<&Cri>, trusted: bool) {
    let Some(cri) = cri else {
        return;
    };
    loop {
        match adopt(agent, cri).await {
            Ok(()) => return,
            Err(error) if trusted => {
                warn!(%error, "the sandboxes of before are not known; the journal is");
                return;
            }
            Err(error) => {
                warn!(%error, "the journal can't be trusted, and the sandboxes are not known: waiting for them")
            }
        }
        sleep(LOOK).await;
    }
}

/// Until everybody who could have an address has been seen: an ADD that was answered just before may belong to a sandbox that is not listed yet.
pub async fn until_certain(agent: Agent, cri: Option<Cri>, grace: Duration) {
    warn!(
        node = agent.node(),
        ?grace,
        "what the node had is given out only when it is certain that nobody has it"
    );
    let start = Instant::now();
    while agent.is_in_doubt() {
        let mut over = start.elapsed() >= grace;
        if let Some(cri) = &cri
            && let Err(error) = adopt(&agent, cri).await
        {
            warn!(%error, "the sandboxes are not known");
            over = false;
        }
        agent.believe(over);
        sleep(LOOK).await;
    }
    info!(node = agent.node(), "it is certain again who has what");
}

async fn adopt(agent: &Agent, cri: &Cri) -> Result<(), CriError> {
    let mut witnessed = Vec::new();
    let known = agent.holdings();
    for sandbox in cri.sandboxes().await? {
        let Ok(attachment) = Attachment::new(&sandbox.id, INTERFACE) else {
            continue;
        };
        let addresses = if known.contains_key(&attachment) {
            Vec::new()
        } else {
            cri.addresses(&sandbox.id).await?
        };
        witnessed.push(Witnessed {
            attachment,
            pod: sandbox.pod,
            addresses,
        });
    }
    if let Err(refusal) = agent.adopt(&witnessed) {
        warn!(%refusal, "what sandboxes have could not be kept");
    }
    Ok(())
}
