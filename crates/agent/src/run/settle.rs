//! Asking the container runtime who has what, at the start and while that is not certain.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use berth_api::cni::Attachment;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::agent::{Agent, Observed};
use crate::cri::{Cri, CriError, INTERFACE};
use crate::host_ends;

/// While it is not certain who has what, it is looked at so often.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Before the first answer. A journal that can be trusted needs no runtime; without one, nothing is
/// answered until the runtime was asked.
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
                warn!(%error, "the journal can't be trusted, and the sandboxes are not known: \
                               waiting for them")
            }
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// Until everybody who could have an address has been seen: an ADD that was answered just before
/// may belong to a sandbox that is not listed yet.
pub async fn until_certain(agent: Agent, cri: Option<Cri>, grace: Duration) {
    warn!(
        node = agent.node(),
        ?grace,
        "what the node had is given out only when it is certain that nobody has it"
    );
    let start = Instant::now();
    while agent.is_quarantined() {
        let mut over = start.elapsed() >= grace;
        if let Some(cri) = &cri
            && let Err(error) = adopt(&agent, cri).await
        {
            warn!(%error, "the sandboxes are not known");
            over = false;
        }
        agent.recover(over);
        sleep(CHECK_INTERVAL).await;
    }
    info!(node = agent.node(), "it is certain again who has what");
}

/// Every interface of every sandbox: the one that the CRI speaks of, those that the runtime tells
/// beyond it, and those whose ends on the host name their attachment.
async fn adopt(agent: &Agent, cri: &Cri) -> Result<(), CriError> {
    let known = agent.holdings();
    let quarantined = agent.is_quarantined();
    let mut observed: BTreeMap<Attachment, Observed> = BTreeMap::new();
    let mut pods = BTreeMap::new();
    for sandbox in cri.sandboxes().await? {
        let Ok(attachment) = Attachment::new(&sandbox.id, INTERFACE) else {
            continue;
        };
        // Of one that a trusted journal knows, it knows all interfaces.
        let mut found = if known.contains_key(&attachment) && !quarantined {
            BTreeMap::new()
        } else {
            cri.addresses(&sandbox.id).await?
        };
        // It is there, whether its addresses are told or not.
        found.entry(INTERFACE.to_owned()).or_default();
        for (interface, addresses) in found {
            let Ok(attachment) = Attachment::new(&sandbox.id, &interface) else {
                continue;
            };
            let pod = sandbox.pod.clone();
            let one = Observed {
                attachment: attachment.clone(),
                pod,
                addresses,
            };
            observed.insert(attachment, one);
        }
        pods.insert(sandbox.id, sandbox.pod);
    }
    // A journal that is trusted says which of them have given their addresses back.
    if quarantined {
        for (attachment, addresses) in host_ends().await {
            let pod = pods.get(&attachment.container).cloned().unwrap_or_default();
            let one = observed.entry(attachment.clone()).or_insert_with(|| Observed {
                attachment,
                pod,
                addresses: Vec::new(),
            });
            let others = addresses.into_iter().filter(|address| !one.addresses.contains(address));
            let others: Vec<_> = others.collect();
            one.addresses.extend(others);
        }
    }
    let observed: Vec<Observed> = observed.into_values().collect();
    if let Err(refusal) = agent.adopt(&observed) {
        warn!(%refusal, "what sandboxes have could not be kept");
    }
    Ok(())
}

async fn host_ends() -> BTreeMap<Attachment, Vec<IpAddr>> {
    let observed = tokio::task::spawn_blocking(host_ends::observed).await;
    let observed = observed.unwrap_or_else(|error| Err(io::Error::other(error)));
    observed.unwrap_or_else(|error| {
        warn!(%error, "the host's ends of pods' interfaces can't be read; only the runtime is asked");
        BTreeMap::new()
    })
}
