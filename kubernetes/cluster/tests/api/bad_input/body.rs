//! Bodies that are not an object of the kind that the path names.

use serde_json::{Value, json};

use super::{Desk, but, config_map, deployment, pod};
use crate::request::{get, post, put};

#[test]
fn a_malformed_body_is_a_bad_request() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    for (what, text) in [
        ("cut off", r#"{"apiVersion": "v1", "kind""#),
        ("not JSON", "hello"),
        (
            "a comma too many",
            r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},}"#,
        ),
        (
            "two objects",
            r#"{"kind": "ConfigMap", "metadata": {"name": "a"}} {"kind": "ConfigMap"}"#,
        ),
        ("a list", "[]"),
        ("a text", r#""a""#),
        ("nothing", ""),
    ] {
        desk.refuses(what, post(&maps).body("application/json", text), 400, "BadRequest", &[]);
    }
    for (what, text) in [
        (
            "a tab for indentation",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: a\n",
        ),
        (
            "no end of a quote",
            "apiVersion: v1\nkind: \"ConfigMap\nmetadata: {name: a}\n",
        ),
        ("a list in YAML", "- a\n- b\n"),
        ("a text in YAML", "hello\n"),
    ] {
        desk.refuses(what, post(&maps).body("application/yaml", text), 400, "BadRequest", &[]);
    }
    let protobuf =
        post(&maps).body("application/vnd.kubernetes.protobuf", "k8s\0 this is not protobuf");
    desk.refuses("not protobuf", protobuf, 400, "BadRequest", &[]);
}

#[test]
fn an_object_of_another_kind_group_or_version_is_a_bad_request() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    desk.have(&maps, &config_map("there"));
    for (what, object) in [
        ("another kind", but(&config_map("a"), "/kind", json!("Secret"))),
        (
            "a kind that nobody has",
            but(&config_map("a"), "/kind", json!("Nonsense")),
        ),
        ("another version", but(&config_map("a"), "/apiVersion", json!("v2"))),
        ("another group", but(&config_map("a"), "/apiVersion", json!("apps/v1"))),
        ("no group at all", but(&config_map("a"), "/apiVersion", json!("a/b/c"))),
    ] {
        desk.refuses(what, post(&maps).json(&object), 400, "BadRequest", &[]);
        let there = but(&object, "/metadata/name", json!("there"));
        let update = put(desk.core("configmaps/there")).json(&there);
        desk.refuses(&format!("update: {what}"), update, 400, "BadRequest", &[]);
    }
}

#[test]
fn a_built_in_kind_need_not_be_named_in_the_body() {
    let desk = Desk::new();
    let object = json!({"metadata": {"name": "a"}});
    let made = post(desk.core("configmaps")).json(&object).send().expect(201);
    assert_eq!(made["metadata"]["name"], "a");
}

#[test]
fn a_value_of_the_wrong_type_is_a_bad_request() {
    let desk = Desk::new();
    let deployments = desk.group("apps/v1", "deployments");
    for (what, pointer, value) in [
        ("a text for a number", "/spec/replicas", json!("three")),
        ("a fraction for a number", "/spec/replicas", json!(1.5)),
        ("a list for an object", "/spec/template", json!([])),
        ("an object for a list", "/spec/template/spec/containers", json!({})),
        ("a number for a text", "/metadata/labels", json!({"a": 1})),
        ("a text for a flag", "/spec/paused", json!("yes")),
        ("a text for a time", "/metadata/creationTimestamp", json!("yesterday")),
        (
            "no quantity",
            "/spec/template/spec/containers/0/resources",
            json!({"limits": {"cpu": "a lot"}}),
        ),
        ("a list for labels", "/metadata/labels", json!([])),
    ] {
        let object = but(&deployment("a"), pointer, value);
        desk.refuses(what, post(&deployments).json(&object), 400, "BadRequest", &[]);
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "%%%"}});
    desk.refuses(
        "not base64",
        post(desk.core("secrets")).json(&secret),
        400,
        "BadRequest",
        &[],
    );
}

#[test]
fn an_unknown_field_is_refused_only_by_strict_validation() {
    let desk = Desk::new();
    let pods = desk.core("pods");
    let object = but(&pod("a"), "/spec/containers/0/imagee", json!("x"));
    let object = but(&object, "/spec/extra", json!({"a": 1}));
    let strict = post(&pods).query("fieldValidation=Strict").json(&object);
    let status = desk.refuses("unknown fields", strict, 400, "BadRequest", &[]);
    let message = status["message"].as_str().unwrap();
    assert!(
        message.contains(r#"unknown field "spec.containers[0].imagee""#),
        "{message}"
    );
    assert!(message.contains(r#"unknown field "spec.extra""#), "{message}");

    let warned = post(&pods).query("fieldValidation=Warn").json(&object).send();
    let mut warnings = warned.warnings();
    warnings.sort();
    assert_eq!(
        warnings,
        [
            r#"unknown field "spec.containers[0].imagee""#,
            r#"unknown field "spec.extra""#
        ]
    );
    assert_eq!(warned.expect(201)["spec"].get("extra"), None);

    let ignored = post(&pods)
        .query("fieldValidation=Ignore")
        .json(&but(&object, "/metadata/name", json!("b")))
        .send();
    assert_eq!(ignored.warnings(), Vec::<String>::new());
    ignored.expect(201);
}

#[test]
fn a_duplicate_field_is_refused_only_by_strict_validation() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    let text = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1", "a": "2"}}"#;
    let strict = post(&maps)
        .query("fieldValidation=Strict")
        .body("application/json", text);
    let status = desk.refuses("JSON", strict, 400, "BadRequest", &[]);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains(r#"duplicate field "data.a""#),
        "{status}"
    );

    let yaml =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: \"1\"\n  a: \"2\"\n";
    let strict = post(&maps)
        .query("fieldValidation=Strict")
        .body("application/yaml", yaml);
    let status = desk.refuses("YAML", strict, 400, "BadRequest", &[]);
    assert!(
        status["message"].as_str().unwrap().contains("already set in map"),
        "{status}"
    );

    let warned = post(&maps).body("application/json", text).send();
    assert_eq!(warned.warnings(), [r#"duplicate field "data.a""#]);
    assert_eq!(warned.expect(201)["data"]["a"], "2");
    let warned = post(&maps)
        .body("application/yaml", yaml.replace("name: a", "name: b"))
        .send();
    assert_eq!(warned.warnings().len(), 1);
    assert_eq!(warned.expect(201)["data"]["a"], "2");
}

#[test]
fn an_unknown_field_validation_is_refused() {
    let desk = Desk::new();
    let request = post(desk.core("configmaps"))
        .query("fieldValidation=Sometimes")
        .json(&config_map("a"));
    desk.refuses(
        "fieldValidation",
        request,
        422,
        "Invalid",
        &[("FieldValueNotSupported", "fieldValidation")],
    );
    let request = post(desk.core("configmaps"))
        .query("dryRun=Maybe")
        .json(&config_map("a"));
    desk.refuses(
        "dryRun",
        request,
        422,
        "Invalid",
        &[("FieldValueNotSupported", "dryRun")],
    );
}

#[test]
fn a_body_above_3_mib_is_too_large() {
    let desk = Desk::new();
    let object = but(&config_map("a"), "/data/a", json!("x".repeat(3 << 20)));
    desk.refuses(
        "create",
        post(desk.core("configmaps")).json(&object),
        413,
        "RequestEntityTooLarge",
        &[],
    );
    desk.have(&desk.core("configmaps"), &config_map("there"));
    let object = but(&object, "/metadata/name", json!("there"));
    desk.refuses(
        "update",
        put(desk.core("configmaps/there")).json(&object),
        413,
        "RequestEntityTooLarge",
        &[],
    );
}

#[test]
fn an_object_above_what_the_store_takes_is_refused() {
    let desk = Desk::new();
    // Arguments have no limit of their own.
    let object = but(&pod("a"), "/spec/containers/0/args", json!(["x".repeat(1_600_000)]));
    let status = desk.refuses("create", post(desk.core("pods")).json(&object), 500, "", &[]);
    assert!(
        status["message"].as_str().unwrap().contains("request is too large"),
        "{status}"
    );
    get(desk.core("pods/a")).send().expect(404);
}

#[test]
fn a_dry_run_checks_everything_and_stores_nothing() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    let made = post(&maps)
        .query("dryRun=All")
        .json(&config_map("a"))
        .send()
        .expect(201);
    assert_eq!(made["metadata"].get("resourceVersion"), None::<&Value>);
    get(desk.core("configmaps/a")).send().expect(404);
    let bad = post(&maps).query("dryRun=All").json(&config_map("A"));
    desk.refuses(
        "a bad name",
        bad,
        422,
        "Invalid",
        &[("FieldValueInvalid", "metadata.name")],
    );
}
