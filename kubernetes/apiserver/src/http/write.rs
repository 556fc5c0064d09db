//! Writes: from a body to an operation of the API.

use axum::body::Body;
use axum::response::Response;
use berth_apimachinery::patch::PatchKind;
use berth_apimachinery::shape::{self, strict};
use berth_apimachinery::status::{FieldError, Path, Result, Status, Subject};
use http::header;
use serde_json::{Value, json as value};

use super::answer::{self, Form};
use super::call::{Call, Front};
use super::{body, list};
use crate::decode::{self, Decoded, Sent, name_of};
use crate::kinds::Answer;
use crate::resources::{DeleteOptions, Deleted, NewScale, Patch, Updated, Writer};

pub async fn create(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let Decoded { object, warnings } = body::object(call, body).await?;
    let namespace = namespace_of(call, &object)?;
    let writer = writer(call)?;
    let record = front.resources.create(&call.kind, namespace, object, &writer).await?;
    let mut response = answer::object(&front.resources, &call.kind, &record, call.form, 201)?;
    answer::warn(&mut response, &warnings);
    Ok(response)
}

pub async fn update(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let Decoded { object, warnings } = body::object(call, body).await?;
    let namespace = namespace_of(call, &object)?;
    let name = &call.target.name;
    decode::check_name(name, &object)?;
    let writer = writer(call)?;
    let updating = front.resources.update(&call.kind, namespace, name, object, &writer);
    let updated = Updated {
        warnings,
        ..updating.await?
    };
    answer_updated(front, call, updated)
}

pub async fn patch(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let (kind, sent) = read_patch(call, body).await?;
    let writer = writer(call)?;
    if kind == PatchKind::Apply {
        check_applied(call, &sent.value)?;
    } else if call.params.force {
        let detail = "may not be specified for non-apply patch";
        return Err(patch_options(FieldError::forbidden(Path::new("force"), detail)));
    }
    let patch = Patch {
        kind,
        sent,
        validation: call.params.field_validation,
    };
    let (namespace, name) = (call.target.namespace(), &call.target.name);
    let patching = front.resources.patch(&call.kind, namespace, name, &patch, &writer);
    answer_updated(front, call, patching.await?)
}

fn answer_updated(front: &Front, call: &Call, updated: Updated) -> Result<Response> {
    let (record, code) = (&updated.record, updated.code());
    let mut response = answer::object(&front.resources, &call.kind, record, call.form, code)?;
    answer::warn(&mut response, &updated.warnings);
    Ok(response)
}

async fn read_patch(call: &Call, body: Body) -> Result<(PatchKind, Sent)> {
    let given = body::content_type(&call.headers);
    let accepted: &[PatchKind] = if call.kind.is_custom() {
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
        PatchKind::Merge | PatchKind::Strategic => body::parse_json(&bytes).map_err(|status| {
            Status::bad_request(format!("error decoding patch: {}", status.message))
        })?,
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
    namespace_of(call, applied)?;
    // An applied configuration need not repeat the name.
    if name_of(applied).is_empty() {
        Ok(())
    } else {
        decode::check_name(&call.target.name, applied)
    }
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
    decode::check_name(&call.target.name, &eviction)?;
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
    scaled(front, call, &NewScale::Whole(scale)).await
}

pub async fn patch_scale(front: &Front, call: &Call, body: Body) -> Result<Response> {
    let (kind, sent) = read_patch(call, body).await?;
    scaled(front, call, &NewScale::Patch(kind, sent.value)).await
}

async fn scaled(front: &Front, call: &Call, new: &NewScale) -> Result<Response> {
    let writer = writer(call)?;
    let (namespace, name) = (call.target.namespace(), &call.target.name);
    let scaling = front.resources.set_scale(&call.kind, namespace, name, new, &writer);
    let record = scaling.await?;
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
        Deleted::Gone(record) if kind.deletion().answer != Answer::Status => {
            answer::object(&front.resources, kind, &record, Form::Whole, 200)
        }
        Deleted::Gone(record) => {
            let object = front.resources.decode(kind, &record)?;
            let mut details =
                value!({"name": name, "kind": kind.plural, "uid": object["metadata"]["uid"]});
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

/// The field manager is the query parameter, else the program in User-Agent, as in kube-apiserver.
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
        return Err(patch_options(FieldError::too_long(field, detail)));
    }
    if name.chars().any(char::is_control) {
        let detail = "has a character that can not be printed";
        return Err(patch_options(FieldError::invalid(field, name.into(), detail)));
    }
    Ok(name.to_owned())
}

/// The path's namespace. An object may repeat it, but must not name another one.
fn namespace_of<'c>(call: &'c Call, object: &Value) -> Result<&'c str> {
    decode::check_namespace(&call.kind, call.target.namespace(), object)?;
    Ok(if call.kind.namespaced {
        call.target.namespace()
    } else {
        ""
    })
}
