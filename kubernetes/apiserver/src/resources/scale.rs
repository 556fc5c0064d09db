//! `/scale`: how many replicas an object should have, and has.

use berth_apimachinery::patch::{self, PatchKind};
use berth_apimachinery::selectors::Labels;
use berth_apimachinery::status::{FieldError, Path, Result, Status, Subject};
use serde_json::{Map, Value, json};

use super::update::version_of;
use super::{Resources, Writer};
use crate::decode;
use crate::kinds::{Kind, ScalePaths};
use crate::store::Record;

/// A new Scale as a whole, or a patch to the live one.
#[derive(Debug)]
pub enum NewScale {
    Whole(Value),
    Patch(PatchKind, Value),
}

impl NewScale {
    fn of(&self, live: &Value) -> Result<Value> {
        match self {
            Self::Whole(scale) => Ok(scale.clone()),
            Self::Patch(PatchKind::Json, body) => patch::json(live, body),
            Self::Patch(_, body) => patch::merge(live, body),
        }
    }
}

/// The Scale of an object.
pub fn scale(kind: &Kind, paths: &ScalePaths, object: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or_default();
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": number(&paths.spec_replicas)},
        "status": {"replicas": number(&paths.status_replicas)},
    });
    if scale["spec"]["replicas"] == 0 {
        // Go omits a zero here.
        scale["spec"] = json!({});
    }
    let selector = paths.label_selector.as_deref().and_then(|path| at(object, path));
    if let Some(selector) = selector {
        // Custom resources have the selector as text, built-in kinds as an object.
        let text = match selector.as_str() {
            Some(text) if kind.is_custom() => text.to_owned(),
            _ => selector_text(selector),
        };
        scale["status"]["selector"] = text.into();
    }
    scale
}

impl Resources {
    pub async fn set_scale(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        new: &NewScale,
        writer: &Writer,
    ) -> Result<Record> {
        let Some(paths) = &kind.scale else {
            return Err(Status::no_such_path());
        };
        let updated = self.change(kind, namespace, name, writer, usize::MAX, |live| {
            let scale = new.of(&scale(kind, paths, live))?;
            decode::check_name_and_namespace(kind, namespace, name, &scale)?;
            let replicas = replicas(&scale, name)?;
            let given = version_of(&scale);
            let found = live["metadata"]["resourceVersion"].as_str();
            if given.as_deref().is_some_and(|given| Some(given) != found) {
                return Err(Status::stale(kind.subject(), name));
            }
            let mut object = live.clone();
            if let Some(place) = at_mut(&mut object, &paths.spec_replicas) {
                *place = replicas.into();
            }
            Ok(object.into())
        });
        Ok(updated.await?.record)
    }
}

fn replicas(scale: &Value, name: &str) -> Result<i64> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if (0..=i64::from(i32::MAX)).contains(&replicas) {
        return Ok(replicas);
    }
    let subject = Subject {
        group: "autoscaling",
        resource: "scales",
        kind: "Scale",
    };
    let detail = "must be greater than or equal to 0";
    let error = FieldError::invalid(Path::new("spec.replicas"), replicas.into(), detail);
    Err(Status::invalid(subject, name, &[error]))
}

/// A label selector as a client would write it.
fn selector_text(selector: &Value) -> String {
    let parsed = serde_json::from_value(selector.clone()).ok();
    let labels = parsed.and_then(|selector| Labels::of(&selector).ok());
    labels.map(|labels| labels.to_string()).unwrap_or_default()
}

/// `.spec.replicas` in an object.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object.pointer(&path.replace('.', "/"))
}

fn at_mut<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut place = object;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = place.as_object_mut()?.entry(name).or_insert(Value::Null);
    }
    Some(place)
}
