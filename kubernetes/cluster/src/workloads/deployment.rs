//! The plan for a Deployment: the ReplicaSet of its current template, the sizes of all its
//! ReplicaSets, and its status. Pure.

mod apply;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::progress::{self, Sets};
use super::rollout::{self, Bounds, Size};
use super::template::{REVISION, made_from, replica_set};
use berth_kit::watch::Key;

const DEFAULT_HISTORY: i32 = 10;

/// A new size for an existing ReplicaSet.
#[derive(Debug, PartialEq)]
pub struct Scale {
    pub set: Arc<ReplicaSet>,
    pub from: i32,
    pub to: i32,
}

/// What to do for a Deployment.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub create: Option<Box<ReplicaSet>>,
    pub scale: Vec<Scale>,
    /// The revision of the new set, if its annotation or the Deployment's differs.
    pub revision: Option<i64>,
    /// Old sets beyond the history limit.
    pub prune: Vec<Key>,
    /// The new status, if it differs from the object's.
    pub status: Option<Box<DeploymentStatus>>,
    /// When to check the progress deadline again.
    pub recheck: Option<Duration>,
}

/// Splits off the set of the Deployment's current template. The others are sorted, oldest first.
pub fn split(
    deployment: &Deployment,
    mut sets: Vec<Arc<ReplicaSet>>,
) -> (Option<Arc<ReplicaSet>>, Vec<Arc<ReplicaSet>>) {
    sets.sort_by_key(|set| (set.creation_timestamp(), set.name_any()));
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let new = template.and_then(|t| sets.iter().position(|set| made_from(set, t)));
    let new = new.map(|position| sets.remove(position));
    (new, sets)
}

/// `old_pods_left`: a pod of an old set still exists, even if it is being deleted.
pub fn plan(
    deployment: &Deployment,
    new: Option<&Arc<ReplicaSet>>,
    old: &[Arc<ReplicaSet>],
    old_pods_left: bool,
    now: &Time,
) -> Plan {
    let Some(spec) = deployment
        .spec
        .as_ref()
        .filter(|_| deployment.metadata.deletion_timestamp.is_none())
    else {
        return Plan::default();
    };
    let (status, recheck) = progress::status(deployment, &Sets { new, old }, now);
    let mut plan = Plan {
        status: (deployment.status.as_ref() != Some(&status)).then(|| Box::new(status)),
        recheck,
        ..Plan::default()
    };
    if spec.paused == Some(true) {
        plan.scale = scale_paused(spec.replicas.unwrap_or(1), new, old);
        return plan;
    }

    let sizes: Vec<_> = old.iter().map(size).collect();
    let new_size = new.map(size).unwrap_or_default();
    let strategy = spec.strategy.as_ref().and_then(|s| s.type_.as_deref());
    let bounds = Bounds::of(spec);
    let (new_target, old_targets) = match strategy {
        Some("Recreate") => rollout::recreate(bounds.desired, &sizes, old_pods_left),
        _ => rollout::rolling(bounds, new_size, &sizes),
    };
    let latest = old.iter().map(|set| revision(set.annotations())).max().unwrap_or(0);
    let wanted = new
        .map_or(0, |set| revision(set.annotations()))
        .max(latest.saturating_add(1));
    let stale = |annotations| revision(annotations) != wanted;
    if stale(deployment.annotations()) || new.is_some_and(|set| stale(set.annotations())) {
        plan.revision = Some(wanted);
    }
    match new {
        None => plan.create = replica_set(deployment, new_target, wanted).map(Box::new),
        Some(set) => plan.scale.extend(scale(set, new_target)),
    }
    let old_scales = old.iter().zip(old_targets);
    plan.scale
        .extend(old_scales.filter_map(|(set, target)| scale(set, target)));
    plan.prune = prune(old, spec.revision_history_limit.unwrap_or(DEFAULT_HISTORY));
    plan
}

fn size(set: &Arc<ReplicaSet>) -> Size {
    Size {
        asked: asked(set),
        available: set.status.as_ref().and_then(|s| s.available_replicas).unwrap_or(0),
    }
}

fn asked(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|s| s.replicas).unwrap_or(1)
}

fn scale(set: &Arc<ReplicaSet>, to: i32) -> Option<Scale> {
    let from = asked(set);
    (from != to).then(|| Scale {
        set: set.clone(),
        from,
        to,
    })
}

/// A paused Deployment can be scaled but rolls nothing out. Its one active set gets the new size.
/// With several active sets, a rollout is paused, and all sizes stay.
fn scale_paused(
    desired: i32,
    new: Option<&Arc<ReplicaSet>>,
    old: &[Arc<ReplicaSet>],
) -> Vec<Scale> {
    let mut active = old.iter().chain(new).filter(|set| asked(set) > 0);
    let one = match (active.next(), active.next()) {
        (Some(one), None) => Some(one),
        (None, _) => new.or(old.last()),
        _ => None,
    };
    one.and_then(|set| scale(set, desired)).into_iter().collect()
}

fn revision(annotations: &std::collections::BTreeMap<String, String>) -> i64 {
    annotations.get(REVISION).and_then(|r| r.parse().ok()).unwrap_or(0)
}

fn prune(old: &[Arc<ReplicaSet>], limit: i32) -> Vec<Key> {
    let empty = |set: &ReplicaSet| {
        asked(set) == 0
            && set.status.as_ref().is_none_or(|s| s.replicas == 0)
            && set.metadata.deletion_timestamp.is_none()
    };
    let mut idle: Vec<_> = old.iter().filter(|set| empty(set)).collect();
    idle.sort_by_key(|set| revision(set.annotations()));
    let surplus = idle.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    idle.iter().take(surplus).map(|set| Key::of(set.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn now() -> Time {
        Time(jiff::Timestamp::from_second(100).unwrap())
    }

    fn deployment(image: &str, mut spec: Value) -> Deployment {
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
        spec["template"] = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}});
        let deployment =
            json!({"metadata": {"namespace": "default", "name": "web", "uid": "d"}, "spec": spec});
        serde_json::from_value(deployment).unwrap()
    }

    /// A set for `image` whose pods are all available.
    fn set(image: &str, replicas: i32, revision: i64) -> Arc<ReplicaSet> {
        let mut set = replica_set(&deployment(image, json!({})), replicas, revision).unwrap();
        let status =
            json!({"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas});
        set.status = Some(serde_json::from_value(status).unwrap());
        Arc::new(set)
    }

    fn plan_for(deployment: &Deployment, sets: &[&Arc<ReplicaSet>]) -> Plan {
        let (new, old) = split(deployment, sets.iter().map(|set| (*set).clone()).collect());
        plan(deployment, new.as_ref(), &old, false, &now())
    }

    fn scales(plan: &Plan) -> Vec<(i32, i32)> {
        plan.scale.iter().map(|scale| (scale.from, scale.to)).collect()
    }

    #[test]
    fn a_new_deployment_gets_one_set_with_all_its_pods() {
        let plan = plan_for(&deployment("one", json!({"replicas": 20})), &[]);
        let made = plan.create.unwrap();
        assert_eq!(asked(&made), 20);
        assert_eq!(revision(made.annotations()), 1);
        assert_eq!(plan.revision, Some(1), "the deployment carries it too");
    }

    #[test]
    fn a_changed_template_makes_a_new_set_beside_the_old_one() {
        let old = set("one", 4, 1);
        let plan = plan_for(&deployment("two", json!({"replicas": 4})), &[&old]);
        let made = plan.create.as_ref().unwrap();
        assert_eq!((asked(made), revision(made.annotations())), (1, 2));
        assert_eq!(scales(&plan), []);
    }

    #[test]
    fn a_rollback_reuses_the_old_replica_set_as_the_latest() {
        let (one, two) = (set("one", 0, 1), set("two", 4, 2));
        let plan = plan_for(&deployment("one", json!({"replicas": 4})), &[&one, &two]);
        assert_eq!(plan.create, None);
        assert_eq!(plan.revision, Some(3));
        assert_eq!(scales(&plan), [(0, 1)]);
    }

    #[test]
    fn scaling_changes_the_set_and_nothing_else() {
        let one = set("one", 4, 1);
        let plan = plan_for(&deployment("one", json!({"replicas": 9})), &[&one]);
        assert_eq!(scales(&plan), [(4, 9)]);
        assert_eq!((plan.create, plan.prune), (None, vec![]));
    }

    #[test]
    fn a_paused_deployment_scales_but_rolls_nothing_out() {
        let one = set("one", 4, 1);
        let plan = plan_for(&deployment("two", json!({"replicas": 9, "paused": true})), &[&one]);
        assert_eq!(plan.create, None);
        assert_eq!(scales(&plan), [(4, 9)]);
        let two = set("two", 1, 2);
        let halfway = deployment("two", json!({"replicas": 9, "paused": true}));
        assert_eq!(scales(&plan_for(&halfway, &[&one, &two])), []);
    }

    #[test]
    fn the_oldest_empty_sets_beyond_the_limit_go() {
        let (one, two, three) = (set("one", 0, 1), set("two", 0, 2), set("three", 2, 3));
        let deployment = deployment("three", json!({"replicas": 2, "revisionHistoryLimit": 1}));
        let plan = plan_for(&deployment, &[&one, &two, &three]);
        assert_eq!(plan.prune, [Key::of(one.as_ref())]);
    }
}
