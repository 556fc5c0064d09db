//! What becomes of dependents when their owner is deleted.

use berth_testkit::until;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use crate::space::{Space, in_space};
use crate::target::{Capability, target};

/// A UID that no object has.
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

/// Runs a test where somebody collects garbage.
fn with_collector(test: impl AsyncFnOnce(Space)) {
    if target().has(Capability::Controllers) {
        in_space(test);
    }
}

async fn owner(space: &Space, name: &str) -> ConfigMap {
    space.have(json!({"metadata": {"name": name}})).await
}

/// A Lease that its owners wait for when they are deleted in the foreground.
async fn dependent(space: &Space, name: &str, owners: &[&ConfigMap], finalizers: &[&str]) -> Lease {
    let references = owners.iter().map(|owner| {
        let mut reference = owner.owner_ref(&()).unwrap();
        reference.block_owner_deletion = Some(true);
        reference
    });
    let references: Vec<_> = references.collect();
    let metadata = json!({"name": name, "ownerReferences": references, "finalizers": finalizers});
    space.have(json!({"metadata": metadata})).await
}

/// Waits until the collector knows of every Lease that was made before. It watches each kind by
/// itself, so on real clusters it may hear of an owner's deletion first, and then goes by what it
/// knows.
async fn known(space: &Space) {
    let mut nobody = ConfigMap::default();
    nobody.metadata.name = Some("nobody".to_owned());
    nobody.metadata.uid = Some(NOBODY.to_owned());
    dependent(space, "stray", &[&nobody], &[]).await;
    gone(space, "stray").await;
}

async fn delete(space: &Space, owner: &str, params: DeleteParams) {
    known(space).await;
    space.api::<ConfigMap>().delete(owner, &params).await.unwrap();
}

async fn gone(space: &Space, name: &str) {
    let leases = space.api::<Lease>();
    until(&format!("{name} is gone"), async || {
        leases.get_opt(name).await.unwrap().is_none().then_some(())
    })
    .await;
}

async fn patch(space: &Space, name: &str, metadata: Value) {
    let patch = Patch::Merge(json!({"metadata": metadata}));
    space
        .api::<Lease>()
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[test]
fn in_the_background_the_owner_goes_first_and_dependents_follow() {
    with_collector(async |space| {
        let owner = owner(&space, "owner").await;
        dependent(&space, "a", &[&owner], &[]).await;
        dependent(&space, "b", &[&owner], &["berth.dev/test-guard"]).await;
        delete(&space, "owner", DeleteParams::background()).await;
        assert!(space.api::<ConfigMap>().get_opt("owner").await.unwrap().is_none());
        gone(&space, "a").await;
        let leases = space.api::<Lease>();
        until("b is going", async || {
            leases.get("b").await.unwrap().metadata.deletion_timestamp
        })
        .await;
        patch(&space, "b", json!({"finalizers": null})).await;
        gone(&space, "b").await;
    });
}

#[test]
fn in_the_foreground_dependents_go_first_and_the_owner_waits() {
    with_collector(async |space| {
        let owners = space.api::<ConfigMap>();
        let owner = owner(&space, "owner").await;
        dependent(&space, "a", &[&owner], &[]).await;
        dependent(&space, "b", &[&owner], &["berth.dev/test-guard"]).await;
        delete(&space, "owner", DeleteParams::foreground()).await;
        gone(&space, "a").await;
        let leases = space.api::<Lease>();
        until("b is going", async || {
            leases.get("b").await.unwrap().metadata.deletion_timestamp
        })
        .await;
        let waiting = owners.get("owner").await.unwrap();
        assert!(waiting.metadata.deletion_timestamp.is_some());
        assert_eq!(waiting.finalizers(), ["foregroundDeletion"]);
        patch(&space, "b", json!({"finalizers": null})).await;
        until("the owner is gone", async || {
            owners.get_opt("owner").await.unwrap().is_none().then_some(())
        })
        .await;
        assert!(leases.get_opt("b").await.unwrap().is_none());
    });
}

#[test]
fn orphans_stay_without_their_owner() {
    with_collector(async |space| {
        let owners = space.api::<ConfigMap>();
        let owner = owner(&space, "owner").await;
        let before = dependent(&space, "a", &[&owner], &[]).await;
        delete(&space, "owner", DeleteParams::orphan()).await;
        until("the owner is gone", async || {
            owners.get_opt("owner").await.unwrap().is_none().then_some(())
        })
        .await;
        let orphan = space.api::<Lease>().get("a").await.unwrap();
        assert_eq!(orphan.uid(), before.uid());
        assert!(orphan.owner_references().is_empty());
        assert!(orphan.metadata.deletion_timestamp.is_none());
    });
}

#[test]
fn a_dependent_of_two_owners_goes_with_the_last() {
    with_collector(async |space| {
        let first = owner(&space, "first").await;
        let second = owner(&space, "second").await;
        dependent(&space, "a", &[&first, &second], &[]).await;
        let leases = space.api::<Lease>();
        delete(&space, "first", DeleteParams::background()).await;
        let left = until("the lost owner is forgotten", async || {
            let lease = leases.get("a").await.unwrap();
            (lease.owner_references().len() == 1).then_some(lease)
        })
        .await;
        assert_eq!(left.owner_references()[0].name, "second");
        delete(&space, "second", DeleteParams::background()).await;
        gone(&space, "a").await;
    });
}

#[test]
fn an_owner_of_the_same_name_with_another_uid_is_no_owner() {
    with_collector(async |space| {
        let mut owner = owner(&space, "owner").await;
        owner.metadata.uid = Some(NOBODY.to_owned());
        dependent(&space, "a", &[&owner], &[]).await;
        gone(&space, "a").await;
    });
}
