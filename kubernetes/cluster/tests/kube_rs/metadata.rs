//! Metadata alone, for those who need no more: `Api<PartialObjectMeta<K>>`.

use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{
    DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, WatchEvent, WatchParams,
};
use kube::core::{ObjectMeta, PartialObjectMetaExt, TypeMeta};
use kube::runtime::watcher::watcher;

use crate::space::{in_space, names};
use crate::wait::next;
use crate::watch::strategies;

type Meta = PartialObjectMeta<Lease>;

fn partial() -> Option<TypeMeta> {
    Some(TypeMeta {
        api_version: "meta.k8s.io/v1".to_owned(),
        kind: "PartialObjectMetadata".to_owned(),
    })
}

#[test]
fn metadata_is_read_and_written_without_the_rest() {
    in_space(async |space| {
        let lease = space.lease("a").await;
        space.lease("b").await;
        let metas = space.api::<Meta>();
        let list = metas.list(&ListParams::default()).await.unwrap();
        assert_eq!(list.types.kind, "PartialObjectMetadataList");
        assert_eq!(list.items[0].metadata, lease.metadata);
        assert_eq!(names(list), ["a", "b"]);
        let got = metas.get("a").await.unwrap();
        assert_eq!((got.types, got.metadata), (partial(), lease.metadata));

        let labels = ObjectMeta {
            labels: Some([("color".to_owned(), "red".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let patch = Patch::Merge(labels.into_request_partial::<Lease>());
        let leases = space.api::<Lease>();
        let patched = leases
            .patch_metadata("a", &PatchParams::default(), &patch)
            .await
            .unwrap();
        assert_eq!(patched.labels()["color"], "red");
        assert_eq!(patched.types, partial());
        let whole = leases.get("a").await.unwrap();
        assert_eq!(whole.spec, lease.spec);
    });
}

#[test]
fn a_watch_of_metadata_has_the_same_events() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let start = space.lease("a").await.resource_version().unwrap();
        let watch = leases.watch_metadata(&WatchParams::default(), &start).await;
        let mut stream = watch.unwrap().boxed();
        let created = space.lease("b").await;
        let changed = space.label("b", "color", Some("red")).await;
        leases.delete("b", &DeleteParams::default()).await.unwrap();

        let WatchEvent::Added(added) = next("ADDED", &mut stream).await.unwrap() else {
            panic!("a creation is ADDED");
        };
        assert_eq!((added.types, added.metadata), (partial(), created.metadata));
        let WatchEvent::Modified(modified) = next("MODIFIED", &mut stream).await.unwrap() else {
            panic!("a change is MODIFIED");
        };
        assert_eq!((modified.types, modified.metadata), (partial(), changed.metadata));
        let event = next("DELETED", &mut stream).await.unwrap();
        assert!(matches!(event, WatchEvent::Deleted(meta) if meta.name_any() == "b"));
    });
}

#[test]
fn a_watcher_of_metadata_works_by_list_and_by_stream() {
    in_space(async |space| {
        space.lease("a").await;
        for (number, config) in strategies().into_iter().enumerate() {
            let later = format!("later-{number}");
            let mut stream = watcher(space.api::<Meta>(), config.labels("!late")).boxed();
            for expected in ["Init", "InitApply(a)", "InitDone"] {
                let event = next(expected, &mut stream).await.unwrap();
                assert_eq!(event.to_string(), expected);
            }
            space.lease(&later).await;
            space.label(&later, "late", Some("yes")).await;
            for expected in [format!("Apply({later})"), format!("Delete({later})")] {
                let event = next(&expected, &mut stream).await.unwrap();
                assert_eq!(event.to_string(), expected);
            }
        }
    });
}
