//! The machine network of a Cluster.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use berth_api::machines::cluster::resource;
use berth_kit::watch::Key;
use kube::core::DynamicObject;

use super::super::Dashboard;
use super::super::answer::{json, refuse};
use super::apply::{Mode, Outcome, Target};
use super::{Refusal, TokenState, answer, authorize, parse, token};
use crate::form::Checked;
use crate::form::cluster::{self, ClusterForm};

fn target(name: String) -> Target {
    let namespace = String::new();
    Target {
        resource: resource(),
        key: Key { namespace, name },
    }
}

fn gone(name: &str) -> Response {
    refuse(StatusCode::NOT_FOUND, format!("there is no Cluster {name}"))
}

pub async fn read(State(dashboard): State<Dashboard>, Path(name): Path<String>) -> Response {
    match target(name.clone()).read(&dashboard.options.client).await {
        Ok(Some(live)) => json(cluster::view(&live)),
        Ok(None) => gone(&name),
        Err(error) => error.refusal(),
    }
}

/// Every caller's form is checked by the rules of the controllers. With the token, the API server
/// also checks it, by a dry-run write.
pub async fn check(
    State(dashboard): State<Dashboard>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let outcome = async {
        let form: ClusterForm = parse(&body)?;
        let target = target(name.clone());
        let client = &dashboard.options.client;
        let live = target.read(client).await.map_err(|error| error.refusal())?;
        let live = live.ok_or_else(|| gone(&name))?;
        let check =
            |live: &DynamicObject| cluster::check(live, &form, &dashboard.feed.index.read());
        let state = token(&dashboard, &headers);
        let mut checked = check(&live);
        if state == TokenState::Good && checked.may_be_written() {
            let again = |now: Option<&DynamicObject>| check(now.unwrap_or(&live));
            let outcome = target.apply(client, Mode::DryRun, again).await;
            checked = outcome.checked(|| check(&live))?;
        }
        Ok(answer(&dashboard, checked, state))
    };
    outcome.await.unwrap_or_else(|Refusal(refusal)| *refusal)
}

pub async fn apply(
    State(dashboard): State<Dashboard>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let outcome = async {
        authorize(&dashboard, &headers)?;
        let form: ClusterForm = parse(&body)?;
        let check = |live: Option<&DynamicObject>| match live {
            Some(live) => cluster::check(live, &form, &dashboard.feed.index.read()),
            None => Checked {
                conflict: Some(format!("There is no Cluster {name}. Nothing was written.")),
                ..Checked::default()
            },
        };
        let target = target(name.clone());
        let outcome: Outcome = target.apply(&dashboard.options.client, Mode::Write, check).await;
        Ok(json(outcome.applied(cluster::view)?))
    };
    outcome.await.unwrap_or_else(|Refusal(refusal)| *refusal)
}
