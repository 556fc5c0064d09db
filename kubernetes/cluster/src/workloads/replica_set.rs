//! The plan for a ReplicaSet: pods to create, delete, adopt and release, and its status. Pure.

mod apply;

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::member::{Found, Member};
use super::owner::Pick;
use berth_kit::watch::Key;

/// What to do for a ReplicaSet.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub adopt: Vec<Key>,
    pub release: Vec<Key>,
    pub create: usize,
    pub delete: Vec<Key>,
    /// The new status, if it differs from the object's.
    pub status: Option<ReplicaSetStatus>,
    /// When to check again: a ready pod becomes available after a time without any event.
    pub recheck: Option<Duration>,
}

/// `failure` is the error of the last try to create pods.
pub fn plan(
    set: &ReplicaSet,
    owned: &[Found],
    orphans: &[Found],
    failure: Option<&str>,
    now: &Time,
) -> Plan {
    let Some(spec) = set.spec.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) else {
        return Plan::default();
    };
    let keys = |found: &[Found]| found.iter().map(|(key, _)| (*key).clone()).collect::<Vec<_>>();
    let pick = Pick::of(Some(&spec.selector));
    let (kept, strays): (Vec<Found>, Vec<Found>) =
        owned.iter().partition(|(_, pod)| pick.matches(&pod.labels));
    let adopted: Vec<_> = orphans.iter().filter(|(_, pod)| pod.active()).copied().collect();
    let strays: Vec<_> = strays.into_iter().filter(|(_, pod)| pod.active()).collect();
    let terminating = kept.iter().filter(|(_, pod)| pod.deleting && !pod.finished).count();
    let mut active: Vec<_> = kept.into_iter().filter(|(_, pod)| pod.active()).collect();
    active.extend(&adopted);

    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    let surplus = active.len().saturating_sub(wanted);
    let min_ready =
        Duration::from_secs(spec.min_ready_seconds.and_then(|s| s.try_into().ok()).unwrap_or(0));
    let waits: Vec<_> = active
        .iter()
        .filter_map(|(_, pod)| until_available(pod, min_ready, now))
        .collect();
    let status = ReplicaSetStatus {
        terminating_replicas: i32::try_from(terminating).ok(),
        ..status(set, &active, &waits, failure, now)
    };
    let mut plan = Plan {
        adopt: keys(&adopted),
        release: keys(&strays),
        create: wanted.saturating_sub(active.len()),
        status: (set.status.as_ref() != Some(&status)).then_some(status),
        recheck: waits.into_iter().filter(|wait| !wait.is_zero()).min(),
        ..Plan::default()
    };
    if surplus == 0 {
        return plan;
    }
    // The least useful pods are deleted first, and among equals the newest.
    active.sort_by_cached_key(|(key, pod)| {
        (
            pod.placed,
            pod.running,
            pod.ready_since.is_some(),
            pod.deletion_cost,
            std::cmp::Reverse(pod.created),
            std::cmp::Reverse((*key).clone()),
        )
    });
    active.truncate(surplus);
    plan.delete = keys(&active);
    plan
}

/// How long until a ready pod is available; zero if it is, `None` if the pod is not ready.
fn until_available(pod: &Member, min_ready: Duration, now: &Time) -> Option<Duration> {
    let ready_for = now.0.duration_since(pod.ready_since?);
    let ready_for = Duration::try_from(ready_for).unwrap_or_default();
    Some(min_ready.saturating_sub(ready_for))
}

fn status(
    set: &ReplicaSet,
    active: &[Found],
    waits: &[Duration],
    failure: Option<&str>,
    now: &Time,
) -> ReplicaSetStatus {
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let some = |n: usize| (n > 0).then(|| count(n));
    let template = set.spec.as_ref().and_then(|s| s.template.as_ref());
    let labels = template
        .and_then(|t| t.metadata.as_ref()?.labels.clone())
        .unwrap_or_default();
    let labelled = active
        .iter()
        .filter(|(_, pod)| labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value)));
    let before = set.status.clone().unwrap_or_default();
    ReplicaSetStatus {
        replicas: count(active.len()),
        fully_labeled_replicas: some(labelled.count()),
        ready_replicas: some(waits.len()),
        available_replicas: some(waits.iter().filter(|wait| wait.is_zero()).count()),
        observed_generation: set.metadata.generation,
        conditions: conditions(before.conditions, failure, now),
        ..ReplicaSetStatus::default()
    }
}

const FAILURE: &str = "ReplicaFailure";

fn conditions(
    before: Option<Vec<ReplicaSetCondition>>,
    failure: Option<&str>,
    now: &Time,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = before.unwrap_or_default();
    let known = conditions.iter().find(|c| c.type_ == FAILURE).cloned();
    conditions.retain(|c| c.type_ != FAILURE);
    if let Some(message) = failure {
        conditions.push(ReplicaSetCondition {
            type_: FAILURE.to_owned(),
            status: "True".to_owned(),
            reason: Some("FailedCreate".to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: known.and_then(|c| c.last_transition_time).or(Some(now.clone())),
        });
    }
    Some(conditions).filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn set(replicas: i32) -> ReplicaSet {
        let set = json!({
            "metadata": {"namespace": "default", "name": "web", "uid": "web", "generation": 3},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}}},
        });
        serde_json::from_value(set).unwrap()
    }

    fn key(name: &str) -> Key {
        Key {
            namespace: "default".into(),
            name: name.into(),
        }
    }

    /// A placed, running, ready pod made at second 1.
    fn member() -> Member {
        Member {
            uid: "u".into(),
            owner: "web".into(),
            labels: [("app".to_owned(), "web".to_owned())].into(),
            placed: true,
            running: true,
            ready_since: Some(at(10).0),
            created: 1,
            ..Member::default()
        }
    }

    fn plan_for(set: &ReplicaSet, pods: &[(&str, Member)]) -> Plan {
        let keys: Vec<_> = pods.iter().map(|(name, _)| key(name)).collect();
        let found: Vec<_> = keys.iter().zip(pods).map(|(key, (_, pod))| (key, pod)).collect();
        let (owned, orphans): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, pod)| pod.owner == "web");
        plan(set, &owned, &orphans, None, &at(100))
    }

    #[test]
    fn makes_the_pods_that_are_missing() {
        assert_eq!(plan_for(&set(3), &[]).create, 3);
        let dying = Member {
            deleting: true,
            ..member()
        };
        let failed = Member {
            finished: true,
            ..member()
        };
        let pods = [("a", member()), ("b", dying), ("c", failed)];
        assert_eq!(
            plan_for(&set(3), &pods).create,
            2,
            "pods that go or have ended don't count"
        );
    }

    #[test]
    fn deletes_first_what_serves_least_and_then_the_newest() {
        let pods = [
            ("old", member()),
            (
                "new",
                Member {
                    created: 9,
                    ..member()
                },
            ),
            (
                "cheap",
                Member {
                    deletion_cost: -1,
                    ..member()
                },
            ),
            (
                "unready",
                Member {
                    ready_since: None,
                    ..member()
                },
            ),
            (
                "pending",
                Member {
                    running: false,
                    ready_since: None,
                    ..member()
                },
            ),
            (
                "unplaced",
                Member {
                    placed: false,
                    running: false,
                    ready_since: None,
                    ..member()
                },
            ),
        ];
        let deleted = plan_for(&set(0), &pods).delete;
        let names: Vec<_> = deleted.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["unplaced", "pending", "unready", "cheap", "new", "old"]);
        assert_eq!(plan_for(&set(5), &pods).delete, [key("unplaced")]);
    }

    #[test]
    fn adopts_what_its_selector_picks_and_lets_go_what_it_does_not() {
        let orphan = Member {
            owner: String::new(),
            ..member()
        };
        let stray = Member {
            labels: BTreeMap::new(),
            ..member()
        };
        let plan = plan_for(&set(1), &[("orphan", orphan), ("stray", stray)]);
        assert_eq!(plan.adopt, [key("orphan")]);
        assert_eq!(plan.release, [key("stray")]);
        assert_eq!((plan.create, plan.delete.len()), (0, 0));
    }

    #[test]
    fn the_status_counts_and_is_written_once() {
        let unready = Member {
            ready_since: None,
            ..member()
        };
        let dying = Member {
            deleting: true,
            ..member()
        };
        let pods = [("a", member()), ("b", unready), ("c", dying)];
        let mut set = set(2);
        let status = plan_for(&set, &pods).status.unwrap();
        assert_eq!(status.replicas, 2);
        assert_eq!(status.ready_replicas, Some(1));
        assert_eq!(status.available_replicas, Some(1));
        assert_eq!(status.terminating_replicas, Some(1));
        assert_eq!(status.observed_generation, Some(3));
        set.status = Some(status);
        assert_eq!(plan_for(&set, &pods).status, None);
    }

    #[test]
    fn a_pod_is_available_after_it_was_ready_for_min_ready_seconds() {
        let mut set = set(1);
        set.spec.as_mut().unwrap().min_ready_seconds = Some(120);
        let plan = plan_for(&set, &[("a", member())]);
        assert_eq!(plan.status.unwrap().available_replicas, None);
        assert_eq!(plan.recheck, Some(Duration::from_secs(30)));
    }

    #[test]
    fn a_failure_to_make_pods_shows_until_it_is_over() {
        let mut set = set(1);
        let failing = plan(&set, &[], &[], Some("forbidden"), &at(100)).status.unwrap();
        let condition = &failing.conditions.as_ref().unwrap()[0];
        assert_eq!(condition.message.as_deref(), Some("forbidden"));
        set.status = Some(failing);
        assert_eq!(plan(&set, &[], &[], Some("forbidden"), &at(200)).status, None);
        let over = plan(&set, &[], &[], None, &at(300)).status.unwrap();
        assert_eq!(over.conditions, None);
    }

    #[test]
    fn a_set_that_is_being_deleted_does_nothing() {
        let mut set = set(3);
        set.metadata.deletion_timestamp = Some(at(1));
        assert_eq!(plan_for(&set, &[("a", member())]), Plan::default());
    }
}
