//! The virtual nodes: Node objects with addresses, capacity and conditions, kept alive by Leases.
//!
//! Like a kubelet, a node registers when it starts and takes over an existing object. A Node that
//! the user deletes stays away until the next start. If a start asks for fewer nodes, the Node
//! objects beyond that number stay, not ready and tainted, until a later start uses them again or
//! somebody deletes them.

mod fleet;
mod state;

use std::collections::BTreeMap;
use std::time::Duration;

use berth_kit::clock::Clock;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::writes::CONCURRENCY;
pub use fleet::{Fleet, TooManyNodes};
use state::Health;

const LEASE_NAMESPACE: &str = "kube-node-lease";
const LEASE_SECONDS: i32 = 40;
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Heartbeats between two reports of an unchanged status: five minutes, as with a kubelet. Between
/// them the Lease shows that the node is alive.
const BEATS_PER_REPORT: u32 = 30;

/// Creates or takes over every node of the fleet, and marks those that no longer run.
pub fn register(client: &Client, fleet: Fleet, clock: Clock) -> BoxFuture<'_, kube::Result<()>> {
    Box::pin(async move {
        let api = Api::<Node>::all(client.clone());
        let found = api.list(&ListParams::default()).await?;
        let found: BTreeMap<_, _> = found.into_iter().map(|node| (node.name_any(), node)).collect();

        stream::iter(fleet.names())
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |name| {
                let (api, found) = (&api, found.get(&name));
                async move {
                    let node = match found {
                        Some(node) => node.clone(),
                        None => {
                            debug!(node = name, "creating the Node");
                            api.create(&PostParams::default(), &state::node(&name)).await?
                        }
                    };
                    report(api, &node, Health::Ready, clock).await?;
                    renew(client, &name, clock).await
                }
            })
            .await?;

        let beyond = found.values().filter(|node| {
            let name = node.name_any();
            Fleet::owns(&name) && !fleet.runs(&name)
        });
        for node in beyond {
            warn!(
                node = node.name_any(),
                "the node no longer runs, as --nodes is {}; marking it unreachable",
                fleet.size()
            );
            report(&api, node, Health::NotRun, clock).await?;
        }
        Ok(())
    })
}

/// Writes a node's status, labels and taint. Labels, taints and conditions of others stay.
async fn report(api: &Api<Node>, node: &Node, health: Health, clock: Clock) -> kube::Result<()> {
    let name = node.name_any();
    let params = PatchParams::default();
    if let Some(patch) = state::metadata(node, health) {
        api.patch(&name, &params, &Patch::Merge(patch)).await?;
    }
    let status = json!({"status": state::status(node, health, &clock.time())});
    api.patch_status(&name, &params, &Patch::Strategic(status)).await?;
    Ok(())
}

/// Keeps the nodes of the fleet alive until `token` is cancelled.
pub fn heartbeat(
    client: Client,
    fleet: Fleet,
    clock: Clock,
    token: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut beats = tokio::time::interval(HEARTBEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beats.tick().await;
        let mut count = 0u32;
        while token.run_until_cancelled(beats.tick()).await.is_some() {
            count = count.wrapping_add(1);
            let report_due = count.is_multiple_of(BEATS_PER_REPORT);
            let all = stream::iter(fleet.names()).for_each_concurrent(CONCURRENCY, |name| {
                let client = client.clone();
                async move {
                    if let Err(error) = beat(&client, &name, report_due, clock).await {
                        warn!(%error, node = name, "heartbeat failed; retrying with the next one");
                    }
                }
            });
            token.run_until_cancelled(all).await;
        }
    })
}

async fn beat(client: &Client, name: &str, report_due: bool, clock: Clock) -> kube::Result<()> {
    if report_due {
        let api = Api::<Node>::all(client.clone());
        if let Some(node) = api.get_opt(name).await? {
            report(&api, &node, Health::Ready, clock).await?;
        }
    }
    renew(client, name, clock).await
}

/// Renews the node's Lease. Creates it if it is missing, unless the Node itself has been deleted.
async fn renew(client: &Client, name: &str, clock: Clock) -> kube::Result<()> {
    let leases = Api::<Lease>::namespaced(client.clone(), LEASE_NAMESPACE);
    let renewal = json!({"spec": {
        "holderIdentity": name,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": clock.micro_time(),
    }});
    match leases
        .patch(name, &PatchParams::default(), &Patch::Merge(renewal))
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        other => return other.map(drop),
    }
    let Some(node) = Api::<Node>::all(client.clone()).get_opt(name).await? else {
        return Ok(());
    };
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            owner_references: node.owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(clock.micro_time()),
            ..LeaseSpec::default()
        }),
    };
    leases.create(&PostParams::default(), &lease).await.map(drop)
}
