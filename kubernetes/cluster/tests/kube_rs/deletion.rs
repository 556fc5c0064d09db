//! Deletion of one object and of many. What goes along with them is in `garbage`.

use berth_testkit::until;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, Preconditions, WatchEvent, WatchParams,
};
use serde_json::json;

use crate::space::{in_space, names, refusal, version};
use crate::wait::next;
use crate::watch::watch;

#[test]
fn a_deletion_with_preconditions_deletes_just_what_was_meant() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let old = space.lease("a").await;
        let live = space.label("a", "late", Some("yes")).await;
        let delete = async |uid: Option<String>, resource_version: Option<String>| {
            let preconditions = Preconditions { resource_version, uid };
            let params = DeleteParams::default().preconditions(preconditions);
            leases.delete("a", &params).await
        };
        let other = "00000000-0000-4000-8000-000000000000".to_owned();
        for refused in [
            delete(Some(other), None).await,
            delete(live.uid(), old.resource_version()).await,
        ] {
            let status = refusal(refused);
            assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        }
        assert_eq!(leases.get("a").await.unwrap(), live);
        delete(live.uid(), live.resource_version()).await.unwrap();
        assert_eq!(leases.get_opt("a").await.unwrap(), None);
    });
}

#[test]
fn delete_collection_deletes_what_the_selector_matches() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        for name in ["a", "b", "c", "d"] {
            space.lease(name).await;
        }
        for name in ["b", "c"] {
            space.label(name, "fate", Some("goes")).await;
        }
        let going = ListParams::default().labels("fate=goes");
        let start = leases.list(&going).await.unwrap().metadata.resource_version.unwrap();
        let mut stream = watch(&leases, &WatchParams::default(), &start).await;
        leases
            .delete_collection(&DeleteParams::default(), &going)
            .await
            .unwrap();
        until("only the others are left", async || {
            let left = leases.list(&ListParams::default()).await.unwrap();
            (names(left) == ["a", "d"]).then_some(())
        })
        .await;
        let mut deleted = Vec::new();
        for _ in 0..2 {
            let WatchEvent::Deleted(lease) = next("a deletion", &mut stream).await.unwrap() else {
                panic!("a deletion is DELETED");
            };
            deleted.push(lease.name_any());
        }
        deleted.sort();
        assert_eq!(deleted, ["b", "c"]);
    });
}

#[test]
fn an_object_stays_until_its_last_finalizer_is_removed() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let held = json!({"metadata": {"name": "a", "finalizers": ["berth.dev/test-guard"]}});
        let held: Lease = space.have(held).await;
        let marked = leases
            .delete("a", &DeleteParams::default())
            .await
            .unwrap()
            .left()
            .unwrap();
        assert!(marked.metadata.deletion_timestamp.is_some());
        assert_eq!(marked.metadata.deletion_grace_period_seconds, Some(0));
        assert!(version(&marked) > version(&held));
        let again = leases
            .delete("a", &DeleteParams::default())
            .await
            .unwrap()
            .left()
            .unwrap();
        assert_eq!(again, marked, "deleted already");

        let add = Patch::Merge(
            json!({"metadata": {"finalizers": ["berth.dev/test-guard", "berth.dev/late"]}}),
        );
        let status = refusal(leases.patch("a", &PatchParams::default(), &add).await);
        assert_eq!(status.code, 422, "no finalizer comes to an object that is going");
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        leases.patch("a", &PatchParams::default(), &free).await.unwrap();
        assert_eq!(leases.get_opt("a").await.unwrap(), None);
    });
}
