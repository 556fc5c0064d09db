//! Two services on one store and one plan, of which one does not hear what the other changes.

use std::sync::Arc;
use std::time::Duration;

use berth_ledger::store::{MemoryStore, Store};
use berth_nodenet::allocator::{Allocator, Registry, Removal};
use berth_nodenet::service::PlanFile;
use berth_nodenet::service::plan::{Kept, PlanStore, PlanStoreError};
use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::raw::ask;
use super::world::{CLUSTER, World, node, plan, request};

/// A file that several processes write, and that tells nobody when it changes.
#[derive(Clone, Debug)]
struct Silent(PlanFile);

impl PlanStore for Silent {
    fn place(&self) -> String {
        self.0.place()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn read(&self) -> BoxFuture<'_, Result<Kept, PlanStoreError>> {
        self.0.read()
    }

    fn write<'a>(
        &'a self,
        text: &'a str,
        over: u64,
    ) -> BoxFuture<'a, Result<bool, PlanStoreError>> {
        self.0.write(text, over)
    }

    fn changed(&self, _seen: u64) -> BoxFuture<'_, ()> {
        futures::future::pending().boxed()
    }
}

/// What the processes share.
struct Shared {
    blocks: MemoryStore,
    plan: Silent,
    _directory: TempDir,
}

impl Shared {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            blocks: MemoryStore::default(),
            plan: Silent(PlanFile::beside(&directory.path().join("ledger"))),
            _directory: directory,
        }
    }

    async fn process(&self) -> World {
        World::beside(Arc::new(self.blocks.clone()), Arc::new(self.plan.clone())).await
    }

    async fn owned(&self) -> usize {
        let blocks = self.blocks.load("prod.pods").await.unwrap();
        blocks.iter().map(|block| block.record.owned().count()).sum()
    }
}

async fn set(world: &World, cidrs: &[&str]) {
    let client = world.client(CLUSTER);
    client.set_subnet("pods", &plan(cidrs), Duration::ZERO).await.unwrap();
}

const CONTAINER: &str = "/networks/prod/subnets/pods/containers/blue/a/uid-of-a";

/// Once, while a client asks again.
async fn once(world: &World, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let pair = world.authority.client(CLUSTER);
    ask(world, &pair, method, path, &body.to_string()).await
}

#[tokio::test]
async fn a_stale_process_leases_nothing_from_a_removed_subnet() {
    let shared = Shared::new();
    let one = shared.process().await;
    set(&one, &["10.64.0.0/24"]).await;
    let other = shared.process().await;
    assert_eq!(one.client(CLUSTER).remove_subnet("pods").await, Ok(Removal::Removed));
    let (code, problem) = once(&other, "PUT", CONTAINER, &Value::Null).await;
    assert_eq!((code, &problem["reason"]), (503, &json!("Unavailable")), "{problem}");
    assert_eq!(shared.owned().await, 0);
}

#[tokio::test]
async fn a_stale_process_keeps_leases_but_gives_no_more() {
    let shared = Shared::new();
    let one = shared.process().await;
    set(&one, &["10.64.0.0/24", "10.65.0.0/24"]).await;
    let other = shared.process().await;
    let client = other.client(CLUSTER);
    client.create("pods", &node("a")).await.unwrap();
    let has = client.update("pods", &node("a"), request(1, 4)).await.unwrap();
    set(&one, &["10.64.0.0/24"]).await;
    let more = json!({"request": uuid::Uuid::from_u128(2), "count": 8});
    let (code, problem) = once(&other, "PATCH", CONTAINER, &more).await;
    assert_eq!((code, &problem["reason"]), (503, &json!("Unavailable")), "{problem}");
    assert_eq!(client.get("pods", &node("a")).await.unwrap(), Some(has));
    assert_eq!(shared.owned().await, 5);
}

#[tokio::test]
async fn a_plan_blocked_by_a_lease_is_followed_after_its_release() {
    let shared = Shared::new();
    let world = shared.process().await;
    set(&world, &["10.64.0.0/24"]).await;
    world.client(CLUSTER).create("pods", &node("a")).await.unwrap();
    // As if whoever wrote it had not looked.
    let moved = shared.plan.read().await.unwrap().text.replace("10.64.", "10.65.");
    assert!(shared.plan.write(&moved, 1).await.unwrap());

    let more = json!({"cidrs": ["10.66.0.0/24"], "reuseDelayMilliseconds": 0});
    let (code, problem) = once(&world, "PUT", "/networks/prod/subnets/more", &more).await;
    let error = problem["error"].as_str().unwrap();
    assert!(code == 503 && error.contains("10.64.0.1"), "{problem}");
    let (code, problem) = once(&world, "PUT", CONTAINER, &Value::Null).await;
    assert_eq!((code, &problem["reason"]), (503, &json!("Unavailable")), "{problem}");

    assert_eq!(once(&world, "DELETE", CONTAINER, &Value::Null).await.0, 204);
    assert_eq!(once(&world, "PUT", "/networks/prod/subnets/more", &more).await.0, 204);
    let (code, container) = once(&world, "PUT", CONTAINER, &Value::Null).await;
    assert_eq!((code, &container["primary"]), (200, &json!(["10.65.0.1/32"])));
}
