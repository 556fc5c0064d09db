//! Patches that cannot be read, do not apply, or lead to something invalid.

use serde_json::{Value, json};

use super::{Desk, config_map, deployment};
use crate::request::{delete, get, patch};

fn patched(desk: &Desk) -> String {
    desk.have(&desk.group("apps/v1", "deployments"), &deployment("web"));
    desk.group("apps/v1", "deployments/web")
}

#[test]
fn a_json_patch_that_does_not_apply_is_invalid() {
    let desk = Desk::new();
    let path = patched(&desk);
    for (what, operation) in [
        ("test", json!({"op": "test", "path": "/spec/replicas", "value": 7})),
        (
            "replace nothing",
            json!({"op": "replace", "path": "/spec/nothing/here", "value": 7}),
        ),
        (
            "remove nothing",
            json!({"op": "remove", "path": "/metadata/labels/none"}),
        ),
        (
            "add beyond the end",
            json!({"op": "add", "path": "/spec/template/spec/containers/9", "value": {}}),
        ),
        (
            "move nothing",
            json!({"op": "move", "from": "/spec/nothing", "path": "/spec/replicas"}),
        ),
    ] {
        let request = patch(&path).of_type("json", &json!([operation]));
        desk.refuses(what, request, 422, "Invalid", &[]);
    }
}

#[test]
fn a_patch_that_cannot_be_read_is_a_bad_request() {
    let desk = Desk::new();
    let path = patched(&desk);
    for (content_type, text) in [
        ("application/json-patch+json", "{"),
        ("application/json-patch+json", r#"{"op": "remove"}"#),
        ("application/merge-patch+json", "{"),
        ("application/merge-patch+json", "[]"),
        ("application/merge-patch+json", "7"),
        ("application/strategic-merge-patch+json", "{"),
        ("application/strategic-merge-patch+json", "[]"),
        ("application/apply-patch+yaml", "a: b: c"),
        ("application/apply-patch+yaml", "- a"),
    ] {
        let request = patch(&path).query("fieldManager=m").body(content_type, text);
        desk.refuses(&format!("{content_type} {text}"), request, 400, "BadRequest", &[]);
    }
    let operation = patch(&path).of_type("json", &json!([{"op": "frobnicate", "path": "/spec"}]));
    desk.refuses("an unknown operation", operation, 422, "Invalid", &[]);
}

#[test]
fn a_patch_to_an_invalid_object_is_refused_by_field() {
    let desk = Desk::new();
    let path = patched(&desk);
    let body = json!({"spec": {"replicas": -1}});
    for kind in ["merge", "strategic"] {
        let request = patch(&path).of_type(kind, &body);
        desk.refuses(kind, request, 422, "Invalid", &[("FieldValueInvalid", "spec.replicas")]);
    }
    let operation = json!([{"op": "replace", "path": "/spec/replicas", "value": -1}]);
    let request = patch(&path).of_type("json", &operation);
    desk.refuses(
        "json",
        request,
        422,
        "Invalid",
        &[("FieldValueInvalid", "spec.replicas")],
    );
    let request = patch(&path).of_type("merge", &json!({"metadata": {"labels": {"a": "b c"}}}));
    desk.refuses(
        "label",
        request,
        422,
        "Invalid",
        &[("FieldValueInvalid", "metadata.labels")],
    );
}

#[test]
fn a_patch_to_a_value_of_the_wrong_type_is_refused() {
    let desk = Desk::new();
    let path = patched(&desk);
    let merge = patch(&path).of_type("merge", &json!({"spec": {"replicas": "many"}}));
    desk.refuses("merge", merge, 422, "Invalid", &[("FieldValueInvalid", "patch")]);
    let operation = json!([{"op": "replace", "path": "/spec/replicas", "value": "many"}]);
    let json = patch(&path).of_type("json", &operation);
    desk.refuses("json", json, 422, "Invalid", &[("FieldValueInvalid", "patch")]);
    let strategic = patch(&path).of_type("strategic", &json!({"spec": {"replicas": "many"}}));
    desk.refuses(
        "strategic",
        strategic,
        422,
        "Invalid",
        &[("FieldValueInvalid", "patch")],
    );
}

#[test]
fn an_unknown_field_in_a_patch_is_refused_when_strict() {
    let desk = Desk::new();
    let path = patched(&desk);
    let body = json!({"spec": {"extra": 1}});
    for kind in ["merge", "strategic"] {
        let request = patch(&path).query("fieldValidation=Strict").of_type(kind, &body);
        let status = desk.refuses(kind, request, 422, "Invalid", &[("FieldValueInvalid", "patch")]);
        assert!(
            status["message"]
                .as_str()
                .unwrap()
                .contains(r#"unknown field "spec.extra""#),
            "{status}"
        );
        let warned = patch(&path).of_type(kind, &body).send();
        assert_eq!(warned.warnings(), [r#"unknown field "spec.extra""#], "{kind}");
        warned.expect(200);
    }
    let operation = json!([{"op": "add", "path": "/spec/extra", "value": 1}]);
    let request = patch(&path).query("fieldValidation=Strict").of_type("json", &operation);
    desk.refuses("json", request, 422, "Invalid", &[("FieldValueInvalid", "patch")]);
}

#[test]
fn a_patch_can_not_give_another_name_or_namespace() {
    let desk = Desk::new();
    let path = patched(&desk);
    for (what, metadata) in [
        ("name", json!({"name": "other"})),
        ("namespace", json!({"namespace": "other"})),
    ] {
        let request = patch(&path).of_type("merge", &json!({"metadata": metadata}));
        desk.refuses(what, request, 400, "BadRequest", &[]);
    }
}

#[test]
fn an_apply_says_who_applies_what() {
    let desk = Desk::new();
    let path = desk.core("configmaps/a");
    let apply = |query: &str, body: &Value| patch(&path).query(query).of_type("apply", body);
    let named = "fieldManager=m";
    let whole = config_map("a");
    let causes = [("FieldValueRequired", "fieldManager")];
    desk.refuses("no manager", apply("force=true", &whole), 422, "Invalid", &causes);
    let long = format!("fieldManager={}", "m".repeat(129));
    desk.refuses(
        "a long manager",
        apply(&long, &whole),
        422,
        "Invalid",
        &[("FieldValueTooLong", "fieldManager")],
    );
    let unprintable = apply("fieldManager=a%07b", &whole);
    desk.refuses(
        "an unprintable manager",
        unprintable,
        422,
        "Invalid",
        &[("FieldValueInvalid", "fieldManager")],
    );
    for (what, body) in [
        ("no kind", json!({"apiVersion": "v1", "metadata": {"name": "a"}})),
        ("no apiVersion", json!({"kind": "ConfigMap", "metadata": {"name": "a"}})),
        ("another name", config_map("b")),
    ] {
        desk.refuses(what, apply(named, &body), 400, "BadRequest", &[]);
    }
    let managed = super::but(&whole, "/metadata/managedFields", json!([{"manager": "m"}]));
    desk.refuses("managed fields", apply(named, &managed), 400, "BadRequest", &[]);
    get(&path).send().expect(404);
    let merge = patch(&path).query("force=true").of_type("merge", &json!({}));
    desk.refuses(
        "force without apply",
        merge,
        422,
        "Invalid",
        &[("FieldValueForbidden", "force")],
    );
}

#[test]
fn an_apply_to_a_field_of_another_manager_is_a_conflict() {
    let desk = Desk::new();
    let path = desk.core("configmaps/a");
    let apply = |manager: &str, value: &str| {
        let body = super::but(&config_map("a"), "/data/a", json!(value));
        patch(&path)
            .query(&format!("fieldManager={manager}"))
            .of_type("apply", &body)
    };
    apply("first", "1").send().expect(201);
    let status = desk.refuses(
        "apply",
        apply("second", "2"),
        409,
        "Conflict",
        &[("FieldManagerConflict", ".data.a")],
    );
    assert!(
        status["message"].as_str().unwrap().contains(r#"conflict with "first""#),
        "{status}"
    );
    apply("second", "2").query("force=true").send().expect(200);
    assert_eq!(get(&path).send().expect(200)["data"]["a"], "2");
}

#[test]
fn a_strategic_patch_with_an_unknown_directive_is_refused() {
    let desk = Desk::new();
    let path = patched(&desk);
    let body = json!({"spec": {"template": {"spec": {"$patch": "frobnicate"}}}});
    desk.refuses("directive", patch(&path).of_type("strategic", &body), 500, "", &[]);
    let nameless = json!({"spec": {"template": {"spec": {"containers": [{"image": "y"}]}}}});
    desk.refuses("no key", patch(&path).of_type("strategic", &nameless), 500, "", &[]);
}

/// A late write of whoever has not heard of a deletion must not undo it.
#[test]
fn an_apply_with_the_uid_of_an_object_that_is_gone_makes_none() {
    let desk = Desk::new();
    let path = desk.core("configmaps/gone");
    let made = desk.have(&desk.core("configmaps"), &config_map("gone"));
    delete(&path).send().expect(200);
    for uid in [&made["metadata"]["uid"], &json!("7b1c5ffe-0000-4000-8000-000000000000")] {
        let mut body = config_map("gone");
        body["metadata"]["uid"] = uid.clone();
        let apply = patch(&path)
            .query("fieldManager=late&force=true")
            .of_type("apply", &body);
        let status = desk.refuses("the UID", apply, 409, "Conflict", &[]);
        assert!(status["message"].as_str().unwrap().contains("uid mismatch"), "{status}");
    }
    get(&path).send().expect(404);
}
