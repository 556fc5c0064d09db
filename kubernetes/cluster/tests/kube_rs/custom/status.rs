//! Spec and status have different writers, and neither can touch the other's half.

use berth_api::NodeNetworkConfig;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::definitions;
use crate::space::{Space, in_space};

async fn node(space: &Space) -> NodeNetworkConfig {
    definitions(&space.client).await;
    let config = json!({
        "metadata": {"name": "node"},
        "spec": {"requestedIPCount": 16},
        "status": {"assignedIPCount": 1},
    });
    space.have(config).await
}

fn assigned(config: &NodeNetworkConfig) -> Option<i64> {
    config.status.as_ref().map(|status| status.assigned_ip_count)
}

#[test]
fn a_write_of_the_object_leaves_its_status_alone() {
    in_space(async |space| {
        let configs = space.api::<NodeNetworkConfig>();
        let mut config = node(&space).await;
        assert_eq!(assigned(&config), None, "a new object has no status yet");
        let patch = Patch::Merge(json!({"status": {"assignedIPCount": 8}}));
        config.metadata = configs
            .patch_status("node", &PatchParams::default(), &patch)
            .await
            .unwrap()
            .metadata;

        config.spec.requested_ip_count = 32;
        config.status = None;
        let replaced = configs.replace("node", &PostParams::default(), &config).await.unwrap();
        assert_eq!((replaced.spec.requested_ip_count, assigned(&replaced)), (32, Some(8)));
        let patch = Patch::Merge(
            json!({"spec": {"requestedIPCount": 48}, "status": {"assignedIPCount": 99}}),
        );
        let patched = configs.patch("node", &PatchParams::default(), &patch).await.unwrap();
        assert_eq!((patched.spec.requested_ip_count, assigned(&patched)), (48, Some(8)));
    });
}

#[test]
fn a_write_of_the_status_leaves_the_rest_alone() {
    in_space(async |space| {
        let configs = space.api::<NodeNetworkConfig>();
        let mut config = node(&space).await;
        config.spec.requested_ip_count = 99;
        config.metadata.labels = Some([("color".to_owned(), "red".to_owned())].into());
        config.status = serde_json::from_value(json!({"assignedIPCount": 8})).unwrap();
        let replaced = configs
            .replace_status("node", &PostParams::default(), &config)
            .await
            .unwrap();
        assert_eq!((replaced.spec.requested_ip_count, assigned(&replaced)), (16, Some(8)));
        assert!(replaced.labels().is_empty(), "labels are not status");
        let patch = Patch::Merge(
            json!({"spec": {"requestedIPCount": 99}, "status": {"assignedIPCount": 9}}),
        );
        let patched = configs
            .patch_status("node", &PatchParams::default(), &patch)
            .await
            .unwrap();
        assert_eq!((patched.spec.requested_ip_count, assigned(&patched)), (16, Some(9)));
        assert_eq!(configs.get_status("node").await.unwrap(), patched);
    });
}

#[test]
fn only_a_change_of_the_spec_raises_the_generation() {
    in_space(async |space| {
        let configs = space.api::<NodeNetworkConfig>();
        assert_eq!(node(&space).await.metadata.generation, Some(1));
        let params = PatchParams::default();
        let patch = async |patch: Value| {
            configs.patch("node", &params, &Patch::Merge(patch)).await.unwrap()
        };

        let same = patch(json!({"spec": {"requestedIPCount": 16}})).await;
        assert_eq!(same.metadata.generation, Some(1));
        let labelled = patch(json!({"metadata": {"labels": {"color": "red"}}})).await;
        assert_eq!(labelled.metadata.generation, Some(1));
        let status = Patch::Merge(json!({"status": {"assignedIPCount": 8}}));
        let status = configs.patch_status("node", &params, &status).await.unwrap();
        assert_eq!(status.metadata.generation, Some(1));
        let changed = patch(json!({"spec": {"requestedIPCount": 32}})).await;
        assert_eq!(changed.metadata.generation, Some(2));
    });
}
