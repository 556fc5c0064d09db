//! Kinds that are questions, not objects: who am I, may I. There is one user here, and it may do everything.

use axum::body::Body;
use axum::response::Response;
use http::request::Parts;
use serde_json::{Value, json as value};

use super::path::Target;
use super::{Front, answer, body};
use crate::status::{Result, Status, Subject};

#[derive(Clone, Copy)]
pub enum Review {
    Access,
    Rules,
    Myself,
    Bindings,
}

pub const USER: &str = "berth-admin";

pub fn find(target: &Target) -> Option<Review> {
    match (target.group.as_str(), target.resource.as_str()) {
        ("authorization.k8s.io", "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews") => Some(Review::Access),
        ("authorization.k8s.io", "selfsubjectrulesreviews") => Some(Review::Rules),
        ("authentication.k8s.io", "selfsubjectreviews") => Some(Review::Myself),
        ("", "bindings") => Some(Review::Bindings),
        _ => None,
    }
}

pub async fn answer(front: &Front, review: Review, parts: &Parts, content: Body) -> Result<Response> {
    let subject = Subject {
        group: "",
        resource: "reviews",
        kind: "Review",
    };
    if parts.method != http::Method::POST {
        return Err(Status::method_not_allowed(subject));
    }
    let bytes = body::read(content).await?;
    let mut object: Value = body::parse(&parts.headers, &bytes)?.value;
    match review {
        Review::Access => object["status"] = value!({"allowed": true, "reason": "the one user of this server may do everything"}),
        Review::Rules => {
            object["status"] = value!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            });
        }
        Review::Myself => object["status"] = value!({"userInfo": {"username": USER, "groups": ["system:masters", "system:authenticated"]}}),
        Review::Bindings => return bind(front, parts, &object).await,
    }
    Ok(answer::json(201, &object))
}

/// The older form of `pods/binding`: the pod is named in the body.
async fn bind(front: &Front, parts: &Parts, binding: &Value) -> Result<Response> {
    let segments: Vec<&str> = parts.uri.path().split('/').filter(|part| !part.is_empty()).collect();
    let target = Target::parse(&segments).ok_or_else(Status::no_such_path)?;
    let pods = front.api.registry.find("", "v1", "pods").ok_or_else(Status::no_such_path)?;
    let name = crate::api::name_of(binding);
    let writer = crate::api::Writer::server();
    front.api.bind(&pods, target.namespace(), name, binding, &writer).await?;
    Ok(answer::success(201, None))
}
