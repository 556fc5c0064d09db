//! The answer to a request that fails: a Kubernetes `Status` with reason, code and field causes.

mod field;

pub use field::{FieldError, FieldProblem, Path};

use serde_json::{Value, json};

/// A failed request. The constructors use the words and codes of kube-apiserver.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    pub details: Option<Value>,
    /// The continue token for a list that has expired.
    pub continue_token: Option<String>,
}

pub type Result<T, E = Status> = std::result::Result<T, E>;

/// The resource of a failure, as in `details` and in messages: `deployments.apps`.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub kind: &'a str,
}

impl Subject<'_> {
    fn qualified(&self) -> String {
        qualify(self.resource, self.group)
    }

    fn details(&self, name: &str) -> Value {
        let mut details = json!({"kind": self.resource});
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !self.group.is_empty() {
            details["group"] = self.group.into();
        }
        details
    }
}

fn qualify(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    fn about(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// An error without a reason in kube-apiserver: the error of a lower layer, passed on as it is.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn forbidden(subject: Subject<'_>, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", subject.qualified());
        Self::new(403, "Forbidden", message).about(subject.details(name))
    }

    pub fn not_found(subject: Subject<'_>, name: &str) -> Self {
        let message = format!("{} {name:?} not found", subject.qualified());
        Self::new(404, "NotFound", message).about(subject.details(name))
    }

    /// A path that names no resource at all.
    pub fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .about(json!({}))
    }

    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).about(json!({}))
    }

    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(406, "NotAcceptable", message)
    }

    pub fn already_exists(subject: Subject<'_>, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", subject.qualified());
        Self::new(409, "AlreadyExists", message).about(subject.details(name))
    }

    pub fn conflict(subject: Subject<'_>, name: &str, why: impl std::fmt::Display) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            subject.qualified()
        );
        Self::new(409, "Conflict", message).about(subject.details(name))
    }

    /// The conflict of a stale resourceVersion. The client must read the object and try again.
    pub fn stale(subject: Subject<'_>, name: &str) -> Self {
        Self::conflict(
            subject,
            name,
            "the object has been modified; please apply your changes to the latest \
             version and try again",
        )
    }

    /// Server-side apply conflicts with other owners. Each cause has a text with the manager, and
    /// the field's path. `listed` is the readable list of all.
    pub fn apply_conflict(causes: Vec<(String, String)>, listed: &str) -> Self {
        let message = match causes.as_slice() {
            [(message, field)] => format!("Apply failed with 1 conflict: {message}: {field}"),
            several => format!("Apply failed with {} conflicts: {listed}", several.len()),
        };
        let causes: Vec<Value> = causes
            .into_iter()
            .map(|(message, field)| json!({"reason": "FieldManagerConflict", "message": message, "field": field}))
            .collect();
        Self::new(409, "Conflict", message).about(json!({"causes": causes}))
    }

    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub fn unsupported_media_type(given: &str, accepted: &[&str]) -> Self {
        let message = if given.is_empty() || accepted.is_empty() {
            "the body of the request was in an unknown format - accepted media types include: "
                .to_owned()
                + &accepted.join(", ")
        } else {
            format!(
                "the body of the request was in an unknown format - accepted media \
                 types include: {}",
                accepted.join(", ")
            )
        };
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// A patch that is well formed but does not apply.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message).about(json!({}))
    }

    pub fn invalid(subject: Subject<'_>, name: &str, errors: &[FieldError]) -> Self {
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let list = if let [one] = shown.as_slice() {
            one.clone()
        } else {
            format!("[{}]", shown.join(", "))
        };
        let message =
            format!("{} {name:?} is invalid: {list}", qualify(subject.kind, subject.group));
        let causes: Vec<Value> = errors.iter().map(FieldError::cause).collect();
        let mut details = json!({"kind": subject.kind, "causes": causes});
        if !name.is_empty() {
            details["name"] = name.into();
        }
        if !subject.group.is_empty() {
            details["group"] = subject.group.into();
        }
        Self::new(422, "Invalid", message).about(details)
    }

    pub fn internal(why: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {why}");
        let causes = json!([{"message": why.to_string()}]);
        Self::new(500, "InternalError", message).about(json!({"causes": causes}))
    }

    pub fn future_version(given: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {given}, current: {current}");
        Self::new(504, "Timeout", message).about(json!({
            "retryAfterSeconds": 1,
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        }))
    }

    /// The Status object of the answer.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            value["reason"] = self.reason.into();
        }
        if let Some(token) = &self.continue_token {
            value["metadata"]["continue"] = token.as_str().into();
        }
        if let Some(details) = &self.details {
            value["details"] = details.clone();
        }
        value
    }
}
