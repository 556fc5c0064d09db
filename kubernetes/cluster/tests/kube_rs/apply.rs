//! Server-side apply: who owns which field, and what follows from it.

use berth_api::NodeNetworkConfig;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{ResourceExt, Result};
use serde_json::{Value, json};

use crate::custom;
use crate::space::{Space, in_space, object, refusal};

/// Applies to the Lease `a`.
async fn apply_with(space: &Space, params: &PatchParams, mut lease: Value) -> Result<Lease> {
    lease["apiVersion"] = "coordination.k8s.io/v1".into();
    lease["kind"] = "Lease".into();
    lease["metadata"]["name"] = "a".into();
    space.api().patch("a", params, &Patch::Apply(lease)).await
}

async fn apply(space: &Space, manager: &str, lease: Value) -> Result<Lease> {
    apply_with(space, &PatchParams::apply(manager), lease).await
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref()
}

/// The fields that a manager has applied, as managedFields writes them.
fn owned(lease: &Lease, manager: &str) -> Value {
    let entries = lease.managed_fields().iter();
    let mut entries = entries.filter(|entry| entry.manager.as_deref() == Some(manager));
    let entry = entries.next();
    entry
        .and_then(|entry| entry.fields_v1.clone())
        .map_or(Value::Null, |fields| fields.0)
}

#[test]
fn applying_creates_and_applying_the_same_again_writes_nothing() {
    in_space(async |space| {
        let lease = json!({"metadata": {"labels": {"one": "1"}}, "spec": {"holderIdentity": "x"}});
        let created = apply(&space, "first", lease.clone()).await.unwrap();
        let [entry] = created.managed_fields() else {
            panic!("one manager, not {:?}", created.managed_fields());
        };
        assert_eq!(entry.operation.as_deref(), Some("Apply"));
        assert_eq!(entry.api_version.as_deref(), Some("coordination.k8s.io/v1"));
        let fields =
            json!({"f:metadata": {"f:labels": {"f:one": {}}}, "f:spec": {"f:holderIdentity": {}}});
        assert_eq!(owned(&created, "first"), fields);
        let again = apply(&space, "first", lease).await.unwrap();
        assert_eq!(again, created);
    });
}

#[test]
fn what_is_new_has_to_say_its_name_and_what_is_there_need_not() {
    in_space(async |space| {
        let leases = space.api::<Lease>();
        let nameless = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"labels": {"one": "1"}}});
        let apply_nameless = async || {
            leases
                .patch("a", &PatchParams::apply("first"), &Patch::Apply(&nameless))
                .await
        };
        let status = refusal(apply_nameless().await);
        assert_eq!((status.code, status.reason.as_str()), (400, "BadRequest"));
        assert!(status.message.ends_with("name must be provided"), "{}", status.message);
        space.lease("a").await;
        assert_eq!(apply_nameless().await.unwrap().labels()["one"], "1");
    });
}

#[test]
fn a_field_of_another_manager_is_a_conflict_that_names_both() {
    in_space(async |space| {
        let created = apply(&space, "first", json!({"spec": {"holderIdentity": "x"}}))
            .await
            .unwrap();
        let status =
            refusal(apply(&space, "second", json!({"spec": {"holderIdentity": "y"}})).await);
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        let causes = status.details.unwrap().causes;
        let causes: Vec<_> = causes
            .iter()
            .map(|c| (c.reason.as_str(), c.field.as_str(), c.message.as_str()))
            .collect();
        let conflict = (
            "FieldManagerConflict",
            ".spec.holderIdentity",
            "conflict with \"first\"",
        );
        assert_eq!(causes, [conflict]);
        assert_eq!(space.api::<Lease>().get("a").await.unwrap(), created);
    });
}

#[test]
fn a_forced_apply_moves_the_field_to_the_new_manager() {
    in_space(async |space| {
        let lease = json!({"metadata": {"labels": {"one": "1"}}, "spec": {"holderIdentity": "x"}});
        apply(&space, "first", lease).await.unwrap();
        let forced = apply_with(
            &space,
            &PatchParams::apply("second").force(),
            json!({"spec": {"holderIdentity": "y"}}),
        )
        .await
        .unwrap();
        assert_eq!(holder(&forced), Some("y"));
        assert_eq!(
            owned(&forced, "first"),
            json!({"f:metadata": {"f:labels": {"f:one": {}}}})
        );
        assert_eq!(owned(&forced, "second"), json!({"f:spec": {"f:holderIdentity": {}}}));
        // It has nothing to say about the field any more.
        let lease = apply(&space, "first", json!({"metadata": {"labels": {"one": "1"}}}))
            .await
            .unwrap();
        assert_eq!(holder(&lease), Some("y"));
    });
}

#[test]
fn a_shared_field_is_removed_with_its_last_manager() {
    in_space(async |space| {
        let both = json!({"metadata": {"labels": {"shared": "yes"}}});
        let neither = json!({});
        apply(&space, "first", both.clone()).await.unwrap();
        let lease = apply(&space, "second", both).await.unwrap();
        assert_eq!(owned(&lease, "first"), owned(&lease, "second"));
        let lease = apply(&space, "first", neither.clone()).await.unwrap();
        assert_eq!(lease.labels()["shared"], "yes");
        let lease = apply(&space, "second", neither).await.unwrap();
        assert!(lease.labels().is_empty());
    });
}

#[test]
fn a_field_that_is_no_longer_applied_is_removed_and_others_stay() {
    in_space(async |space| {
        let lease = json!({"metadata": {"labels": {"one": "1", "two": "2"}}, "spec": {"holderIdentity": "x"}});
        apply(&space, "first", lease).await.unwrap();
        space.label("a", "three", Some("3")).await;
        let lease = apply(&space, "first", json!({"metadata": {"labels": {"two": "2"}}}))
            .await
            .unwrap();
        let labels: Vec<_> = lease.labels().keys().map(String::as_str).collect();
        assert_eq!(labels, ["three", "two"]);
        assert_eq!(holder(&lease), None);
    });
}

#[test]
fn what_was_written_without_apply_is_owned_too() {
    in_space(async |space| {
        let params = PostParams {
            field_manager: Some("writer".to_owned()),
            ..PostParams::default()
        };
        let lease: Lease =
            object(json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}));
        let created = space.api::<Lease>().create(&params, &lease).await.unwrap();
        let operation = created.managed_fields()[0].operation.as_deref();
        assert_eq!(operation, Some("Update"));
        let status =
            refusal(apply(&space, "second", json!({"spec": {"holderIdentity": "y"}})).await);
        let cause = &status.details.unwrap().causes[0];
        assert!(
            cause.message.starts_with("conflict with \"writer\""),
            "{}",
            cause.message
        );
        // The same value is not a conflict: both own it then.
        apply(&space, "second", json!({"spec": {"holderIdentity": "x"}}))
            .await
            .unwrap();
    });
}

#[test]
fn items_of_a_list_with_keys_are_owned_one_by_one() {
    in_space(async |space| {
        let deployments = space.api::<Deployment>();
        let labels = json!({"app": "web"});
        let apply = async |manager: &str, containers: Value| {
            let deployment = json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web"},
                "spec": {
                    "replicas": 0,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
                },
            });
            let params = PatchParams::apply(manager);
            let applied = deployments
                .patch("web", &params, &Patch::Apply(deployment))
                .await
                .unwrap();
            let containers = applied.spec.unwrap().template.spec.unwrap().containers;
            containers
                .into_iter()
                .map(|c| (c.name, c.image.unwrap_or_default()))
                .collect::<Vec<_>>()
        };
        let pair = |name: &str, image: &str| (name.to_owned(), image.to_owned());
        apply("first", json!([{"name": "one", "image": "a"}])).await;
        let both = apply("second", json!([{"name": "two", "image": "b"}])).await;
        assert_eq!(both, [pair("one", "a"), pair("two", "b")]);
        let changed = apply("first", json!([{"name": "one", "image": "c"}])).await;
        assert_eq!(changed, [pair("one", "c"), pair("two", "b")]);
        let without = apply("second", json!([])).await;
        assert_eq!(without, [pair("one", "c")]);
    });
}

#[test]
fn status_is_applied_through_its_subresource_alone() {
    in_space(async |space| {
        custom::definitions(&space.client).await;
        let configs = space.api::<NodeNetworkConfig>();
        let config = |spec: Value, status: Value| {
            json!({
                "apiVersion": "acn.azure.com/v1alpha",
                "kind": "NodeNetworkConfig",
                "metadata": {"name": "node"},
                "spec": spec,
                "status": status,
            })
        };
        let agent = PatchParams::apply("agent");
        let wanted = config(json!({"requestedIPCount": 16}), json!({"assignedIPCount": 99}));
        let created = configs.patch("node", &agent, &Patch::Apply(wanted)).await.unwrap();
        assert_eq!(created.status, None);

        let controller = PatchParams::apply("controller");
        let given = config(json!({"requestedIPCount": 99}), json!({"assignedIPCount": 16}));
        let given = configs
            .patch_status("node", &controller, &Patch::Apply(given))
            .await
            .unwrap();
        assert_eq!(given.spec.requested_ip_count, 16);
        assert_eq!(given.status.as_ref().unwrap().assigned_ip_count, 16);
        let entries = given.managed_fields().iter();
        let entries: Vec<_> = entries
            .map(|e| (e.manager.as_deref(), e.subresource.as_deref()))
            .collect();
        assert_eq!(entries, [(Some("agent"), None), (Some("controller"), Some("status"))]);
        let fields = given.managed_fields()[1].fields_v1.as_ref().unwrap();
        assert_eq!(fields.0, json!({"f:status": {"f:assignedIPCount": {}}}));
    });
}
