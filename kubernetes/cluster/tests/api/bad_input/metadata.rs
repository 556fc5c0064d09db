//! Names, labels, annotations, owners: what every kind has.

use serde_json::{Value, json};

use super::{Desk, but, config_map};
use crate::request::{post, put};

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";

#[test]
fn an_invalid_name_is_refused() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    for name in ["A", "a_b", "-a", "a-", "a..b", "a/b", "a b", &"a".repeat(254)] {
        let request = post(&maps).json(&config_map(name));
        desk.refuses(name, request, 422, "Invalid", &[(INVALID, "metadata.name")]);
    }
    let none = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    desk.refuses(
        "no name",
        post(&maps).json(&none),
        422,
        "Invalid",
        &[(REQUIRED, "metadata.name")],
    );
    let prefix =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "A_"}});
    let causes = [(INVALID, "metadata.generateName"), (INVALID, "metadata.name")];
    desk.refuses("generateName", post(&maps).json(&prefix), 422, "Invalid", &causes);
}

#[test]
fn a_namespace_has_no_dots_in_its_name() {
    let desk = Desk::new();
    let create = |name: &str| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        post("/api/v1/namespaces").json(&object)
    };
    for name in ["a.b", "A"] {
        desk.refuses(name, create(name), 422, "Invalid", &[(INVALID, "metadata.name")]);
    }
    // Its name is also the value of a label.
    let causes = [(INVALID, "metadata.name"), (INVALID, "metadata.labels")];
    desk.refuses("too long", create(&"a".repeat(64)), 422, "Invalid", &causes);
}

#[test]
fn a_role_may_have_any_name_that_can_stand_in_a_path() {
    let desk = Desk::new();
    let roles = desk.group("rbac.authorization.k8s.io/v1", "roles");
    let role = |name: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": []});
    desk.have(&roles, &role("system:a_B"));
    for name in ["a/b", "a%b", "..", "."] {
        let request = post(&roles).json(&role(name));
        desk.refuses(name, request, 422, "Invalid", &[(INVALID, "metadata.name")]);
    }
}

fn with(field: &str, value: Value) -> Value {
    but(&config_map("a"), &format!("/metadata/{field}"), value)
}

#[test]
fn an_invalid_label_is_refused() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    for labels in [
        json!({"a b": "c"}),
        json!({"": "c"}),
        json!({"a/b/c": "d"}),
        json!({"UPPER.example.com/a": "b"}),
        json!({("a".repeat(64)): "b"}),
        json!({"a": "b c"}),
        json!({"a": "-b"}),
        json!({"a": "b".repeat(64)}),
    ] {
        let request = post(&maps).json(&with("labels", labels.clone()));
        desk.refuses(
            &labels.to_string(),
            request,
            422,
            "Invalid",
            &[(INVALID, "metadata.labels")],
        );
    }
}

#[test]
fn invalid_and_too_large_annotations_are_refused() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    for key in ["a b", "", "a/b/c"] {
        let request = post(&maps).json(&with("annotations", json!({key: "x"})));
        desk.refuses(key, request, 422, "Invalid", &[(INVALID, "metadata.annotations")]);
    }
    let large = with("annotations", json!({"a": "x".repeat(256 << 10)}));
    let causes = [("FieldValueTooLong", "metadata.annotations")];
    desk.refuses("too large", post(&maps).json(&large), 422, "Invalid", &causes);
    desk.have(&maps, &with("annotations", json!({"a": "x".repeat((256 << 10) - 1)})));
}

#[test]
fn invalid_owners_and_finalizers_are_refused() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    let whole = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "c"});
    for (field, at) in [
        ("apiVersion", "metadata.ownerReferences.apiVersion"),
        ("kind", "metadata.ownerReferences.kind"),
        ("name", "metadata.ownerReferences.name"),
        ("uid", "metadata.ownerReferences.uid"),
    ] {
        let owner = but(&whole, &format!("/{field}"), json!(""));
        let request = post(&maps).json(&with("ownerReferences", json!([owner])));
        desk.refuses(field, request, 422, "Invalid", &[(INVALID, at)]);
    }
    let leader = but(&whole, "/controller", json!(true));
    let two = json!([leader, but(&leader, "/uid", json!("d"))]);
    let request = post(&maps).json(&with("ownerReferences", two));
    desk.refuses(
        "two controllers",
        request,
        422,
        "Invalid",
        &[(INVALID, "metadata.ownerReferences")],
    );
    let unqualified = (INVALID, "metadata.finalizers[0]");
    for (finalizer, causes) in [
        ("a b", &[(INVALID, "metadata.finalizers"), unqualified][..]),
        ("", &[(INVALID, "metadata.finalizers"), unqualified]),
        ("plain", &[unqualified]),
        ("example.com/a b", &[(INVALID, "metadata.finalizers")]),
    ] {
        let request = post(&maps).json(&with("finalizers", json!([finalizer])));
        desk.refuses(finalizer, request, 422, "Invalid", causes);
    }
}

#[test]
fn what_path_and_body_say_of_name_and_namespace_must_agree() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    desk.have(&maps, &config_map("there"));
    let elsewhere = with("namespace", json!("default"));
    desk.refuses("create elsewhere", post(&maps).json(&elsewhere), 400, "BadRequest", &[]);
    let moved = but(&elsewhere, "/metadata/name", json!("there"));
    let there = desk.core("configmaps/there");
    desk.refuses("update elsewhere", put(&there).json(&moved), 400, "BadRequest", &[]);
    desk.refuses(
        "another name",
        put(&there).json(&config_map("b")),
        400,
        "BadRequest",
        &[],
    );
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    desk.refuses("no name", put(&there).json(&nameless), 400, "BadRequest", &[]);
}

#[test]
fn a_taken_name_is_a_conflict() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    desk.have(&maps, &config_map("a"));
    let changed = but(&config_map("a"), "/data/a", json!("2"));
    let status = desk.refuses("create", post(&maps).json(&changed), 409, "AlreadyExists", &[]);
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    let dry = post(&maps).query("dryRun=All").json(&changed);
    desk.refuses("dry run", dry, 409, "AlreadyExists", &[]);
}

#[test]
fn nothing_is_created_in_a_namespace_that_is_not_there() {
    let desk = Desk::new();
    let request = post("/api/v1/namespaces/berth-test-nowhere/configmaps").json(&config_map("a"));
    let status = desk.refuses("create", request, 404, "NotFound", &[]);
    assert_eq!(
        status["details"],
        json!({"name": "berth-test-nowhere", "kind": "namespaces"})
    );
}
