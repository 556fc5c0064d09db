//! Publishes how many more pods fit: as `podsThatFit` in the status of Subnets, and as metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_api::names::field_manager;
use berth_api::{Count, Subnet};
use futures::future::BoxFuture;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tracing::warn;

use crate::books::Books;
use crate::metrics::SchedulerMetrics;

/// Often enough for people while pods come and go.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until it is dropped. Writes nothing while nothing changes.
pub fn publish_fit(
    books: Books,
    client: Client,
    metrics: SchedulerMetrics,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let subnets: Api<Subnet> = Api::all(client);
        let mut changes = books.changes();
        let mut written: BTreeMap<String, u64> = BTreeMap::new();
        loop {
            let (all, by_subnet) = current_fit(&books);
            metrics.fit(all);
            for gone in written.extract_if(.., |name, _| !by_subnet.contains_key(name)) {
                metrics.fit_of(&gone.0, None);
            }
            for (name, pods) in by_subnet {
                metrics.fit_of(&name, Some(pods));
                if written.get(&name) == Some(&pods) {
                    continue;
                }
                match write(&subnets, &name, pods).await {
                    Ok(()) => drop(written.insert(name, pods)),
                    Err(error) => {
                        warn!(
                            %error,
                            subnet = name,
                            "cannot write podsThatFit; retrying after the next change"
                        )
                    }
                }
            }
            tokio::time::sleep(WRITE_INTERVAL).await;
            if changes.changed().await.is_err() {
                return;
            }
        }
    })
}

fn current_fit(books: &Books) -> (u64, BTreeMap<String, u64>) {
    let names = books.subnets();
    let accounting = books.lock();
    let known: BTreeMap<&str, u64> = accounting.pods_that_fit_by_subnet().collect();
    let by_subnet = names.into_iter().map(|name| {
        let pods = known.get(name.as_str()).copied().unwrap_or(0);
        (name, pods)
    });
    (accounting.pods_that_fit(), by_subnet.collect())
}

/// One field, by server-side apply: the rest of the status is the subnet controller's.
async fn write(subnets: &Api<Subnet>, name: &str, pods: u64) -> kube::Result<()> {
    let patch = json!({
        "apiVersion": Subnet::api_version(&()),
        "kind": Subnet::kind(&()),
        "metadata": {"name": name},
        "status": {"podsThatFit": Count(pods.into())},
    });
    let params = PatchParams::apply(field_manager::SCHEDULER).force();
    match subnets.patch_status(name, &params, &Patch::Apply(patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        written => written.map(drop),
    }
}
