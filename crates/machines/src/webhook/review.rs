//! The webhook's answers to an API server. Pure.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::gate;
use crate::machine::INITIALIZERS;

/// A call that no API server makes. Each names the field.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    #[error("the body is not JSON: {0}")]
    Json(#[source] serde_json::Error),
    #[error(
        "apiVersion, kind: {api_version} {kind} is not a review: send admission.k8s.io/v1 \
         AdmissionReview"
    )]
    Kind { api_version: String, kind: String },
    #[error("{0}: it is missing or of another type: send the request of an API server")]
    Field(&'static str),
    #[error(
        "request.resource: {group} {resource} are not Machines: let the rules of the webhook \
         name machines of machine.k8s.io and cluster.k8s.io only"
    )]
    Resource { group: String, resource: String },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub is_gated: bool,
    /// An AdmissionReview.
    pub value: Value,
}

pub fn answer(body: &[u8]) -> Result<Answer, ReviewError> {
    let review: Value = serde_json::from_slice(body).map_err(ReviewError::Json)?;
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&review, "apiVersion"), text(&review, "kind"));
    if (api_version.as_str(), kind.as_str()) != ("admission.k8s.io/v1", "AdmissionReview") {
        return Err(ReviewError::Kind { api_version, kind });
    }
    let request = &review["request"];
    let uid = request["uid"].as_str().filter(|uid| !uid.is_empty());
    let uid = uid.ok_or(ReviewError::Field("request.uid"))?;
    let operation = request["operation"].as_str();
    let operation = operation.ok_or(ReviewError::Field("request.operation"))?;
    let resource = &request["resource"];
    let (group, resource) = (text(resource, "group"), text(resource, "resource"));
    if !gate::is_machine(&group, &resource) {
        return Err(ReviewError::Resource { group, resource });
    }
    let mut response = json!({"uid": uid, "allowed": true});
    let patch = match operation {
        "CREATE" => patch(&group, &resource, &request["object"])?,
        // The Machine's network is known, or it waits already.
        _ => None,
    };
    if let Some(patch) = &patch {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = BASE64_STANDARD.encode(patch.to_string()).into();
    }
    Ok(Answer {
        is_gated: patch.is_some(),
        value: json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        }),
    })
}

/// The patch that puts the gate on a Machine that has none.
fn patch(group: &str, resource: &str, object: &Value) -> Result<Option<Value>, ReviewError> {
    if !object["metadata"].is_object() {
        return Err(ReviewError::Field("request.object.metadata"));
    }
    let annotations = &object["metadata"]["annotations"];
    if !annotations.is_null() && !annotations.is_object() {
        return Err(ReviewError::Field("request.object.metadata.annotations"));
    }
    if annotations.get(INITIALIZERS).is_some_and(|list| !list.is_string()) {
        return Err(ReviewError::Field(
            "request.object.metadata.annotations[machine-controller.kubermatic.io/initializers]",
        ));
    }
    let mut gated = object.clone();
    gate::admit(group, resource, &mut gated);
    if gated == *object {
        return Ok(None);
    }
    let after = &gated["metadata"]["annotations"];
    let operation = if annotations.is_null() {
        json!({"op": "add", "path": "/metadata/annotations", "value": after})
    } else {
        let key = INITIALIZERS.replace('~', "~0").replace('/', "~1");
        let path = format!("/metadata/annotations/{key}");
        json!({"op": "add", "path": path, "value": after[INITIALIZERS]})
    };
    Ok(Some(json!([operation])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(operation: &str, resource: &str, object: &Value) -> Value {
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u1", "operation": operation, "object": object,
                "resource": {
                    "group": "machine.k8s.io", "version": "v1alpha1", "resource": resource,
                },
            },
        })
    }

    fn patched(object: Value) -> Option<Value> {
        let call = review("CREATE", "machines", &object).to_string();
        let answer = answer(call.as_bytes()).unwrap().value;
        assert_eq!(answer["response"]["uid"], "u1");
        assert_eq!(answer["response"]["allowed"], true);
        let patch = answer["response"]["patch"].as_str()?;
        Some(serde_json::from_slice(&BASE64_STANDARD.decode(patch).unwrap()).unwrap())
    }

    #[test]
    fn a_new_machine_is_gated_as_by_the_policy() {
        let bare = patched(json!({"metadata": {"name": "m"}})).unwrap();
        assert_eq!(
            bare,
            json!([{"op": "add", "path": "/metadata/annotations",
                "value": {INITIALIZERS: "ipam.berth.dev"}}])
        );
        let others = json!({"metadata": {"annotations": {"a": "b", INITIALIZERS: "x"}}});
        assert_eq!(
            patched(others).unwrap(),
            json!([{"op": "add",
                "path": "/metadata/annotations/machine-controller.kubermatic.io~1initializers",
                "value": "x,ipam.berth.dev"}])
        );
        let gated = json!({"metadata": {"annotations": {INITIALIZERS: "ipam.berth.dev"}}});
        assert_eq!(patched(gated), None);
    }

    #[test]
    fn what_is_there_already_is_left_alone() {
        let call = review("UPDATE", "machines", &json!({"metadata": {"name": "m"}}));
        let answer = answer(call.to_string().as_bytes()).unwrap();
        assert!(!answer.is_gated);
        assert_eq!(answer.value["response"], json!({"uid": "u1", "allowed": true}));
    }

    #[test]
    fn a_malformed_call_is_refused_and_the_field_is_named() {
        let said = |call: &str| answer(call.as_bytes()).unwrap_err().to_string();
        assert!(said("{").starts_with("the body is not JSON"));
        assert!(said("{}").starts_with("apiVersion, kind: "));
        let old = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"});
        assert!(said(&old.to_string()).contains("admission.k8s.io/v1beta1 AdmissionReview"));
        let good = review("CREATE", "machines", &json!({"metadata": {}}));
        let without = |pointer: &str| {
            let mut call = good.clone();
            *call.pointer_mut(pointer).unwrap() = Value::Null;
            said(&call.to_string())
        };
        assert!(without("/request").starts_with("request.uid: "));
        assert!(without("/request/uid").starts_with("request.uid: "));
        assert!(without("/request/operation").starts_with("request.operation: "));
        assert!(without("/request/object").starts_with("request.object.metadata: "));
        assert!(without("/request/resource").starts_with("request.resource: "));
        let other = review("CREATE", "machinesets", &json!({"metadata": {}}));
        assert!(said(&other.to_string()).contains("machine.k8s.io machinesets"));
        for annotations in [json!("x"), json!({INITIALIZERS: 5})] {
            let object = json!({"metadata": {"annotations": annotations}});
            let call = review("CREATE", "machines", &object).to_string();
            assert!(said(&call).starts_with("request.object.metadata.annotations"));
        }
    }
}
