//! Jobs, as objects: nothing makes their pods.

use berth_apimachinery::columns::{self, AGE, Column, NAME, number};
use berth_apimachinery::selectors::SelectableField;
use berth_apimachinery::status::{FieldError, Path};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};

use super::built_in::{BuiltIn, Change, schema_of};
use crate::rules::defaults::fill;
use crate::rules::workload::{self, CONTAINERS, IMAGES, SELECTOR};
use crate::rules::{Errors, one_of, pod_template};

pub static KIND: BuiltIn = BuiltIn {
    group: "batch",
    kind: "Job",
    plural: "jobs",
    categories: &["all"],
    status: true,
    generation: true,
    schema: schema_of::<Job>,
    default,
    admit_create,
    check,
    columns: &[
        NAME,
        Column::made("Status", |job, _| json!(status_word(job))),
        Column::made("Completions", |job, _| json!(completions(job))),
        Column::made("Duration", duration),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    selectable: Some(SELECTABLE),
    ..BuiltIn::PLAIN
};

const SELECTABLE: &[SelectableField] =
    &[SelectableField::stored_at("status.successful", &["status.succeeded"]).or("0")];

fn default(object: &mut Value) {
    let spec = &mut object["spec"];
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        fill(spec, &json!({"completions": 1}));
    }
    let replacement = if spec["podFailurePolicy"].is_null() {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    let backoff = if spec["backoffLimitPerIndex"].is_null() {
        6
    } else {
        i32::MAX
    };
    let defaults = json!({
        "parallelism": 1,
        "backoffLimit": backoff,
        "completionMode": "NonIndexed",
        "suspend": false,
        "manualSelector": false,
        "podReplacementPolicy": replacement,
    });
    fill(spec, &defaults);
    workload::default_template(spec);
}

const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

/// The labels by which a Job knows its pods. The shorter names are the older ones.
fn own_labels(object: &Value) -> [(&'static str, Value); 4] {
    let (name, uid) = (&object["metadata"]["name"], &object["metadata"]["uid"]);
    [
        (UID_LABEL, uid.clone()),
        ("batch.kubernetes.io/job-name", name.clone()),
        ("controller-uid", uid.clone()),
        ("job-name", name.clone()),
    ]
}

/// A Job selects its pods by its own UID, unless `manualSelector` is set.
fn admit_create(object: &mut Value) {
    if object["spec"]["manualSelector"] == true {
        return;
    }
    let labels: Value = own_labels(object).into_iter().collect();
    let by_uid = json!({UID_LABEL: labels[UID_LABEL]});
    let spec = &mut object["spec"];
    fill(&mut spec["template"]["metadata"]["labels"], &labels);
    fill(&mut spec["selector"]["matchLabels"], &by_uid);
}

/// The Job's own labels in its template must have the right values.
fn check_own_labels(object: &Value, errors: &mut Errors) {
    if object["spec"]["manualSelector"] == true {
        return;
    }
    let given = &object["spec"]["template"]["metadata"]["labels"];
    for (label, value) in own_labels(object)
        .iter()
        .filter(|(label, value)| given[label] != *value)
    {
        let field = Path::new("spec.template.metadata.labels").key(label);
        let detail = format!("must be '{}'", value.as_str().unwrap_or_default());
        errors.push(FieldError::invalid(field, given.clone(), detail));
    }
}

fn check(object: &Value, change: &Change<'_>, errors: &mut Errors) {
    let spec = &object["spec"];
    let path = Path::new("spec");
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ] {
        if spec[name].as_i64().is_some_and(|given| given < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(path.child(name), spec[name].clone(), detail));
        }
    }
    one_of(spec, "completionMode", &["NonIndexed", "Indexed"], &path, errors);
    if spec["completionMode"] == "Indexed" && spec["completions"].is_null() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(path.child("completions"), detail));
    }
    workload::check_selector(spec, &path, errors);
    let template = path.child("template").child("spec");
    pod_template::check(&spec["template"]["spec"], &template, errors);
    check_restart_policy(&spec["template"]["spec"]["restartPolicy"], template, errors);
    match change.old {
        Some(old) => check_change(spec, &old["spec"], errors),
        None => check_own_labels(object, errors),
    }
}

/// The pods of a Job must end, so they can't always restart.
fn check_restart_policy(policy: &Value, template: Path, errors: &mut Errors) {
    let field = template.child("restartPolicy");
    match policy.as_str() {
        Some("Always") => {
            let detail = r#"valid values: "OnFailure", "Never""#;
            errors.push(FieldError::required(field, detail));
        }
        None | Some("OnFailure" | "Never") => {}
        Some(_) => errors.push(FieldError::not_supported(field, policy, &["OnFailure", "Never"])),
    }
}

fn check_change(new: &Value, old: &Value, errors: &mut Errors) {
    let template = if old["suspend"] == true {
        with_old_scheduling(new, old)
    } else {
        new["template"].clone()
    };
    for name in ["completions", "selector", "template", "completionMode"] {
        let value = if name == "template" { &template } else { &new[name] };
        if *value != old[name] {
            let field = Path::new("spec").child(name);
            errors.push(FieldError::immutable(field, &new[name]));
        }
    }
}

/// The new template with the scheduling fields of the old one. A suspended Job may change these
/// fields.
fn with_old_scheduling(new: &Value, old: &Value) -> Value {
    let mut template = new["template"].clone();
    for (parent, name) in [
        ("metadata", "annotations"),
        ("metadata", "labels"),
        ("spec", "affinity"),
        ("spec", "nodeSelector"),
        ("spec", "schedulingGates"),
        ("spec", "tolerations"),
    ] {
        let Some(fields) = template[parent].as_object_mut() else {
            continue;
        };
        match old["template"][parent].get(name) {
            Some(value) => drop(fields.insert(name.to_owned(), value.clone())),
            None => drop(fields.remove(name)),
        }
    }
    template
}

fn status_word(job: &Value) -> &str {
    let conditions = columns::list(job, "/status/conditions");
    let holds = |kind: &str| {
        let held =
            |c: &Value| columns::text(c, "/type") == kind && columns::text(c, "/status") == "True";
        conditions.iter().any(held)
    };
    if holds("Complete") {
        return "Complete";
    }
    if holds("Failed") {
        return "Failed";
    }
    if job.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating";
    }
    let others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    others.into_iter().find(|kind| holds(kind)).unwrap_or("Running")
}

fn completions(job: &Value) -> String {
    let succeeded = number(job, "/status/succeeded");
    match (job.pointer("/spec/completions"), number(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, several @ 2..) => format!("{succeeded}/1 of {several}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, now: Timestamp) -> Value {
    match columns::text(job, "/status/startTime") {
        "" => json!(""),
        start => {
            let end = columns::text(job, "/status/completionTime").parse().unwrap_or(now);
            json!(columns::since_text(start, end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_apimachinery::columns::cells;

    fn job() -> Value {
        let container = json!({"name": "c", "image": "x"});
        let pod = json!({"restartPolicy": "Never", "containers": [container]});
        let mut job = json!({
            "metadata": {"name": "j", "uid": "u"},
            "spec": {"template": {"spec": pod}},
        });
        default(&mut job);
        admit_create(&mut job);
        job
    }

    fn refused(job: &Value, old: Option<&Value>) -> Vec<String> {
        let mut errors = Errors::new();
        check(
            job,
            &Change {
                old,
                subresource: "",
                now: "",
            },
            &mut errors,
        );
        errors.iter().map(|error| error.field.to_string()).collect()
    }

    #[test]
    fn a_new_job_selects_its_pods_by_its_uid() {
        let job = job();
        let selector = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}});
        assert_eq!(job["spec"]["selector"], selector);
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        assert_eq!(job["spec"]["completions"], 1);
        assert_eq!(refused(&job, None), [] as [&str; 0]);
    }

    #[test]
    fn a_job_can_not_bring_the_labels_of_another_one() {
        let mut job = job();
        job["metadata"]["uid"] = "other".into();
        let path = "spec.template.metadata.labels";
        let wrong = [format!("{path}[{UID_LABEL}]"), format!("{path}[controller-uid]")];
        assert_eq!(refused(&job, None), wrong);
    }

    #[test]
    fn the_pods_of_a_job_have_to_end() {
        let mut job = job();
        job["spec"]["template"]["spec"]["restartPolicy"] = "Always".into();
        assert_eq!(refused(&job, None), ["spec.template.spec.restartPolicy"]);
    }

    #[test]
    fn where_pods_may_run_changes_only_while_a_job_is_suspended() {
        let mut old = job();
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
        new["spec"]["completions"] = 2.into();
        let fixed = ["spec.completions", "spec.template"];
        assert_eq!(refused(&new, Some(&old)), fixed);
        old["spec"]["suspend"] = true.into();
        assert_eq!(refused(&new, Some(&old)), fixed[..1]);
    }

    #[test]
    fn a_job_shows_how_far_it_is() {
        let mut job = job();
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let shown = |job: &Value| json!(cells(KIND.columns, job, now)[1..4]);
        assert_eq!(shown(&job), json!(["Running", "0/1", ""]));
        job["status"] = json!({
            "succeeded": 1,
            "conditions": [{"type": "Complete", "status": "True"}],
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:00:30Z",
        });
        assert_eq!(shown(&job), json!(["Complete", "1/1", "30s"]));
    }
}
