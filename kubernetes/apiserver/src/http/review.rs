//! Kinds that are questions, not objects: who am I, may I. The server has one user, who may do
//! everything.

use axum::body::Body;
use axum::response::Response;
use berth_apimachinery::status::{Result, Status};
use http::request::Parts;
use serde_json::{Value, json as value};

use super::call::Front;
use super::path::Target;
use super::{answer, body};

/// The question, and the kind of its request and answer.
#[derive(Clone, Copy)]
pub enum Review {
    Access(&'static str),
    Rules(&'static str),
    Myself(&'static str),
    Bindings,
}

pub const USER: &str = "berth-admin";

pub fn find(target: &Target) -> Option<Review> {
    match (target.group.as_str(), target.resource.as_str()) {
        ("authorization.k8s.io", "selfsubjectaccessreviews") => {
            Some(Review::Access("SelfSubjectAccessReview"))
        }
        ("authorization.k8s.io", "subjectaccessreviews") => {
            Some(Review::Access("SubjectAccessReview"))
        }
        ("authorization.k8s.io", "localsubjectaccessreviews") => {
            Some(Review::Access("LocalSubjectAccessReview"))
        }
        ("authorization.k8s.io", "selfsubjectrulesreviews") => {
            Some(Review::Rules("SelfSubjectRulesReview"))
        }
        ("authentication.k8s.io", "selfsubjectreviews") => {
            Some(Review::Myself("SelfSubjectReview"))
        }
        ("", "bindings") => Some(Review::Bindings),
        _ => None,
    }
}

pub async fn answer(
    front: &Front,
    review: Review,
    parts: &Parts,
    content: Body,
) -> Result<Response> {
    if parts.method != http::Method::POST {
        return Err(Status::method_not_allowed());
    }
    let bytes = body::read(content).await?;
    let mut object: Value = body::parse(&parts.headers, &bytes)?.value;
    if !object.is_object() {
        return Err(Status::bad_request(
            "couldn't get version/kind: the body is not an object",
        ));
    }
    let (version, kind, status) = match review {
        Review::Access(kind) => {
            let status = value!({"allowed": true, "reason": "the one user of this server may do everything"});
            ("authorization.k8s.io/v1", kind, status)
        }
        Review::Rules(kind) => {
            let status = value!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            });
            ("authorization.k8s.io/v1", kind, status)
        }
        Review::Myself(kind) => {
            let status = value!({"userInfo": {"username": USER, "groups": ["system:masters", "system:authenticated"]}});
            ("authentication.k8s.io/v1", kind, status)
        }
        Review::Bindings => return bind(front, parts, &object).await,
    };
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    object["status"] = status;
    Ok(answer::json(201, &object))
}

/// The older form of `pods/binding`: the body names the pod.
async fn bind(front: &Front, parts: &Parts, binding: &Value) -> Result<Response> {
    let segments: Vec<&str> = parts.uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let target = Target::parse(&segments).ok_or_else(Status::no_such_path)?;
    let pods = front
        .resources
        .registry
        .find("", "v1", "pods")
        .ok_or_else(Status::no_such_path)?;
    let name = crate::decode::name_of(binding);
    let writer = crate::resources::Writer::server();
    front
        .resources
        .bind(&pods, target.namespace(), name, binding, &writer)
        .await?;
    Ok(answer::success(201, None))
}
