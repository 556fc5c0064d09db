//! Whether this agent is the node's: which cluster the node belongs to, and whether it is this
//! machine.

use std::future::pending;
use std::time::Duration;

use berth_api::names::NAMESPACE;
use berth_kit::backoff::{Backoff, Exponential};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::warn;

use crate::follow::Listed;
use crate::machine::{Machine, Verdict};

/// Two kubelets that report for one Node each write every 10 seconds what the other has
/// overwritten. After another machine was observed there, the Node must be this machine's for this
/// long.
const SETTLE: Duration = Duration::from_secs(30);

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

/// Used if the namespace can't be read: then nodes of all clusters share one set of names.
const UNKNOWN: &str = "unknown";

/// The cluster's id: the UID of the namespace kube-system, as for the controllers.
pub async fn cluster(client: &Client, random: StdRng) -> String {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut backoff = Backoff::new(BACKOFF, random);
    loop {
        match api.get(NAMESPACE).await {
            Ok(namespace) => {
                return namespace.metadata.uid.unwrap_or_else(|| UNKNOWN.to_owned());
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                let error = status.message;
                warn!(
                    %error,
                    "cannot read the namespace kube-system; all agents on this machine need \
                     different node names"
                );
                return UNKNOWN.to_owned();
            }
            Err(error) => {
                let wait = backoff.fail();
                warn!(%error, "cannot read the namespace kube-system; retrying in {wait:?}");
                sleep(wait).await;
            }
        }
    }
}

/// The watched Node, and the machine that it must be.
#[derive(Debug)]
pub struct Place<'a> {
    pub node: &'a str,
    pub machine: &'a Machine,
    pub listed: watch::Receiver<Listed>,
    /// Another machine was observed there.
    pub was_foreign: bool,
}

impl Place<'_> {
    /// Returns once the Node is this machine. Until then it calls `report` with the reason.
    pub async fn wait_until_same(&mut self, mut report: impl FnMut(Verdict, &str)) {
        let mut since = None;
        let mut reported = String::new();
        loop {
            let now = Instant::now();
            let listed = self.listed.borrow_and_update().clone();
            let Some((verdict, why)) = self.check_machine(&listed) else {
                since = None;
                self.next().await;
                continue;
            };
            if verdict == Verdict::Same {
                let settle = if self.was_foreign { SETTLE } else { Duration::ZERO };
                let due = *since.get_or_insert(now) + settle;
                if now >= due {
                    self.was_foreign = false;
                    return;
                }
                let _ = timeout_at(due, self.next()).await;
                continue;
            }
            since = None;
            self.was_foreign |= verdict == Verdict::Other;
            if why != reported {
                report(verdict, &why);
                reported = why;
            }
            self.next().await;
        }
    }

    /// Returns when the Node is another machine's, or another boot's. A deleted Node does not
    /// count: its pods still run here.
    pub async fn wait_until_other(&mut self) {
        loop {
            self.next().await;
            if let Listed::There(node) = &*self.listed.borrow_and_update()
                && self.machine.compare(&node.machine) != Verdict::Same
            {
                self.was_foreign = true;
                return;
            }
        }
    }

    /// `None` until the Node was listed.
    fn check_machine(&self, listed: &Listed) -> Option<(Verdict, String)> {
        let (name, machine) = (self.node, self.machine);
        Some(match listed {
            Listed::NotYet => return None,
            // No other machine claims it. The Node may have been deleted while its pods run on.
            Listed::Missing => (Verdict::Same, String::new()),
            Listed::There(node) => match machine.compare(&node.machine) {
                Verdict::Same => (Verdict::Same, String::new()),
                Verdict::Rebooted => {
                    let why = format!(
                        "the Node {name} shows an earlier boot of this machine; its \
                         kubelet reports this one when it is up"
                    );
                    (Verdict::Rebooted, why)
                }
                Verdict::Other => {
                    let why = format!(
                        "the Node {name} is another machine: it has {}, and this one \
                         has {machine}; stop this agent, or give this machine's kubelet \
                         and agent another name",
                        node.machine
                    );
                    (Verdict::Other, why)
                }
            },
        })
    }

    async fn next(&mut self) {
        if self.listed.changed().await.is_err() {
            // The watch has ended, so the agent is about to end.
            pending::<()>().await;
        }
    }
}
