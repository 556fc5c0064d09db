//! The status of a Deployment's rollout: counts, Available, Progressing. Pure.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::rollout::Bounds;

const DEFAULT_DEADLINE_SECONDS: i32 = 600;

/// The ReplicaSets of a Deployment as a status needs them.
#[derive(Debug)]
pub struct Sets<'a> {
    pub new: Option<&'a Arc<ReplicaSet>>,
    pub old: &'a [Arc<ReplicaSet>],
}

/// The new status, and when to check a rollout again that makes no progress.
pub fn status(
    deployment: &Deployment,
    sets: &Sets,
    now: &Time,
) -> (DeploymentStatus, Option<Duration>) {
    let before = deployment.status.clone().unwrap_or_default();
    let Some(spec) = &deployment.spec else {
        return (before, None);
    };
    let all = || sets.new.into_iter().chain(sets.old);
    let sum =
        |count: fn(&ReplicaSet) -> Option<i32>| all().filter_map(|set| count(set)).sum::<i32>();
    let replicas = sum(|set| set.status.as_ref().map(|s| s.replicas));
    let ready = sum(|set| set.status.as_ref()?.ready_replicas);
    let available = sum(|set| set.status.as_ref()?.available_replicas);
    let updated = sets.new.and_then(|set| set.status.as_ref()).map_or(0, |s| s.replicas);
    let some = |n: i32| (n > 0).then_some(n);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(replicas),
        updated_replicas: some(updated),
        ready_replicas: some(ready),
        available_replicas: some(available),
        unavailable_replicas: some(
            sum(|set| set.spec.as_ref()?.replicas).max(replicas) - available,
        ),
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
        terminating_replicas: Some(sum(|set| set.status.as_ref()?.terminating_replicas)),
    };
    let conditions = status.conditions.get_or_insert_default();
    let bounds = Bounds::of(spec);
    let enough = if available >= bounds.min_available() {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    set(conditions, "Available", enough, false, now);

    let failure = all().find_map(|set| {
        let mut conditions = set.status.as_ref()?.conditions.iter().flatten();
        conditions
            .find(|c| c.type_ == "ReplicaFailure" && c.status == "True")
            .cloned()
    });
    match failure {
        Some(failure) => {
            let reason = failure.reason.unwrap_or_default();
            let message = failure.message.unwrap_or_default();
            set(conditions, "ReplicaFailure", ("True", &reason, &message), false, now);
        }
        None => conditions.retain(|c| c.type_ != "ReplicaFailure"),
    }

    let complete =
        updated == bounds.desired && replicas == bounds.desired && available == bounds.desired;
    let progressed = before.updated_replicas.unwrap_or(0) < updated
        || before.ready_replicas.unwrap_or(0) < ready
        || before.available_replicas.unwrap_or(0) < available
        || before.replicas.unwrap_or(0) - before.updated_replicas.unwrap_or(0) > replicas - updated;
    let recheck = progress(
        deployment,
        conditions,
        sets.new.map(Arc::as_ref),
        complete,
        progressed,
        now,
    );
    (status, recheck)
}

fn progress(
    deployment: &Deployment,
    conditions: &mut Vec<DeploymentCondition>,
    new: Option<&ReplicaSet>,
    complete: bool,
    progressed: bool,
    now: &Time,
) -> Option<Duration> {
    const TYPE: &str = "Progressing";
    let spec = deployment.spec.as_ref()?;
    if spec.paused == Some(true) {
        set(
            conditions,
            TYPE,
            ("Unknown", "DeploymentPaused", "Deployment is paused"),
            false,
            now,
        );
        return None;
    }
    let name = new.map(ResourceExt::name_any)?;
    let known = conditions.iter().find(|c| c.type_ == TYPE);
    let reason = known.and_then(|c| c.reason.clone()).unwrap_or_default();
    // The message of the condition names its ReplicaSet.
    let rollout_is_new = known
        .and_then(|c| c.message.as_ref())
        .is_none_or(|m| !m.contains(&format!("\"{name}\"")));
    if complete {
        let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
        set(
            conditions,
            TYPE,
            ("True", "NewReplicaSetAvailable", &message),
            false,
            now,
        );
        return None;
    }
    if rollout_is_new {
        let message = format!("Created new replica set \"{name}\"");
        set(conditions, TYPE, ("True", "NewReplicaSetCreated", &message), true, now);
    } else if progressed {
        let message = format!("ReplicaSet \"{name}\" is progressing.");
        set(conditions, TYPE, ("True", "ReplicaSetUpdated", &message), true, now);
    } else if reason == "NewReplicaSetAvailable" {
        // A complete rollout stays complete, even if its pods fail later.
        return None;
    }
    let seconds = spec.progress_deadline_seconds.unwrap_or(DEFAULT_DEADLINE_SECONDS);
    let deadline = Duration::from_secs(seconds.try_into().unwrap_or(0));
    let updated = conditions.iter().find(|c| c.type_ == TYPE)?.last_update_time.clone()?;
    let waited = Duration::try_from(now.0.duration_since(updated.0)).unwrap_or_default();
    if waited < deadline {
        return Some(deadline.saturating_sub(waited));
    }
    let message = format!("ReplicaSet \"{name}\" has timed out progressing.");
    set(
        conditions,
        TYPE,
        ("False", "ProgressDeadlineExceeded", &message),
        false,
        now,
    );
    None
}

/// `touch` updates the condition's time even if its text stays the same.
fn set(
    conditions: &mut Vec<DeploymentCondition>,
    type_: &str,
    (status, reason, message): (&str, &str, &str),
    touch: bool,
    now: &Time,
) {
    let known = conditions.iter().position(|c| c.type_ == type_);
    let before = known.and_then(|i| conditions.get(i));
    let same = before.filter(|c| {
        !touch
            && c.status == status
            && c.reason.as_deref() == Some(reason)
            && c.message.as_deref() == Some(message)
    });
    if same.is_some() {
        return;
    }
    let since = before
        .filter(|c| c.status == status)
        .and_then(|c| c.last_transition_time.clone());
    let condition = DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: Some(now.clone()),
        last_transition_time: since.or(Some(now.clone())),
    };
    match known.and_then(|i| conditions.get_mut(i)) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    fn deployment(replicas: i32) -> Deployment {
        let deployment = json!({
            "metadata": {"namespace": "default", "name": "web", "generation": 2},
            "spec": {"replicas": replicas, "selector": {}, "template": {}},
        });
        serde_json::from_value(deployment).unwrap()
    }

    fn set_of(name: &str, replicas: i32, available: i32) -> Arc<ReplicaSet> {
        let set = json!({
            "metadata": {"namespace": "default", "name": name},
            "spec": {"replicas": replicas, "selector": {}},
            "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available},
        });
        Arc::new(serde_json::from_value(set).unwrap())
    }

    /// The deployment after its status was written, and its Progressing reason.
    fn step(
        deployment: &mut Deployment,
        new: (i32, i32),
        old: (i32, i32),
        second: i64,
    ) -> (String, Option<Duration>) {
        let (new, old) = (set_of("new", new.0, new.1), [set_of("old", old.0, old.1)]);
        let sets = Sets {
            new: Some(&new),
            old: &old,
        };
        let (status, recheck) = status(deployment, &sets, &at(second));
        let conditions = status.conditions.clone().unwrap();
        deployment.status = Some(status);
        let progressing = conditions.iter().find(|c| c.type_ == "Progressing").unwrap();
        (progressing.reason.clone().unwrap(), recheck)
    }

    #[test]
    fn the_counts_cover_all_sets_and_updated_the_new_one() {
        let mut deployment = deployment(10);
        step(&mut deployment, (4, 1), (7, 7), 0);
        let status = deployment.status.unwrap();
        assert_eq!(status.replicas, Some(11));
        assert_eq!(status.updated_replicas, Some(4));
        assert_eq!(status.ready_replicas, Some(8));
        assert_eq!(status.available_replicas, Some(8));
        assert_eq!(status.unavailable_replicas, Some(3));
        assert_eq!(status.observed_generation, Some(2));
    }

    #[test]
    fn a_deployment_is_available_within_its_max_unavailable() {
        let available = |available| {
            let mut deployment = deployment(4);
            step(&mut deployment, (4, available), (0, 0), 0);
            let conditions = deployment.status.unwrap().conditions.unwrap();
            let found = conditions.into_iter().find(|c| c.type_ == "Available").unwrap();
            found.status
        };
        assert_eq!(available(3), "True");
        assert_eq!(available(2), "False");
    }

    #[test]
    fn a_rollout_is_created_then_updated_then_done() {
        let mut deployment = deployment(2);
        assert_eq!(step(&mut deployment, (0, 0), (2, 2), 0).0, "NewReplicaSetCreated");
        assert_eq!(step(&mut deployment, (2, 1), (1, 1), 5).0, "ReplicaSetUpdated");
        assert_eq!(
            step(&mut deployment, (2, 2), (0, 0), 9),
            ("NewReplicaSetAvailable".into(), None)
        );
        assert_eq!(step(&mut deployment, (2, 1), (0, 0), 9_999).0, "NewReplicaSetAvailable");
    }

    #[test]
    fn a_rollout_without_progress_misses_its_deadline() {
        let mut deployment = deployment(2);
        assert_eq!(
            step(&mut deployment, (2, 0), (0, 0), 0).1,
            Some(Duration::from_secs(600))
        );
        assert_eq!(
            step(&mut deployment, (2, 0), (0, 0), 500).1,
            Some(Duration::from_secs(100))
        );
        assert_eq!(
            step(&mut deployment, (2, 1), (0, 0), 550).1,
            Some(Duration::from_secs(600)),
            "progress starts over"
        );
        assert_eq!(
            step(&mut deployment, (2, 1), (0, 0), 1150),
            ("ProgressDeadlineExceeded".into(), None)
        );
        assert_eq!(step(&mut deployment, (2, 2), (0, 0), 1200).0, "NewReplicaSetAvailable");
    }

    #[test]
    fn a_status_that_holds_is_the_same_again() {
        let mut deployment = deployment(2);
        step(&mut deployment, (2, 1), (0, 0), 0);
        let before = deployment.status.clone();
        step(&mut deployment, (2, 1), (0, 0), 60);
        assert_eq!(deployment.status, before);
    }
}
