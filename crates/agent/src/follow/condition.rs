//! Keeps the condition of the agent's own Node in line with the pool.

use std::pin::pin;
use std::time::Duration;

use berth_api::ObservedNode;
use berth_api::names::field_manager;
use berth_kit::backoff::Backoff;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use rand::rngs::StdRng;
use serde_json::json;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::{BACKOFF, RESYNC_INTERVAL, TIMEOUT};
use crate::agent::Agent;
use crate::availability::{CONDITION, ObservedCondition, Reason, View, decide, status_of};

/// A burst of pods leads to one decision.
const SETTLE: Duration = Duration::from_secs(2);

/// For as long as the agent serves.
pub async fn condition(client: Client, agent: Agent, random: StdRng) {
    let api: Api<ObservedNode> = Api::all(client);
    let mut backoff = Backoff::new(BACKOFF, random);
    let mut seen = None;
    loop {
        // From here on no change is missed.
        let mut changed = pin!(agent.changes());
        changed.as_mut().enable();
        let view = agent.availability();
        let node = agent.own_node();
        let observed = node.as_ref().and_then(|node| node.condition.clone());
        let reason = node.and_then(|_| decide(observed.as_ref(), &view));
        // The same decision must be made twice in a row.
        if let Some(reason) = reason.filter(|reason| seen == Some(*reason)) {
            match timeout(TIMEOUT, write(&api, agent.node(), reason, &view, observed.as_ref()))
                .await
            {
                Ok(Ok(written)) => {
                    backoff.succeed();
                    let reason = reason.as_str();
                    info!(node = agent.node(), reason, %view, "condition {CONDITION} written");
                    agent.apply_node(&written);
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                    debug!(node = agent.node(), "there is no Node to write the condition to");
                }
                Ok(Err(error)) => {
                    let wait = backoff.fail();
                    warn!(%error, "cannot write condition {CONDITION}; retrying in {wait:?}");
                    sleep(wait).await;
                    continue;
                }
                Err(_) => {
                    warn!("no answer to the write of condition {CONDITION}; retrying");
                    continue;
                }
            }
            seen = None;
        } else {
            seen = reason;
        }
        sleep(SETTLE).await;
        if seen.is_none() {
            let _ = timeout(RESYNC_INTERVAL, changed).await;
        }
    }
}

async fn write(
    api: &Api<ObservedNode>,
    node: &str,
    reason: Reason,
    view: &View,
    observed: Option<&ObservedCondition>,
) -> kube::Result<ObservedNode> {
    let now = Time(Timestamp::now());
    let status = status_of(reason);
    let since = observed
        .filter(|observed| observed.status == status)
        .and_then(|observed| observed.since.clone());
    let condition = NodeCondition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.as_str().to_owned()),
        message: Some(view.to_string()),
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(since.unwrap_or(now)),
    };
    let object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node},
        "status": {"conditions": [condition]},
    });
    let params = PatchParams::apply(field_manager::AGENT).force();
    api.patch_status(node, &params, &Patch::Apply(object)).await
}
