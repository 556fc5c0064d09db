//! Pods. The rules for their spec are in `rules/pod_template`, since templates share them.

mod row;

use berth_apimachinery::metadata;
use berth_apimachinery::selectors::SelectableField;
use berth_apimachinery::status::{FieldError, Path};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::built_in::{Answer, BuiltIn, Change, Deletion, Subresource, schema_of};
use crate::rules::defaults::fill;
use crate::rules::{Errors, list, pod_template};

pub static KIND: BuiltIn = BuiltIn {
    kind: "Pod",
    plural: "pods",
    short_names: &["po"],
    categories: &["all"],
    status: true,
    subresources: &[
        Subresource {
            name: "binding",
            response: ("", "v1", "Binding"),
            verbs: &["create"],
        },
        Subresource {
            name: "eviction",
            response: ("policy", "v1", "Eviction"),
            verbs: &["create"],
        },
    ],
    generation: true,
    schema: schema_of::<Pod>,
    default,
    admit_create,
    admit_update,
    check,
    reset_on_status_update: |new, live| {
        metadata::restore_field(new, live, "ownerReferences");
        if new["status"]["qosClass"].is_null() {
            new["status"]["qosClass"] = live["status"]["qosClass"].clone();
        }
    },
    columns: row::COLUMNS,
    selectable: Some(SELECTABLE),
    deletion: Deletion {
        grace: Some(grace),
        answer: Answer::MarkedObject,
        ..Deletion::PLAIN
    },
    ..BuiltIn::PLAIN
};

const SELECTABLE: &[SelectableField] = &[
    SelectableField::new("spec.nodeName"),
    SelectableField::stored_at("spec.host", &["spec.nodeName"]),
    SelectableField::new("spec.restartPolicy"),
    SelectableField::new("spec.schedulerName"),
    SelectableField::new("spec.serviceAccountName"),
    SelectableField::flag("spec.hostNetwork"),
    SelectableField::new("status.phase"),
    SelectableField::new("status.podIP"),
    SelectableField::new("status.nominatedNodeName"),
    // A list has no value for selectors: only the empty value matches.
    SelectableField::new("status.podIPs"),
];

fn default(object: &mut Value) {
    fill(&mut object["spec"], &json!({"enableServiceLinks": true}));
    pod_template::default(&mut object["spec"]);
    if object["status"].is_object() {
        default_addresses(&mut object["status"]);
    }
}

/// A pod's first address is in `podIP` and in `podIPs`. If they differ, `podIP` decides.
fn default_addresses(status: &mut Value) {
    let older = status["podIP"].as_str().unwrap_or_default().to_owned();
    let first = status["podIPs"][0]["ip"].clone();
    if older.is_empty() && first.is_string() {
        status["podIP"] = first;
    } else if !older.is_empty() && first != *older {
        status["podIPs"] = json!([{"ip": older}]);
    }
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

fn admit_create(object: &mut Value) {
    let spec = &mut object["spec"];
    if spec["serviceAccountName"].as_str().unwrap_or_default().is_empty() {
        spec["serviceAccountName"] = "default".into();
    }
    spec["serviceAccount"] = spec["serviceAccountName"].clone();
    for (field, value) in [
        ("priority", json!(0)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
    ] {
        if spec[field].is_null() {
            spec[field] = value;
        }
    }
    let class = qos_class(spec);
    object["status"] = json!({"phase": "Pending", "qosClass": class});
    admit_update(object);
}

/// Every pod tolerates a node that is not ready or unreachable for a while.
fn admit_update(object: &mut Value) {
    let spec = &mut object["spec"];
    let mut tolerations: Vec<Value> = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|toleration| {
            let all = toleration["key"].as_str().unwrap_or_default().is_empty();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            (all || toleration["key"] == key) && (effect.is_empty() || effect == "NoExecute")
        });
        if !tolerated {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec["tolerations"] = tolerations.into();
}

/// The quality-of-service class, from requests and limits.
fn qos_class(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .iter()
        .flat_map(|field| spec[*field].as_array().into_iter().flatten());
    let mut any = false;
    let mut guaranteed = true;
    for container in containers {
        let (requests, limits) =
            (&container["resources"]["requests"], &container["resources"]["limits"]);
        for resource in ["cpu", "memory"] {
            any |= !requests[resource].is_null() || !limits[resource].is_null();
            guaranteed &= !limits[resource].is_null() && requests[resource] == limits[resource];
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn check(object: &Value, change: &Change<'_>, errors: &mut Errors) {
    pod_template::check(&object["spec"], &Path::new("spec"), errors);
    if let Some(old) = change.old
        && !matches!(change.subresource, "status" | "binding")
    {
        check_change(object, old, errors);
    }
}

/// A pod's spec is immutable, except for images, the deadline and more tolerations. Only a binding
/// sets the node.
fn check_change(new: &Value, old: &Value, errors: &mut Errors) {
    for field in ["containers", "initContainers"] {
        let count = |pod: &Value| list(&pod["spec"][field]).count();
        if count(new) != count(old) {
            let detail = format!("pod updates may not add or remove {field}");
            errors.push(FieldError::forbidden(Path::new("spec").child(field), detail));
            return;
        }
    }
    let deadline = |pod: &Value| pod["spec"]["activeDeadlineSeconds"].as_i64();
    if deadline(old).is_some_and(|old| deadline(new).is_none_or(|new| new > old)) {
        let field = Path::new("spec.activeDeadlineSeconds");
        let value = new["spec"]["activeDeadlineSeconds"].clone();
        errors.push(FieldError::invalid(
            field,
            value,
            "must be less than or equal to previous value",
        ));
        return;
    }
    let immutable_part = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for field in ["containers", "initContainers"] {
            let list = spec.get_mut(field).and_then(Value::as_array_mut);
            for container in list.into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        for field in ["activeDeadlineSeconds", "tolerations"] {
            spec[field] = Value::Null;
        }
        spec
    };
    let kept = list(&old["spec"]["tolerations"]).all(|(_, toleration)| {
        list(&new["spec"]["tolerations"]).any(|(_, found)| found == toleration)
    });
    if immutable_part(new) != immutable_part(old) || !kept {
        let detail = "only spec.containers[*].image, spec.initContainers[*].image, \
                      spec.activeDeadlineSeconds and additions to spec.tolerations may change in a \
                      pod; make a new pod for anything else";
        errors.push(FieldError::forbidden(Path::new("spec"), detail));
    }
}

/// Only pods that run on a node have a grace period.
fn grace(object: &Value, asked: Option<i64>) -> i64 {
    let ended = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let assigned = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    if ended || !assigned {
        return 0;
    }
    let wanted = asked.or_else(|| object["spec"]["terminationGracePeriodSeconds"].as_i64());
    wanted.unwrap_or(30).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_follows_requests_and_limits() {
        let with = |resources: Value| json!({"containers": [{"resources": resources}]});
        assert_eq!(qos_class(&with(json!({}))), "BestEffort");
        assert_eq!(qos_class(&with(json!({"requests": {"cpu": "1"}}))), "Burstable");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(
            qos_class(&with(json!({"requests": both, "limits": both}))),
            "Guaranteed"
        );
    }
}
