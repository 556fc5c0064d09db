//! Writes a form over exactly the state that it was checked against.
//!
//! A write is a merge patch with the resourceVersion that was read, or a creation: the API server
//! refuses it if somebody else wrote in between. Then the object is read and checked again. A
//! change of only the status does not make the form out of date: the form carries the generation,
//! which only a change of the spec raises.

use axum::http::StatusCode;
use axum::response::Response;
use berth_kit::api_error::{is_conflict, is_not_found};
use berth_kit::watch::Key;
use kube::Api;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, Status};
use serde::Serialize;
use serde_json::json;
use tracing::info;

use super::super::answer::{refuse, refuse_fields};
use super::Refusal;
use crate::form::{Checked, FieldError};

const FIELD_MANAGER: &str = "berth-dashboard";

/// Enough attempts for one to succeed between the status writes of controllers.
const MAX_ATTEMPTS: usize = 20;

/// The target of a write.
pub struct Target {
    pub resource: ApiResource,
    pub key: Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The API server checks the write and stores nothing.
    DryRun,
    Write,
}

/// The result of a write.
#[derive(Debug)]
pub enum Outcome {
    Written(Box<DynamicObject>),
    /// The form is wrong, out of date, or changes nothing.
    Held(Checked),
    Failed(ApplyError),
}

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{kind} {name}: others changed it during each attempt; nothing was written")]
    Busy { kind: String, name: String },
    #[error("the document can't be sent: {0}")]
    Document(#[source] serde_json::Error),
    #[error("the API server: {0}")]
    Api(#[source] Box<kube::Error>),
}

impl From<kube::Error> for ApplyError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl Target {
    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match self.key.namespace.as_str() {
            "" => Api::all_with(client.clone(), &self.resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &self.resource),
        }
    }

    pub async fn read(&self, client: &Client) -> Result<Option<DynamicObject>, ApplyError> {
        // An empty name would ask for the list.
        if self.key.name.is_empty() {
            return Ok(None);
        }
        Ok(self.api(client).get_opt(&self.key.name).await?)
    }

    /// `check` gets the object as it is now.
    pub async fn apply(
        &self,
        client: &Client,
        mode: Mode,
        check: impl Fn(Option<&DynamicObject>) -> Checked,
    ) -> Outcome {
        for _ in 0..MAX_ATTEMPTS {
            let live = match self.read(client).await {
                Ok(live) => live,
                Err(error) => return Outcome::Failed(error),
            };
            let checked = check(live.as_ref());
            if !checked.may_be_written() {
                return Outcome::Held(checked);
            }
            match self.send(client, mode, live.as_ref(), &checked).await {
                Ok(_) if mode == Mode::DryRun => return Outcome::Held(checked),
                Ok(written) => {
                    let (kind, name) = (&self.resource.kind, &self.key.name);
                    info!(kind, name, namespace = self.key.namespace, "applied by the dashboard");
                    return Outcome::Written(Box::new(written));
                }
                Err(ApplyError::Api(error)) if is_conflict(&error) => {}
                Err(error) => return Outcome::Failed(error),
            }
        }
        Outcome::Failed(ApplyError::Busy {
            kind: self.resource.kind.clone(),
            name: self.key.name.clone(),
        })
    }

    async fn send(
        &self,
        client: &Client,
        mode: Mode,
        live: Option<&DynamicObject>,
        checked: &Checked,
    ) -> Result<DynamicObject, ApplyError> {
        let dry_run = mode == Mode::DryRun;
        let api = self.api(client);
        let mut document = checked.document.clone();
        let Some(live) = live else {
            let object = serde_json::from_value(document).map_err(ApplyError::Document)?;
            let params = PostParams {
                dry_run,
                field_manager: Some(FIELD_MANAGER.to_owned()),
            };
            return Ok(api.create(&params, &object).await?);
        };
        document["metadata"]["resourceVersion"] = json!(live.metadata.resource_version);
        let params = PatchParams {
            dry_run,
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        Ok(api.patch(&self.key.name, &params, &Patch::Merge(&document)).await?)
    }
}

impl Outcome {
    /// For a dry run: adds the API server's errors to those of the form.
    pub fn checked(self, again: impl FnOnce() -> Checked) -> Result<Checked, Refusal> {
        match self {
            Self::Written(_) => Ok(again()),
            Self::Held(checked) => Ok(checked),
            Self::Failed(error) => {
                let Some(errors) = fields(&error) else {
                    return Err(error.refusal().into());
                };
                let mut checked = again();
                checked.errors.extend(errors);
                Ok(checked)
            }
        }
    }

    /// For a real write.
    pub fn applied<T: Serialize>(
        self,
        view: impl FnOnce(&DynamicObject) -> T,
    ) -> Result<T, Refusal> {
        match self {
            Self::Written(object) => Ok(view(&object)),
            Self::Held(checked) => Err(held(&checked).into()),
            Self::Failed(error) => Err(match fields(&error) {
                Some(errors) => refuse_fields(StatusCode::UNPROCESSABLE_ENTITY, &errors).into(),
                None => error.refusal().into(),
            }),
        }
    }
}

fn held(checked: &Checked) -> Response {
    if let Some(conflict) = &checked.conflict {
        refuse(StatusCode::CONFLICT, conflict)
    } else if checked.errors.is_empty() {
        let text = "There is nothing to apply: the cluster has what the form says.";
        refuse(StatusCode::UNPROCESSABLE_ENTITY, text)
    } else {
        refuse_fields(StatusCode::UNPROCESSABLE_ENTITY, &checked.errors)
    }
}

/// The API server's errors about single fields.
fn fields(error: &ApplyError) -> Option<Vec<FieldError>> {
    let ApplyError::Api(error) = error else {
        return None;
    };
    let kube::Error::Api(status) = error.as_ref() else {
        return None;
    };
    matches!(status.code, 400 | 422).then(|| causes(status))
}

fn causes(status: &Status) -> Vec<FieldError> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let errors = causes.map(|cause| FieldError::new(&cause.field, &cause.message));
    let errors: Vec<FieldError> = errors.collect();
    if errors.is_empty() {
        vec![FieldError::new("", &status.message)]
    } else {
        errors
    }
}

impl ApplyError {
    pub fn refusal(&self) -> Response {
        let status = match self {
            Self::Busy { .. } => StatusCode::CONFLICT,
            Self::Document(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Api(error) if is_not_found(error) => StatusCode::NOT_FOUND,
            Self::Api(error) => match error.as_ref() {
                kube::Error::Api(status) if status.code == 403 => {
                    let hint = "apply deploy/rbac/dashboard-write.yaml, so that the forms can be \
                                used";
                    return refuse(StatusCode::FORBIDDEN, format!("{}: {hint}", status.message));
                }
                _ => StatusCode::BAD_GATEWAY,
            },
        };
        refuse(status, self)
    }
}
