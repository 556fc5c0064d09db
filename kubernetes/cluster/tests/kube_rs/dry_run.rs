//! Dry runs: the answer of the write, without the write.

use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::space::{in_space, object, refusal};

#[test]
fn a_dry_run_answers_as_the_write_would_and_changes_nothing() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let before = space.lease("a").await;
        let post = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let patch = PatchParams::default().dry_run();

        let mut changed = before.clone();
        changed.spec.as_mut().unwrap().holder_identity = Some("somebody".to_owned());
        let replaced = leases.replace("a", &post, &changed).await.unwrap();
        assert_eq!(replaced.spec, changed.spec);
        let label = Patch::Merge(json!({"metadata": {"labels": {"color": "red"}}}));
        let labelled = leases.patch("a", &patch, &label).await.unwrap();
        assert_eq!(labelled.labels()["color"], "red");
        let applied = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"labels": {"color": "blue"}}});
        let params = PatchParams::apply("test").dry_run();
        let applied = leases.patch("a", &params, &Patch::Apply(applied)).await.unwrap();
        assert_eq!(applied.labels()["color"], "blue");

        let new: Lease = object(json!({"metadata": {"generateName": "b-"}}));
        let created = leases.create(&post, &new).await.unwrap();
        assert!(created.name_any().starts_with("b-"));
        leases.delete("a", &DeleteParams::default().dry_run()).await.unwrap();
        leases
            .delete_collection(&DeleteParams::default().dry_run(), &ListParams::default())
            .await
            .unwrap();

        let left = leases.list(&ListParams::default()).await.unwrap();
        assert_eq!(left.items, [before]);
    });
}

#[test]
fn a_dry_run_refuses_what_the_write_would() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let old = space.lease("a").await;
        space.label("a", "late", Some("yes")).await;
        let post = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let again: Lease = object(json!({"metadata": {"name": "a"}}));
        assert_eq!(refusal(leases.create(&post, &again).await).reason, "AlreadyExists");
        assert_eq!(refusal(leases.replace("a", &post, &old).await).reason, "Conflict");
        let wrong: Lease = object(json!({"metadata": {"name": "No Name"}}));
        assert_eq!(refusal(leases.create(&post, &wrong).await).reason, "Invalid");
        let none = leases.delete("none", &DeleteParams::default().dry_run()).await;
        assert_eq!(refusal(none).reason, "NotFound");
    });
}
