//! The network of one Machine, and new Machines.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use berth_api::machines::Shape;
use berth_kit::watch::Key;
use kube::core::DynamicObject;

use super::super::Dashboard;
use super::super::answer::{json, refuse, refuse_fields};
use super::apply::{Mode, Target};
use super::{Refusal, TokenState, answer, authorize, parse, token};
use crate::form::machine::{self, MachineForm, shape};

fn target(shape: Shape, namespace: &str, name: &str) -> Target {
    Target {
        resource: shape.resource(),
        key: Key {
            namespace: namespace.trim().to_owned(),
            name: name.trim().to_owned(),
        },
    }
}

pub async fn read_cluster_scoped(
    dashboard: State<Dashboard>,
    Path((group, name)): Path<(String, String)>,
) -> Response {
    read(dashboard, Path((group, String::new(), name))).await
}

pub async fn read(
    State(dashboard): State<Dashboard>,
    Path((group, namespace, name)): Path<(String, String, String)>,
) -> Response {
    let shape = match shape(&group) {
        Ok(shape) => shape,
        Err(error) => return refuse_fields(StatusCode::NOT_FOUND, &[error]),
    };
    let target = target(shape, &namespace, &name);
    match target.read(&dashboard.options.client).await {
        Ok(Some(live)) => json(machine::view(shape, &live)),
        Ok(None) => refuse(StatusCode::NOT_FOUND, format!("there is no Machine {name}")),
        Err(error) => error.refusal(),
    }
}

fn read_form(body: &[u8]) -> Result<(MachineForm, Shape), Refusal> {
    let form: MachineForm = parse(body)?;
    let shape = form.shape();
    let shape = shape.map_err(|error| refuse_fields(StatusCode::UNPROCESSABLE_ENTITY, &[error]))?;
    Ok((form, shape))
}

/// As for a Cluster, only callers with the token get the dry-run write.
pub async fn check(
    State(dashboard): State<Dashboard>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let outcome = async {
        let (form, shape) = read_form(&body)?;
        let target = target(shape, &form.namespace, &form.name);
        let client = &dashboard.options.client;
        let live = target.read(client).await.map_err(|error| error.refusal())?;
        let check = |live: Option<&DynamicObject>| {
            machine::check(shape, live, &form, &dashboard.feed.index.read())
        };
        let state = token(&dashboard, &headers);
        let mut checked = check(live.as_ref());
        if state == TokenState::Good && checked.may_be_written() {
            let outcome = target.apply(client, Mode::DryRun, check).await;
            checked = outcome.checked(|| check(live.as_ref()))?;
        }
        Ok(answer(&dashboard, checked, state))
    };
    outcome.await.unwrap_or_else(|Refusal(refusal)| *refusal)
}

pub async fn apply(
    State(dashboard): State<Dashboard>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let outcome = async {
        authorize(&dashboard, &headers)?;
        let (form, shape) = read_form(&body)?;
        let check = |live: Option<&DynamicObject>| {
            machine::check(shape, live, &form, &dashboard.feed.index.read())
        };
        let target = target(shape, &form.namespace, &form.name);
        let outcome = target.apply(&dashboard.options.client, Mode::Write, check).await;
        Ok(json(outcome.applied(|live| machine::view(shape, live))?))
    };
    outcome.await.unwrap_or_else(|Refusal(refusal)| *refusal)
}
