//! Subresources of built-in kinds. Those of custom resources are in `custom`.

use berth_testkit::until;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Binding, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use kube::core::Status;
use serde_json::json;

use crate::space::{in_space, object, refusal};

#[test]
fn scale_reads_and_writes_the_replicas_of_a_deployment() {
    in_space(async |space| {
        let labels = json!({"app": "web"});
        let containers = json!([{"name": "c", "image": "registry.invalid/c"}]);
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
        // A ReplicaSet is not what this is about.
        let spec = json!({"paused": true, "replicas": 0, "selector": {"matchLabels": labels}, "template": template});
        let made: Deployment = space.have(json!({"metadata": {"name": "web"}, "spec": spec})).await;
        let deployments = space.api::<Deployment>();
        let mut scale = deployments.get_scale("web").await.unwrap();
        assert_eq!(scale.spec.as_ref().unwrap().replicas.unwrap_or_default(), 0);
        assert_eq!(scale.status.as_ref().unwrap().selector.as_deref(), Some("app=web"));
        assert_eq!(scale.metadata.uid, made.uid());

        let patch = Patch::Merge(json!({"spec": {"replicas": 2}}));
        let patched = deployments
            .patch_scale("web", &PatchParams::default(), &patch)
            .await
            .unwrap();
        assert_eq!(patched.spec.unwrap().replicas, Some(2));
        let scaled = deployments.get("web").await.unwrap();
        assert_eq!(scaled.spec.as_ref().unwrap().replicas, Some(2));
        assert_eq!(
            scaled.metadata.generation,
            made.metadata.generation.map(|number| number + 1)
        );

        scale.spec.as_mut().unwrap().replicas = Some(0);
        let status =
            refusal(deployments.replace_scale("web", &PostParams::default(), &scale).await);
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        scale.metadata.resource_version = None;
        deployments
            .replace_scale("web", &PostParams::default(), &scale)
            .await
            .unwrap();
        let scaled = deployments.get("web").await.unwrap();
        assert_eq!(scaled.spec.unwrap().replicas, Some(0));
    });
}

#[test]
fn the_status_of_a_pod_is_written_through_its_subresource_alone() {
    in_space(async |space| {
        let pods = space.api::<Pod>();
        let pod = space.pod("a").await;
        let patch = Patch::Strategic(json!({
            "metadata": {"labels": {"late": "yes"}},
            "spec": {"activeDeadlineSeconds": 60},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.64.0.9"}], "podIP": "10.64.0.9"},
        }));
        let params = PatchParams::default();
        let through_status = pods.patch_status("a", &params, &patch).await.unwrap();
        assert_eq!(through_status.spec, pod.spec);
        assert_eq!(
            through_status.status.as_ref().unwrap().phase.as_deref(),
            Some("Running")
        );
        let patch = Patch::Strategic(
            json!({"spec": {"activeDeadlineSeconds": 60}, "status": {"phase": "Failed"}}),
        );
        let through_object = pods.patch("a", &params, &patch).await.unwrap();
        assert_eq!(through_object.status, through_status.status);
        assert_eq!(through_object.spec.unwrap().active_deadline_seconds, Some(60));
    });
}

#[test]
fn a_binding_gives_a_pod_its_node_once() {
    in_space(async |space| {
        let pods = space.api::<Pod>();
        let pod = space.pod("a").await;
        let bind = async |node: &str| {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
            let binding: Binding = object(json!({"metadata": {"name": "a"}, "target": target}));
            let params = PostParams::default();
            pods.create_subresource::<_, Status>("binding", "a", &params, &binding)
                .await
        };
        bind("nowhere").await.unwrap();
        let bound = pods.get("a").await.unwrap();
        assert_eq!(bound.spec.unwrap().node_name.as_deref(), Some("nowhere"));
        let conditions = bound.status.unwrap().conditions.unwrap();
        let scheduled = conditions
            .iter()
            .find(|condition| condition.type_ == "PodScheduled")
            .unwrap();
        assert_eq!(scheduled.status, "True");
        assert_eq!(bound.metadata.uid, pod.uid());
        let status = refusal(bind("elsewhere").await);
        assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
        let params = DeleteParams::default().grace_period(0);
        pods.delete("a", &params).await.unwrap();
    });
}

#[test]
fn an_evicted_pod_goes() {
    in_space(async |space| {
        let pods = space.api::<Pod>();
        space.pod("a").await;
        let dry = EvictParams {
            post_options: PostParams {
                dry_run: true,
                ..PostParams::default()
            },
            ..EvictParams::default()
        };
        pods.evict("a", &dry).await.unwrap();
        assert!(pods.get("a").await.unwrap().metadata.deletion_timestamp.is_none());
        let status = pods.evict("a", &EvictParams::default()).await.unwrap();
        assert!(status.is_success());
        until("the pod is gone", async || {
            pods.get_opt("a").await.unwrap().is_none().then_some(())
        })
        .await;
        let status = refusal(pods.evict("a", &EvictParams::default()).await);
        assert_eq!(status.code, 404);
    });
}
