//! Writes: from a body to an operation of the API.

use axum::body::Body;
use axum::response::Response;
use http::header;
use serde_json::{Value, json as value};

use super::answer::{self, Form};
use super::body::{self, Decoded, Sent};
use super::{Call, Front, list};
use crate::resources::{DeleteOptions, Deleted, Writer, name_of};
use berth_apimachinery::patch::{self, PatchKind};
use berth_apimachinery::shape::{self, strict};
use berth_apimachinery::status::{FieldError, FieldProblem, Path, Result, Status, Subject};

pub async fn create(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let Decoded { object, warnings } = body::object(call, body).await?;
    let namespace = namespace_of(call, &object)?;
    let writer = writer(call)?;
    let record = front.resources.create(&call.kind, &namespace, object, &writer).await?;
    let mut response = answer::object(&front.resources, &call.kind, &record, call.form, 201)?;
    answer::warn(&mut response, &warnings);
    Ok(response)
}

pub async fn update(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let Decoded { object, warnings } = body::object(call, body).await?;
    let namespace = namespace_of(call, &object)?;
    check_name(call, &object)?;
    let name = &call.target.name;
    let writer = writer(call)?;
    let updated = front
        .resources
        .update(&call.kind, &namespace, name, object, &writer)
        .await?;
    let mut response = answer::object(&front.resources, &call.kind, &updated.record, call.form, updated.code())?;
    answer::warn(&mut response, &warnings);
    Ok(response)
}

pub async fn patch(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let (how, sent) = read_patch(call, body).await?;
    let writer = writer(call)?;
    let validation = call.params.field_validation;
    if how == PatchKind::Apply {
        check_applied(call, &sent.value)?;
    } else if call.params.force {
        let detail = "may not be specified for non-apply patch";
        return Err(patch_options(FieldError::forbidden(Path::new("force"), detail)));
    }
    let warnings = parking_lot::Mutex::new(Vec::new());
    let duplicates = sent.duplicates.clone();
    let check = |object: Value| {
        let sent = Sent {
            value: object,
            duplicates: duplicates.clone(),
        };
        let decoded = body::conform(&call.kind, sent, validation).map_err(|status| {
            if how != PatchKind::Apply && status.code == 400 {
                let field = FieldError::invalid(Path::new("patch"), Value::Null, status.message);
                Status::invalid(call.kind.subject(), &call.target.name, &[field])
            } else {
                status
            }
        })?;
        *warnings.lock() = decoded.warnings;
        // What is applied need not repeat the name, and has been checked.
        if how != PatchKind::Apply {
            check_place(call, &decoded.object)?;
        }
        Ok(decoded.object)
    };
    let namespace = call.target.namespace();
    let patch = (how, sent.value);
    let updated = front
        .resources
        .patch(&call.kind, namespace, &call.target.name, patch, &writer, check)
        .await?;
    let mut response = answer::object(&front.resources, &call.kind, &updated.record, call.form, updated.code())?;
    answer::warn(&mut response, &warnings.into_inner());
    Ok(response)
}

async fn read_patch(call: &Call, body: Body) -> Result<(PatchKind, Sent)> {
    let given = body::content_type(&call.headers);
    let accepted: &[PatchKind] = if call.kind.custom.is_some() {
        &[PatchKind::Json, PatchKind::Merge, PatchKind::Apply]
    } else {
        &PatchKind::ALL[..]
    };
    let how = PatchKind::from_content_type(given).filter(|how| accepted.contains(how));
    let Some(how) = how else {
        let accepted: Vec<&str> = accepted.iter().map(|how| how.content_type()).collect();
        return Err(Status::unsupported_media_type(given, &accepted));
    };
    let bytes = body::read(body).await?;
    let sent = match how {
        PatchKind::Apply => body::parse_yaml(&bytes)?,
        PatchKind::Json => {
            let value = serde_json::from_slice(&bytes)
                .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
            Sent {
                value,
                duplicates: Vec::new(),
            }
        }
        PatchKind::Merge | PatchKind::Strategic => body::parse_json(&bytes)
            .map_err(|status| Status::bad_request(format!("error decoding patch: {}", status.message)))?,
    };
    Ok((how, sent))
}

fn check_applied(call: &Call, applied: &Value) -> Result<()> {
    if call.params.field_manager.is_none() {
        let field = Path::new("fieldManager");
        return Err(patch_options(FieldError::required(
            field,
            "is required for apply patch",
        )));
    }
    for (field, shown) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if applied[field].as_str().unwrap_or_default().is_empty() {
            return Err(Status::bad_request(format!(
                "Object '{shown}' is missing in what is applied"
            )));
        }
    }
    if name_of(applied).is_empty() {
        return namespace_of(call, applied).map(|_| ());
    }
    check_place(call, applied)
}

/// An object in a request is the one that the path names.
fn check_place(call: &Call, object: &Value) -> Result<()> {
    check_name(call, object)?;
    namespace_of(call, object).map(|_| ())
}

fn check_name(call: &Call, object: &Value) -> Result<()> {
    let (name, given) = (&call.target.name, name_of(object));
    if given.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

fn patch_options(error: FieldError) -> Status {
    let subject = Subject {
        group: "meta.k8s.io",
        resource: "patchoptions",
        kind: "PatchOptions",
    };
    Status::invalid(subject, "", &[error])
}

pub async fn bind(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let bytes = body::read(body).await?;
    let binding = body::parse(&call.headers, &bytes)?.value;
    let writer = writer(call)?;
    let (namespace, name) = (call.target.namespace(), &call.target.name);
    front
        .resources
        .bind(&call.kind, namespace, name, &binding, &writer)
        .await?;
    Ok(answer::success(201, None))
}

pub async fn evict(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let bytes = body::read(body).await?;
    let eviction = body::parse(&call.headers, &bytes)?.value;
    check_name(call, &eviction)?;
    let (namespace, name) = (call.target.namespace(), &call.target.name);
    let dry_run = call.params.dry_run;
    front
        .resources
        .evict(&call.kind, namespace, name, &eviction, dry_run)
        .await?;
    Ok(answer::success(201, None))
}

pub async fn finalize(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let bytes = body::read(body).await?;
    let object = body::parse(&call.headers, &bytes)?.value;
    let writer = writer(call)?;
    let record = front
        .resources
        .finalize(&call.kind, &call.target.name, &object, &writer)
        .await?;
    answer::object(&front.resources, &call.kind, &record, call.form, 200)
}

pub async fn set_scale(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let bytes = body::read(body).await?;
    let scale = body::parse(&call.headers, &bytes)?.value;
    scaled(front, call, |_| Ok(scale.clone())).await
}

pub async fn patch_scale(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let (how, sent) = read_patch(call, body).await?;
    let patched = |live: &Value| match how {
        PatchKind::Json => patch::json(live, &sent.value),
        PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply => patch::merge(live, &sent.value),
    };
    scaled(front, call, patched).await
}

async fn scaled(front: &Front, call: &Call, next: impl Fn(&Value) -> Result<Value>) -> Result<Response> {
    let writer = writer(call)?;
    let (namespace, name) = (call.target.namespace(), &call.target.name);
    let checked = |live: &Value| {
        let scale = next(live)?;
        check_place(call, &scale)?;
        Ok(scale)
    };
    let record = front
        .resources
        .set_scale(&call.kind, namespace, name, checked, &writer)
        .await?;
    Ok(answer::json(
        200,
        &list::scale_of(&front.resources, &call.kind, &record)?,
    ))
}

pub async fn delete(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let options = delete_options(call, body).await?;
    let (namespace, name) = (call.target.namespace(), &call.target.name);
    let kind = &call.kind;
    match front.resources.delete(kind, namespace, name, &options).await? {
        Deleted::Marked(record) => answer::object(&front.resources, kind, &record, call.form, 200),
        // These kinds answer with what they were, as in Kubernetes; all others with a Status.
        Deleted::Gone(record)
            if matches!(kind.kind.as_str(), "Pod" | "Service" | "ServiceAccount") && kind.custom.is_none() =>
        {
            answer::object(&front.resources, kind, &record, Form::Whole, 200)
        }
        Deleted::Gone(record) => {
            let object = front.resources.decode(kind, &record)?;
            let mut details = value!({"name": name, "kind": kind.plural, "uid": object["metadata"]["uid"]});
            if !kind.group.is_empty() {
                details["group"] = kind.group.as_str().into();
            }
            Ok(answer::success(200, Some(details)))
        }
    }
}

pub async fn delete_all(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let options = delete_options(call, body).await?;
    let found = list::find(&front.resources, call)?;
    let mut items = Vec::with_capacity(found.records.len());
    for record in &found.records {
        let object = front.resources.decode(&call.kind, record)?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        match front
            .resources
            .delete(&call.kind, namespace, name_of(&object), &options)
            .await
        {
            Ok(_) => items.push(object),
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let kind = format!("{}List", call.kind.kind);
    let metadata = value!({"resourceVersion": found.version.to_string()});
    Ok(answer::json(
        200,
        &value!({"kind": kind, "apiVersion": call.kind.api_version(), "metadata": metadata, "items": items}),
    ))
}

async fn delete_options(call: &Call, body: Body) -> Result<DeleteOptions> {
    let bytes = body::read(body).await?;
    let given = if bytes.is_empty() {
        Value::Null
    } else {
        let mut options = body::parse(&call.headers, &bytes)?.value;
        if let Some(shape) = shape::builtin("", "v1", "DeleteOptions") {
            strict::normalize(&mut options, &shape, "v1", "DeleteOptions")?;
        }
        options
    };
    DeleteOptions::parse(&given, |name| call.params.get(name))
}

/// The field manager is the one that was named, else the client's program, as kube-apiserver takes it.
fn writer(call: &Call) -> Result<Writer> {
    let agent = call
        .headers
        .get(header::USER_AGENT)
        .and_then(|value| value.to_str().ok());
    let program = agent.and_then(|agent| agent.split('/').next()).unwrap_or("unknown");
    let manager: String = match call.params.field_manager.as_deref() {
        Some(name) => checked_manager(name)?,
        None => program.chars().filter(|c| !c.is_control()).take(128).collect(),
    };
    Ok(Writer {
        manager,
        dry_run: call.params.dry_run,
        force: call.params.force,
        subresource: call.target.subresource.clone(),
    })
}

fn checked_manager(name: &str) -> Result<String> {
    let field = Path::new("fieldManager");
    if name.len() > 128 {
        let detail = "may not be more than 128 bytes";
        return Err(patch_options(FieldError::new(
            FieldProblem::TooLong,
            field,
            None,
            detail,
        )));
    }
    if name.chars().any(char::is_control) {
        let detail = "has a character that can not be printed";
        return Err(patch_options(FieldError::invalid(field, name.into(), detail)));
    }
    Ok(name.to_owned())
}

/// The path's namespace; an object may repeat it, but not name another one.
fn namespace_of(call: &Call, object: &Value) -> Result<String> {
    let given = object["metadata"]["namespace"].as_str().unwrap_or_default();
    if !call.kind.namespaced {
        return Ok(String::new());
    }
    let namespace = call.target.namespace();
    if !given.is_empty() && given != namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(namespace.to_owned())
}
