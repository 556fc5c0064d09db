//! Claims on one pool: how fast they are served and released, and how many API writes that takes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use berth_testbed::Figures;
use futures::StreamExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::percentile;
use crate::server::Server;
use crate::writes::Writes;

pub const GROUP: &str = "ipam.cluster.x-k8s.io";
const INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug)]
pub enum Provider {
    Berth,
    InCluster,
}

impl Provider {
    fn label(self) -> &'static str {
        match self {
            Self::Berth => "berth",
            Self::InCluster => "in-cluster",
        }
    }

    fn pool_ref(self, name: &str) -> Value {
        let (group, kind) = match self {
            Self::Berth => ("berth.dev", "Subnet"),
            Self::InCluster => (GROUP, "InClusterIPPool"),
        };
        json!({"apiGroup": group, "kind": kind, "name": name})
    }

    async fn create_pool(self, server: &Server, name: &str, cidr: &str) {
        let (resource, spec) = match self {
            Self::Berth => (
                resource("berth.dev", "v1alpha1", "Subnet", "subnets"),
                json!({"use": "machines", "cidrs": [cidr]}),
            ),
            Self::InCluster => {
                let (_, length) = cidr.split_once('/').unwrap();
                let length: u8 = length.parse().unwrap();
                (
                    resource(GROUP, "v1alpha2", "InClusterIPPool", "inclusterippools"),
                    json!({"addresses": [cidr], "prefix": length}),
                )
            }
        };
        let object = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {"name": name}, "spec": spec,
        });
        let client = server.client().clone();
        let api: Api<DynamicObject> = match self {
            Self::Berth => Api::all_with(client, &resource),
            Self::InCluster => Api::namespaced_with(client, "default", &resource),
        };
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Allocates and releases `count` claims, after a first one that warms up the provider. Returns
    /// how many claims were served in a second.
    pub async fn measure(
        self,
        server: &Server,
        cidr: &str,
        count: usize,
        figures: &mut Figures,
    ) -> f64 {
        let label = self.label();
        self.create_pool(server, "bench", cidr).await;
        self.allocate(server, "bench", "first", 1).await;
        release(server).await;
        let before = settled(server).await;
        let (took, mut waits) = self.allocate(server, "bench", "c", count).await;
        check(server, count).await;
        let written = settled(server).await.since(&before);
        let rate = count as f64 / took.as_secs_f64();
        figures.rate(&format!("{label}: claims on one pool"), rate);
        percentile(figures, &format!("{label}: a claim is served"), &mut waits);
        tell(figures, label, "allocation", &written, count);

        let before = settled(server).await;
        let took = release(server).await;
        let written = settled(server).await.since(&before);
        figures.rate(&format!("{label}: claims that go"), count as f64 / took.as_secs_f64());
        tell(figures, label, "release", &written, count);
        rate
    }

    /// How long it takes to serve `count` claims on a pool with this CIDR.
    pub async fn time(self, server: &Server, cidr: &str, count: usize) -> Duration {
        let name = format!("pool-{}", cidr.replace(['.', ':', '/'], "-"));
        self.create_pool(server, &name, cidr).await;
        self.allocate(server, &name, "first", 1).await;
        let (took, _) = self.allocate(server, &name, "c", count).await;
        release(server).await;
        took
    }

    /// Returns the time until the last claim is served, and how long each claim waited.
    async fn allocate(
        self,
        server: &Server,
        pool: &str,
        prefix: &str,
        count: usize,
    ) -> (Duration, Vec<Duration>) {
        let served = Mutex::new(BTreeMap::new());
        let created = Mutex::new(BTreeMap::new());
        let start = Instant::now();
        let watching = watch(server.client().clone(), |claim| {
            if claim.data["status"]["addressRef"]["name"].is_string() {
                let mut served = served.lock();
                served.entry(claim.name_any()).or_insert_with(Instant::now);
            }
            let mine = served.lock();
            mine.keys().filter(|name| name.starts_with(prefix)).count() >= count
        });
        let creating = server.for_each(0..count, async |client, number| {
            let name = format!("{prefix}-{number}");
            let object = json!({
                "apiVersion": format!("{GROUP}/v1beta2"), "kind": "IPAddressClaim",
                "metadata": {"name": name}, "spec": {"poolRef": self.pool_ref(pool)},
            });
            let object = serde_json::from_value(object).unwrap();
            created.lock().insert(name, Instant::now());
            claims(client).create(&PostParams::default(), &object).await.unwrap();
        });
        tokio::join!(watching, creating);
        let (served, created) = (served.lock(), created.lock());
        let waits = created.iter().map(|(name, at)| served[name].duration_since(*at));
        let waits: Vec<Duration> = waits.collect();
        let last = created.keys().map(|name| served[name]).max().unwrap();
        (last - start, waits)
    }
}

fn tell(figures: &mut Figures, label: &str, what: &str, written: &Writes, count: usize) {
    for (kind, number) in written.by_kind() {
        eprintln!("{label}, {what}: {number} x {kind}");
    }
    // The benchmark itself wrote or deleted each claim.
    let own = written.total() - count;
    figures.count(&format!("{label}: API writes per {what}"), own as f64 / count as f64);
}

/// Deletes all claims, and returns the time until neither claims nor addresses are left.
async fn release(server: &Server) -> Duration {
    let names: Vec<String> = all(claims(server.client().clone())).await;
    let start = Instant::now();
    server
        .for_each(names, async |client, name| {
            claims(client).delete(&name, &DeleteParams::background()).await.unwrap();
        })
        .await;
    loop {
        let left = all(addresses(server.client().clone())).await.len()
            + all(claims(server.client().clone())).await.len();
        if left == 0 {
            return start.elapsed();
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Waits until nothing is written any more: writes after the last claim was served count, too.
async fn settled(server: &Server) -> Writes {
    let mut last = Writes::of(server).await;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let next = Writes::of(server).await;
        if next.total() == last.total() {
            return next;
        }
        last = next;
    }
}

/// Checks that no address is given twice.
async fn check(server: &Server, count: usize) {
    let list = addresses(server.client().clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    let seen: BTreeSet<String> = list
        .items
        .iter()
        .map(|item| item.data["spec"]["address"].to_string())
        .collect();
    assert_eq!((list.items.len(), seen.len()), (count, count));
}

async fn watch(client: Client, mut is_done: impl FnMut(&DynamicObject) -> bool) {
    let applied = watcher(claims(client), watcher::Config::default()).applied_objects();
    let mut applied = std::pin::pin!(applied);
    while let Some(claim) = applied.next().await {
        // An error is no end: a resourceVersion may be too old for a server that has just begun to
        // serve a kind. The watcher then lists again.
        if claim.is_ok_and(|claim| is_done(&claim)) {
            return;
        }
    }
}

async fn all(api: Api<DynamicObject>) -> Vec<String> {
    let list = api.list_metadata(&ListParams::default()).await.unwrap();
    list.items.iter().map(ResourceExt::name_any).collect()
}

pub fn claims(client: Client) -> Api<DynamicObject> {
    let resource = resource(GROUP, "v1beta2", "IPAddressClaim", "ipaddressclaims");
    Api::namespaced_with(client, "default", &resource)
}

pub fn addresses(client: Client) -> Api<DynamicObject> {
    let resource = resource(GROUP, "v1beta2", "IPAddress", "ipaddresses");
    Api::namespaced_with(client, "default", &resource)
}

pub fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}
