//! Delete: at once, or as a mark that finalizers, a grace period or dependents hold back.

use berth_apimachinery::status::{FieldError, Path, Result, Status, Subject};
use jiff::SignedDuration;
use serde_json::Value;

use super::{Resources, Writer, dry_run_record, metadata, with_body};
use crate::kinds::{Answer, Kind};
use crate::store::{Change, Record, Write, WriteError};

pub const FOREGROUND: &str = "foregroundDeletion";
pub const ORPHAN: &str = "orphan";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub propagation: Option<Propagation>,
    pub grace_seconds: Option<i64>,
    pub uid: Option<String>,
    pub version: Option<String>,
    pub dry_run: bool,
}

#[derive(Debug)]
pub enum Deleted {
    /// The object is gone. This was its last state.
    Gone(Record),
    /// The object is marked. It goes when nothing holds it any more.
    Marked(Record),
}

impl DeleteOptions {
    /// From the body of a request, or its query.
    pub fn parse(body: &Value, query: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let policy = text(&body["propagationPolicy"]).or_else(|| query("propagationPolicy"));
        let orphan = body["orphanDependents"].as_bool();
        let orphan = orphan.or_else(|| query("orphanDependents").map(|value| value == "true"));
        if policy.is_some() && orphan.is_some() {
            let detail = "orphanDependents and propagationPolicy can not both be given";
            let given = policy.unwrap_or_default();
            return Err(invalid_options(FieldError::invalid(
                Path::new("propagationPolicy"),
                given.into(),
                detail,
            )));
        }
        let propagation = match (policy.as_deref(), orphan) {
            (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
            (None, None) => None,
            (Some(other), _) => return Err(unknown_policy(other)),
        };
        let grace = match query("gracePeriodSeconds") {
            Some(text) => Some(text.parse().map_err(|_| {
                Status::bad_request(format!("gracePeriodSeconds: {text:?} is not a number"))
            })?),
            None => body["gracePeriodSeconds"].as_i64(),
        };
        let dry_run: Vec<&Value> = body["dryRun"].as_array().into_iter().flatten().collect();
        if dry_run.iter().any(|given| **given != "All") {
            let field = Path::new("dryRun");
            let error = FieldError::not_supported(field, &body["dryRun"], &["All"]);
            return Err(invalid_options(error));
        }
        Ok(Self {
            propagation,
            grace_seconds: grace,
            uid: text(&body["preconditions"]["uid"]),
            version: text(&body["preconditions"]["resourceVersion"]),
            dry_run: !dry_run.is_empty() || query("dryRun").is_some(),
        })
    }
}

fn unknown_policy(given: &str) -> Status {
    let supported = ["Foreground", "Background", "Orphan", "nil"];
    let field = Path::new("propagationPolicy");
    invalid_options(FieldError::not_supported(field, &given.into(), &supported))
}

fn invalid_options(error: FieldError) -> Status {
    let subject = Subject {
        group: "meta.k8s.io",
        resource: "deleteoptions",
        kind: "DeleteOptions",
    };
    Status::invalid(subject, "", &[error])
}

impl Resources {
    pub async fn delete(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deleted> {
        let key = self.key(kind, namespace, name);
        if let Some(why) = (kind.deletion().refusal)(name) {
            return Err(Status::forbidden(kind.subject(), name, why));
        }
        loop {
            let (version, live) = self.live(kind, namespace, name)?;
            check_preconditions(kind, name, &live, options)?;
            let mut next = live.clone();
            self.mark(kind, &mut next, options);
            let gone = metadata::can_be_removed(kind, &next);
            if !gone && next == live {
                return Ok(Deleted::Marked(self.get(kind, namespace, name)?));
            }
            if kind.generation && !metadata::is_deleting(&live) {
                let generation = next["metadata"]["generation"].as_i64().unwrap_or_default();
                next["metadata"]["generation"] = (generation + 1).into();
            }
            let shown = if gone && kind.deletion().answer == Answer::MarkedObject {
                Some(self.draft(kind, next.clone())?)
            } else {
                None
            };
            if gone {
                // Watchers see the object as it was stored, without a mark that never was.
                next = live;
            }
            let draft = self.draft(kind, next)?;
            if options.dry_run {
                let record = dry_run_record(&draft, Some(version));
                return Ok(if gone {
                    Deleted::Gone(record)
                } else {
                    Deleted::Marked(record)
                });
            }
            let change = if gone {
                Change::Delete(version, draft)
            } else {
                Change::Update(version, draft)
            };
            let write = Write {
                key: key.clone(),
                change,
                guard: None,
            };
            match self.store.commit(write).await {
                Ok(record) if gone => return Ok(Deleted::Gone(with_body(record, shown))),
                Ok(record) => return Ok(Deleted::Marked(record)),
                // Preconditions are checked again with the new state.
                Err(WriteError::Stale) => {}
                Err(error) => return Err(self.to_status(kind, &key, error)),
            }
        }
    }

    /// Sets the deletion timestamp, the grace period and the finalizers that the request needs.
    fn mark(&self, kind: &Kind, object: &mut Value, options: &DeleteOptions) {
        let deletion = kind.deletion();
        let grace = deletion.grace.map(|grace| grace(object, options.grace_seconds));
        let before = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
        let is_shorter = |grace: i64| before.is_none_or(|before| grace < before);
        if !metadata::is_deleting(object) || grace.is_some_and(is_shorter) {
            let at = self.clock.now();
            let wait = SignedDuration::from_secs(grace.unwrap_or_default());
            let at = at.checked_add(wait).unwrap_or(at);
            let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            object["metadata"]["deletionTimestamp"] = at.into();
            if let Some(grace) = grace {
                object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
            }
        }
        let mut finalizers: Vec<String> =
            metadata::finalizers(object).into_iter().map(str::to_owned).collect();
        if let Some(propagation) = options.propagation {
            finalizers.retain(|f| f != FOREGROUND && f != ORPHAN);
            match propagation {
                Propagation::Background => {}
                Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
                Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
            }
        }
        if let Some(finalizer) = deletion.content_finalizer
            && self.has_resources(object)
            && !finalizers.iter().any(|f| f == finalizer)
        {
            finalizers.push(finalizer.to_owned());
        }
        metadata::set_finalizers(object, &finalizers);
        (deletion.mark)(object);
    }

    fn has_resources(&self, definition: &Value) -> bool {
        let table = definition["metadata"]["name"].as_str().unwrap_or_default();
        let page = self.store.list(table, &crate::store::Range::default());
        page.is_ok_and(|page| !page.records.is_empty())
    }
}

fn check_preconditions(
    kind: &Kind,
    name: &str,
    live: &Value,
    options: &DeleteOptions,
) -> Result<()> {
    let differs = |given: &Option<String>, field: &str| {
        let found = live["metadata"][field].as_str().unwrap_or_default();
        let given = given.as_deref().filter(|given| *given != found)?;
        Some((given.to_owned(), found.to_owned()))
    };
    let failed = if let Some((given, found)) = differs(&options.uid, "uid") {
        format!("UID in precondition: {given}, UID in object meta: {found}")
    } else if let Some((given, found)) = differs(&options.version, "resourceVersion") {
        format!("ResourceVersion in precondition: {given}, ResourceVersion in object meta: {found}")
    } else {
        return Ok(());
    };
    let why = format!("Precondition failed: {failed}");
    Err(Status::conflict(kind.subject(), name, why))
}

impl Resources {
    /// A delete by the server's own loops. It is not an error if the object has gone or has
    /// changed.
    pub(crate) async fn collect(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) {
        if let Err(status) = self.delete(kind, namespace, name, &options).await
            && status.code != 404
            && status.code != 409
        {
            tracing::warn!(kind = kind.kind, namespace, name, %status, "cannot delete the object");
        }
    }

    /// A change by the server's own loops. It is not an error if the object has gone.
    pub(crate) async fn adjust(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        writer: &Writer,
        next: impl Fn(&Value) -> Option<Value>,
    ) {
        let change = self.change(kind, namespace, name, writer, usize::MAX, |live| {
            Ok(next(live).unwrap_or_else(|| live.clone()).into())
        });
        if let Err(status) = change.await
            && status.code != 404
        {
            tracing::warn!(kind = kind.kind, namespace, name, %status, "cannot update the object");
        }
    }
}
