//! Selects a node for a pod, or says why no node fits. Pure: no clock, no client.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, PodSpec, Taint, Toleration};

use super::affinity::RequiredNodeAffinity;
use super::resources::{PODS, Resources};

/// A node as placement sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub allocatable: Resources,
}

impl Host {
    pub fn of(node: &Node) -> Self {
        let spec = node.spec.as_ref();
        let mut taints = spec.and_then(|s| s.taints.clone()).unwrap_or_default();
        // Only the taints that keep pods away.
        taints.retain(|taint| taint.effect != "PreferNoSchedule");
        if spec.and_then(|s| s.unschedulable) == Some(true) {
            taints.insert(0, cordoned());
        }
        Self {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints,
            allocatable: Resources::of(node.status.as_ref().and_then(|s| s.allocatable.as_ref())),
        }
    }
}

const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// The taint of a cordoned node.
fn cordoned() -> Taint {
    Taint {
        key: CORDONED.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
}

/// A pod as placement sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    pub requests: Resources,
    pub affinity: RequiredNodeAffinity,
    pub tolerations: Vec<Toleration>,
}

impl Demand {
    pub fn of(spec: &PodSpec) -> Self {
        Self {
            requests: Resources::of_pod(spec),
            affinity: RequiredNodeAffinity::of(spec),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
        }
    }
}

/// The least loaded node that takes the pod, or kube-scheduler's message. `limit` is called only
/// for nodes that fit otherwise.
pub fn place(
    demand: &Demand,
    hosts: &BTreeMap<String, Host>,
    used: &BTreeMap<String, Resources>,
    limit: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let none = Resources::default();
    let mut best = None;
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    for (name, host) in hosts {
        let used = used.get(name).unwrap_or(&none);
        let mut reasons = reasons_against(demand, name, host, used);
        if reasons.is_empty() {
            reasons.extend(limit(name));
        }
        if reasons.is_empty() {
            let candidate = (load(host, used, &demand.requests), name);
            best = best.map_or(Some(candidate), |best| Some(candidate.min(best)));
        }
        for reason in reasons {
            *refusals.entry(reason).or_default() += 1;
        }
    }
    match best {
        Some((_, name)) => Ok(name.clone()),
        None if hosts.is_empty() => Err("no nodes available to schedule pods".to_owned()),
        None => {
            let counted = refusals.iter().map(|(reason, count)| format!("{count} {reason}"));
            let mut reasons: Vec<_> = counted.collect();
            reasons.sort();
            Err(format!(
                "0/{} nodes are available: {}.",
                hosts.len(),
                reasons.join(", ")
            ))
        }
    }
}

/// Why the node does not take the pod, in kube-scheduler's words; empty if it does. As in
/// kube-scheduler, the first failing check hides later ones.
fn reasons_against(demand: &Demand, name: &str, host: &Host, used: &Resources) -> Vec<String> {
    let tolerated = |taint: &Taint| demand.tolerations.iter().any(|t| tolerates(t, taint));
    if let Some(taint) = host.taints.iter().find(|taint| !tolerated(taint)) {
        if taint.key == CORDONED {
            return vec!["node(s) were unschedulable".to_owned()];
        }
        let value = taint.value.as_deref().unwrap_or_default();
        return vec![format!("node(s) had untolerated taint {{{}: {value}}}", taint.key)];
    }
    if !demand.affinity.matches(name, &host.labels) {
        return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
    }
    let short = host.allocatable.short_of(used, &demand.requests);
    short
        .into_iter()
        .map(|resource| match resource {
            PODS => "Too many pods".to_owned(),
            other => format!("Insufficient {other}"),
        })
        .collect()
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let same = |ours: &Option<String>, theirs: &str| {
        ours.as_deref().is_none_or(|o| o.is_empty() || o == theirs)
    };
    let value = |v: &Option<String>| v.clone().unwrap_or_default();
    same(&toleration.effect, &taint.effect)
        && match toleration.operator.as_deref() {
            Some("Exists") => same(&toleration.key, &taint.key),
            None | Some("" | "Equal") => {
                toleration.key.as_deref() == Some(&taint.key)
                    && value(&toleration.value) == value(&taint.value)
            }
            Some(_) => false,
        }
}

/// The load of the node with the pod on it, compared in order: the higher share of CPU and memory
/// in 1/10,000, then the number of pods. Names break a tie, so the same cluster gives the same
/// decision.
fn load(host: &Host, used: &Resources, requests: &Resources) -> (i128, i128) {
    let share = |name: &str| {
        let taken = used.get(name).saturating_add(requests.get(name));
        let (taken, all) = (taken.saturating_mul(10_000), host.allocatable.get(name));
        if all > 0 { taken / all } else { 0 }
    };
    (share("cpu").max(share("memory")), used.get(PODS))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn host(spec: Value) -> Host {
        let mut host = Host::of(&Node {
            spec: serde_json::from_value(spec).unwrap(),
            ..Node::default()
        });
        host.allocatable = amounts("2", "4Gi", "3");
        host
    }

    fn amounts(cpu: &str, memory: &str, pods: &str) -> Resources {
        let amounts = json!({"cpu": cpu, "memory": memory, "pods": pods});
        Resources::of(Some(&serde_json::from_value(amounts).unwrap()))
    }

    fn demand(mut spec: Value) -> Demand {
        spec["containers"] =
            json!([{"name": "c", "resources": {"requests": spec["requests"].clone()}}]);
        Demand::of(&serde_json::from_value(spec).unwrap())
    }

    fn hosts(specs: impl IntoIterator<Item = Value>) -> BTreeMap<String, Host> {
        let numbered = specs.into_iter().enumerate();
        numbered.map(|(i, spec)| (format!("n{i}"), host(spec))).collect()
    }

    fn place_empty(spec: Value, hosts: &BTreeMap<String, Host>) -> Result<String, String> {
        place(&demand(spec), hosts, &BTreeMap::new(), &|_| None)
    }

    fn error(message: &str) -> Result<String, String> {
        Err(message.to_owned())
    }

    #[test]
    fn a_pod_that_fits_nowhere_says_so_as_kube_scheduler_does() {
        let three = hosts([json!({}), json!({}), json!({})]);
        assert_eq!(
            place_empty(json!({"requests": {"cpu": "3"}}), &three),
            error("0/3 nodes are available: 3 Insufficient cpu.")
        );
        assert_eq!(
            place_empty(json!({"requests": {"cpu": "3", "memory": "5Gi"}}), &three),
            error("0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory.")
        );
        assert_eq!(
            place_empty(json!({"requests": {"berth.dev/ip": "1"}}), &three),
            error("0/3 nodes are available: 3 Insufficient berth.dev/ip.")
        );
        assert_eq!(
            place_empty(json!({}), &BTreeMap::new()),
            error("no nodes available to schedule pods")
        );
    }

    #[test]
    fn each_node_counts_with_its_own_reason() {
        let taint = json!({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]});
        let mixed = hosts([json!({"unschedulable": true}), taint, json!({})]);
        assert_eq!(
            place_empty(json!({"nodeSelector": {"a": "b"}}), &mixed),
            error(
                "0/3 nodes are available: 1 node(s) didn't match Pod's node \
                 affinity/selector, 1 node(s) had untolerated taint {gpu: yes}, 1 \
                 node(s) were unschedulable."
            )
        );
    }

    #[test]
    fn a_full_node_takes_no_more_pods_however_small() {
        let one = hosts([json!({})]);
        let used = BTreeMap::from([("n0".to_owned(), amounts("0", "0", "3"))]);
        assert_eq!(
            place(&demand(json!({})), &one, &used, &|_| None),
            error("0/1 nodes are available: 1 Too many pods.")
        );
    }

    #[test]
    fn what_is_used_is_no_longer_free_to_the_last_milli() {
        let one = hosts([json!({})]);
        let used = BTreeMap::from([("n0".to_owned(), amounts("1500m", "0", "1"))]);
        assert!(
            place(&demand(json!({"requests": {"cpu": "500m"}})), &one, &used, &|_| None).is_ok()
        );
        assert!(
            place(&demand(json!({"requests": {"cpu": "501m"}})), &one, &used, &|_| None).is_err()
        );
    }

    #[test]
    fn the_least_loaded_node_is_taken_and_names_break_a_tie() {
        let three = hosts([json!({}), json!({}), json!({})]);
        assert_eq!(place_empty(json!({}), &three), Ok("n0".into()));
        let mut used = BTreeMap::from([
            ("n0".to_owned(), amounts("0", "0", "2")),
            ("n1".to_owned(), amounts("0", "0", "1")),
            ("n2".to_owned(), amounts("0", "0", "1")),
        ]);
        assert_eq!(place(&demand(json!({})), &three, &used, &|_| None), Ok("n1".into()));
        used.insert("n1".into(), amounts("1", "0", "1"));
        used.insert("n2".into(), amounts("0", "3Gi", "1"));
        assert_eq!(place(&demand(json!({})), &three, &used, &|_| None), Ok("n0".into()));
    }

    #[test]
    fn a_taint_keeps_away_all_but_pods_that_tolerate_it() {
        let taint = |effect| json!({"taints": [{"key": "k", "value": "v", "effect": effect}]});
        let tolerations = |t: Value| json!({"tolerations": [t]});
        let tainted = hosts([taint("NoExecute")]);
        for (toleration, fits) in [
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "value": "v"}), true),
            (
                json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}),
                true,
            ),
            (json!({"key": "k", "value": "w"}), false),
            (json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), false),
            (json!({"key": "j", "operator": "Exists"}), false),
        ] {
            let placed = place_empty(tolerations(toleration.clone()), &tainted);
            assert_eq!(placed.is_ok(), fits, "{toleration}");
        }
        assert!(place_empty(json!({}), &hosts([taint("PreferNoSchedule")])).is_ok());
    }

    #[test]
    fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
        let cordoned = hosts([json!({"unschedulable": true})]);
        assert_eq!(
            place_empty(json!({}), &cordoned),
            error("0/1 nodes are available: 1 node(s) were unschedulable.")
        );
        let daemon = json!({"tolerations": [{"key": CORDONED, "operator": "Exists", "effect": "NoSchedule"}]});
        assert!(place_empty(daemon, &cordoned).is_ok());
    }
}
