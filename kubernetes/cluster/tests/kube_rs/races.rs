//! Many writers at one object: one of them wins, and no write is lost.

use berth_apiserver::{Options, Server};
use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::entry::CommitError;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::space::{Space, in_space, object, refusal};

const WRITERS: i32 = 32;

fn held_by(writer: i32) -> Lease {
    object(json!({"metadata": {"name": "prize"}, "spec": {"holderIdentity": writer.to_string()}}))
}

fn holder(lease: &Lease) -> String {
    lease.spec.clone().unwrap().holder_identity.unwrap()
}

#[test]
fn of_32_concurrent_creates_of_one_name_one_wins() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let create = async |writer| leases.create(&PostParams::default(), &held_by(writer)).await;
        let (won, lost): (Vec<_>, Vec<_>) = join_all((0..WRITERS).map(create))
            .await
            .into_iter()
            .partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        for result in lost {
            let status = refusal(result);
            assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
        }
        let winner = won.into_iter().next().unwrap().unwrap();
        assert_eq!(leases.get("prize").await.unwrap(), winner);
    });
}

#[test]
fn of_32_concurrent_entries_one_creates_and_all_get_its_object() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let enter = async |writer| {
            loop {
                let entry = leases.entry("prize").await.unwrap();
                let mut entry = entry.or_insert(|| held_by(writer));
                match entry.commit(&PostParams::default()).await {
                    Ok(()) => return holder(entry.get()),
                    Err(CommitError::Save(kube::Error::Api(status)))
                        if status.is_already_exists() => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let mut holders = join_all((0..WRITERS).map(enter)).await;
        holders.dedup();
        assert_eq!(holders, [holder(&leases.get("prize").await.unwrap())]);
    });
}

/// Reads, adds one, writes; again, if another was faster.
async fn increment(space: &Space) {
    let leases = space.api::<Lease>();
    loop {
        let mut lease = leases.get("prize").await.unwrap();
        *lease.spec.as_mut().unwrap().lease_transitions.get_or_insert_default() += 1;
        match leases.replace("prize", &PostParams::default(), &lease).await {
            Ok(_) => return,
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn thirty_two_writers_of_one_counter_lose_no_increment() {
    in_space(async |space| {
        space.lease("prize").await;
        let rounds = async |_| {
            for _ in 0..4 {
                increment(&space).await;
            }
        };
        join_all((0..WRITERS).map(rounds)).await;
        let lease = space.api::<Lease>().get("prize").await.unwrap();
        assert_eq!(lease.spec.unwrap().lease_transitions, Some(4 * WRITERS));
    });
}

#[test]
fn concurrent_patches_of_different_fields_are_all_kept() {
    in_space(async |space| {
        space.lease("prize").await;
        let writers = (0..WRITERS).map(async |writer| {
            space
                .label("prize", &format!("writer-{writer}"), Some("was-here"))
                .await
        });
        join_all(writers).await;
        let lease = space.api::<Lease>().get("prize").await.unwrap();
        assert_eq!(lease.labels().len(), usize::try_from(WRITERS).unwrap());
    });
}

/// The embedded server alone: on disk a commit takes long enough for all of them to meet.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_patches_on_disk_are_all_kept() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        data_dir: Some(directory.path().to_owned()),
        ..Options::default()
    };
    let server = Server::open(options).await.unwrap();
    let leases: Api<Lease> = Api::default_namespaced(server.client());
    leases.create(&PostParams::default(), &held_by(0)).await.unwrap();
    let label = async |writer| {
        let patch =
            Patch::Merge(json!({"metadata": {"labels": {format!("writer-{writer}"): "was-here"}}}));
        leases.patch("prize", &PatchParams::default(), &patch).await.unwrap();
    };
    join_all((0..WRITERS).map(label)).await;
    let lease = leases.get("prize").await.unwrap();
    assert_eq!(lease.labels().len(), usize::try_from(WRITERS).unwrap());
    server.stop().await;
}

#[test]
fn a_write_that_names_a_version_holds_for_that_version_only() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let old = space.lease("prize").await;
        let new = space.label("prize", "late", Some("yes")).await;
        let patch = |version| {
            Patch::Merge(
                json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": "x"}}),
            )
        };
        let params = PatchParams::default();
        let status = refusal(leases.patch("prize", &params, &patch(old.resource_version())).await);
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        let status = refusal(leases.replace("prize", &PostParams::default(), &old).await);
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        assert_eq!(leases.get("prize").await.unwrap(), new);
        leases
            .patch("prize", &params, &patch(new.resource_version()))
            .await
            .unwrap();
    });
}
