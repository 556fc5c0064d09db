//! Objects made from a template: a Deployment's ReplicaSet, a ReplicaSet's pod.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

use super::rollout::Bounds;

pub const HASH_LABEL: &str = "pod-template-hash";
pub const REVISION: &str = "deployment.kubernetes.io/revision";

/// The owner reference of an object that `of` controls. `of` waits for the object when it is
/// deleted in the foreground.
pub fn owner(of: &impl Resource<DynamicType = ()>) -> Option<OwnerReference> {
    let reference = of.controller_owner_ref(&())?;
    Some(OwnerReference {
        block_owner_deletion: Some(true),
        ..reference
    })
}

/// The annotations of a scaled set: the Deployment's wanted and maximum number of pods.
pub fn sizes(deployment: &Deployment) -> [(String, String); 2] {
    let bounds = deployment.spec.as_ref().map(Bounds::of);
    let desired = bounds.map_or(0, |bounds| bounds.desired);
    let most = bounds.map_or(0, |bounds| bounds.desired.saturating_add(bounds.surge));
    [("desired-replicas", desired), ("max-replicas", most)]
        .map(|(name, count)| (format!("deployment.kubernetes.io/{name}"), count.to_string()))
}

/// Whether the ReplicaSet was made from this template. The hash label does not count.
pub fn made_from(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let Some(mut own) = set.spec.as_ref().and_then(|s| s.template.clone()) else {
        return false;
    };
    let mut template = template.clone();
    for template in [&mut own, &mut template] {
        let metadata = template.metadata.get_or_insert_default();
        metadata.labels.get_or_insert_default().remove(HASH_LABEL);
    }
    own == template
}

/// The ReplicaSet for the Deployment's current template.
pub fn replica_set(deployment: &Deployment, replicas: i32, revision: i64) -> Option<ReplicaSet> {
    let spec = deployment.spec.as_ref()?;
    let collisions = deployment.status.as_ref().and_then(|s| s.collision_count);
    let hash = hash(&spec.template, collisions)?;
    let mut template = spec.template.clone();
    let metadata = template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(HASH_LABEL.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut selector = spec.selector.clone();
    selector
        .match_labels
        .get_or_insert_default()
        .insert(HASH_LABEL.to_owned(), hash.clone());
    // `rollout history` shows annotations such as the change cause. Those that belong to the
    // Deployment alone are left out.
    let mut annotations = deployment.annotations().clone();
    annotations.retain(|key, _| {
        key != "kubectl.kubernetes.io/last-applied-configuration"
            && !key.starts_with("deployment.kubernetes.io/")
    });
    annotations.insert(REVISION.to_owned(), revision.to_string());
    annotations.extend(sizes(deployment));
    Some(ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: owner(deployment).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    })
}

/// A pod for the ReplicaSet. The API generates the end of its name.
pub fn pod(set: &ReplicaSet) -> Option<Pod> {
    let template = set.spec.as_ref()?.template.as_ref()?;
    let wanted = template.metadata.clone().unwrap_or_default();
    Some(Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.name_any())),
            namespace: set.namespace(),
            labels: wanted.labels,
            annotations: wanted.annotations,
            finalizers: wanted.finalizers,
            owner_references: owner(set).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    })
}

/// A short hash of the template, without letters that could form words. If two templates have the
/// same hash, the number of collisions so far changes it.
fn hash(template: &PodTemplateSpec, collisions: Option<i32>) -> Option<String> {
    const LETTERS: [char; 27] = [
        'b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v', 'w',
        'x', 'z', '2', '4', '5', '6', '7', '8', '9',
    ];
    let text = serde_json::to_vec(&(template, collisions)).ok()?;
    // FNV-1a.
    let sum = text.iter().fold(0x811c_9dc5_u32, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    let digits = sum.to_string().into_bytes().into_iter();
    digits
        .map(|digit| LETTERS.get(usize::from(digit) % LETTERS.len()).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(image: &str) -> Deployment {
        let deployment = json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "d", "annotations": {"kubernetes.io/change-cause": "why", "kubectl.kubernetes.io/last-applied-configuration": "{}", REVISION: "4"}},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}},
            },
        });
        serde_json::from_value(deployment).unwrap()
    }

    #[test]
    fn a_replica_set_matches_only_the_template_it_was_made_from() {
        let (one, two) = (deployment("one"), deployment("two"));
        let set = replica_set(&one, 3, 1).unwrap();
        assert!(made_from(&set, &one.spec.unwrap().template));
        assert!(!made_from(&set, &two.spec.clone().unwrap().template));
        assert_ne!(set.metadata.name, replica_set(&two, 3, 1).unwrap().metadata.name);
    }

    #[test]
    fn a_collision_gives_another_name() {
        let mut deployment = deployment("one");
        let first = replica_set(&deployment, 1, 1).unwrap().name_any();
        deployment.status.get_or_insert_default().collision_count = Some(1);
        assert_ne!(replica_set(&deployment, 1, 1).unwrap().name_any(), first);
    }

    #[test]
    fn a_replica_set_selects_only_pods_of_its_own_template() {
        let set = replica_set(&deployment("one"), 1, 5).unwrap();
        let hash = set.labels()[HASH_LABEL].clone();
        assert_eq!(set.name_any(), format!("web-{hash}"));
        let spec = set.spec.as_ref().unwrap();
        assert_eq!(spec.selector.match_labels.as_ref().unwrap()[HASH_LABEL], hash);
        let annotations = json!({
            "kubernetes.io/change-cause": "why",
            REVISION: "5",
            "deployment.kubernetes.io/desired-replicas": "1",
            "deployment.kubernetes.io/max-replicas": "2",
        });
        assert_eq!(json!(set.annotations()), annotations);
        let owner = &set.owner_references()[0];
        assert_eq!((owner.kind.as_str(), owner.controller), ("Deployment", Some(true)));
        assert_eq!(owner.block_owner_deletion, Some(true));
    }

    #[test]
    fn a_pod_carries_what_the_template_says() {
        let mut set = replica_set(&deployment("one"), 1, 1).unwrap();
        set.metadata.uid = Some("s".into());
        let pod = pod(&set).unwrap();
        assert_eq!(pod.metadata.generate_name, Some(format!("{}-", set.name_any())));
        assert_eq!(pod.labels(), set.labels());
        assert_eq!(pod.annotations()["a"], "b");
        assert_eq!(pod.owner_references()[0].uid, "s");
        assert_eq!(pod.spec.unwrap().containers[0].image.as_deref(), Some("one"));
    }
}
