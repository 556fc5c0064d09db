//! Asks the container runtime which sandbox has which address: at the start, and during a
//! quarantine.

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

/// The time between two checks during a quarantine.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Runs before the first call is answered. A trusted journal needs no runtime. With an untrusted
/// one, no call is answered until the runtime has answered.
pub async fn adopt_at_start(agent: &Agent, cri: Option<&Cri>, trusted: bool) {
    let Some(cri) = cri else {
        return;
    };
    loop {
        match adopt(agent, cri).await {
            Ok(()) => return,
            Err(error) if trusted => {
                warn!(%error, "cannot read sandboxes from the runtime; relying on the journal \
                               alone");
                return;
            }
            Err(error) => {
                warn!(%error, "cannot read sandboxes from the runtime while quarantined; not \
                               serving until that works")
            }
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// Runs until every possible holder of an address has been observed: an ADD that was answered just
/// before may belong to a sandbox that is not listed yet.
pub async fn until_certain(agent: Agent, cri: Option<Cri>, grace: Duration) {
    warn!(
        node = agent.node(),
        ?grace,
        "agent is quarantined; not assigning addresses that pods may still have"
    );
    let start = Instant::now();
    while agent.is_quarantined() {
        let mut over = start.elapsed() >= grace;
        if let Some(cri) = &cri
            && let Err(error) = adopt(&agent, cri).await
        {
            warn!(%error, "cannot read sandboxes from the runtime; retrying, still quarantined");
            over = false;
        }
        agent.recover(over);
        sleep(CHECK_INTERVAL).await;
    }
    info!(
        node = agent.node(),
        "quarantine ended; addresses without an owner can be assigned"
    );
}

/// Adopts every interface of every sandbox: the one that the CRI reports, those that the runtime
/// reports in addition, and those whose host end names their attachment.
async fn adopt(agent: &Agent, cri: &Cri) -> Result<(), CriError> {
    let known = agent.holdings();
    let quarantined = agent.is_quarantined();
    let mut observed: BTreeMap<Attachment, Observed> = BTreeMap::new();
    let mut pods = BTreeMap::new();
    for sandbox in cri.sandboxes().await? {
        let Ok(attachment) = Attachment::new(&sandbox.id, INTERFACE) else {
            continue;
        };
        // A trusted journal that knows a sandbox knows all of its interfaces.
        let mut found = if known.contains_key(&attachment) && !quarantined {
            BTreeMap::new()
        } else {
            cri.addresses(&sandbox.id).await?
        };
        // The sandbox is alive, even if its addresses are not reported.
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
    // Not with a trusted journal, which says which of them have released their addresses.
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
        warn!(%refusal, "cannot record the addresses of all sandboxes in the journal");
    }
    Ok(())
}

async fn host_ends() -> BTreeMap<Attachment, Vec<IpAddr>> {
    let observed = tokio::task::spawn_blocking(host_ends::observed).await;
    let observed = observed.unwrap_or_else(|error| Err(io::Error::other(error)));
    observed.unwrap_or_else(|error| {
        warn!(%error, "cannot read the host ends of pod interfaces; relying on the runtime alone");
        BTreeMap::new()
    })
}
