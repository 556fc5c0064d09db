//! Custom resources against their schema and rules, and definitions that can't be served.

use berth_testkit::until_so;
use serde_json::{Value, json};

use super::{Desk, but};
use crate::namespace::unique;
use crate::request::{get, patch, post, put};

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";

/// Beside an error that makes an object unfit for its rules.
const UNCHECKED: (&str, &str) = (INVALID, "<nil>");

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 10},
                    "least": {"type": "integer", "default": 1},
                    "color": {"type": "string", "enum": ["red", "blue"]},
                    "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                    "tags": {"type": "array", "maxItems": 2, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 9}},
                    "home": {
                        "type": "string",
                        "maxLength": 9,
                        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "home stays"}],
                    },
                },
                "x-kubernetes-validations": [
                    {"rule": "self.least <= self.size", "message": "least is at most size", "fieldPath": ".least"},
                ],
            },
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    })
}

fn definition(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("boats.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema()},
            }],
        },
    })
}

/// A served definition of the test's own, and the path of its resources.
fn harbour(desk: &Desk) -> (String, String) {
    let group = format!("{}.example.com", unique("g"));
    desk.with(format!("{DEFINITIONS}/boats.{group}"));
    desk.have(DEFINITIONS, &definition(&group));
    let version = format!("{group}/v1");
    let boats = desk.group(&version, "boats");
    until_so("the definition is served", || get(&boats).send().code == 200);
    desk.guard(&boats);
    (version, boats)
}

fn boat(version: &str, spec: &Value) -> Value {
    json!({"apiVersion": version, "kind": "Boat", "metadata": {"name": "a"}, "spec": spec})
}

#[test]
fn a_custom_resource_against_its_schema_is_refused_by_field() {
    let desk = Desk::new();
    let (version, boats) = harbour(&desk);
    for (what, spec, causes) in [
        ("no size", json!({}), &[(REQUIRED, "spec.size"), UNCHECKED][..]),
        (
            "a text",
            json!({"size": "big"}),
            &[("FieldValueTypeInvalid", "spec.size"), UNCHECKED],
        ),
        ("too small", json!({"size": 0, "least": 0}), &[(INVALID, "spec.size")]),
        ("too big", json!({"size": 11}), &[(INVALID, "spec.size")]),
        (
            "color",
            json!({"size": 1, "color": "green"}),
            &[("FieldValueNotSupported", "spec.color"), UNCHECKED],
        ),
        ("pattern", json!({"size": 1, "code": "A"}), &[(INVALID, "spec.code")]),
        (
            "length",
            json!({"size": 1, "code": "abcdef"}),
            &[("FieldValueTooLong", "spec.code"), UNCHECKED],
        ),
        (
            "items",
            json!({"size": 1, "tags": ["a", "b", "c"]}),
            &[("FieldValueTooMany", "spec.tags"), UNCHECKED],
        ),
        (
            "set",
            json!({"size": 1, "tags": ["a", "a"]}),
            &[("FieldValueDuplicate", "spec.tags[1]")],
        ),
        (
            "an item",
            json!({"size": 1, "tags": [1]}),
            &[("FieldValueTypeInvalid", "spec.tags[0]"), UNCHECKED],
        ),
        ("null", json!({"size": null}), &[(REQUIRED, "spec.size"), UNCHECKED]),
    ] {
        desk.refuses(what, post(&boats).json(&boat(&version, &spec)), 422, "Invalid", causes);
    }
    let none = json!({"apiVersion": version, "kind": "Boat", "metadata": {"name": "a"}});
    desk.refuses(
        "no spec",
        post(&boats).json(&none),
        422,
        "Invalid",
        &[(REQUIRED, "spec"), UNCHECKED],
    );
}

#[test]
fn a_custom_resource_against_a_cel_rule_is_refused_by_field() {
    let desk = Desk::new();
    let (version, boats) = harbour(&desk);
    let bad = boat(&version, &json!({"size": 2, "least": 3}));
    let status = desk.refuses(
        "create",
        post(&boats).json(&bad),
        422,
        "Invalid",
        &[(INVALID, "spec.least")],
    );
    assert!(
        status["message"].as_str().unwrap().contains("least is at most size"),
        "{status}"
    );
    desk.have(&boats, &boat(&version, &json!({"size": 2, "home": "here"})));
    let path = format!("{boats}/a");
    let moved = patch(&path).of_type("merge", &json!({"spec": {"home": "there"}}));
    let status = desk.refuses("transition", moved, 422, "Invalid", &[(INVALID, "spec.home")]);
    assert!(status["message"].as_str().unwrap().contains("home stays"), "{status}");
    let less = patch(&path).of_type("merge", &json!({"spec": {"least": 9}}));
    desk.refuses("patch", less, 422, "Invalid", &[(INVALID, "spec.least")]);
    let apply = boat(&version, &json!({"size": 2, "least": 9}));
    let apply = patch(&path).query("fieldManager=m&force=true").of_type("apply", &apply);
    desk.refuses("apply", apply, 422, "Invalid", &[(INVALID, "spec.least")]);
}

#[test]
fn a_custom_resource_without_kind_or_version_is_refused() {
    let desk = Desk::new();
    let (version, boats) = harbour(&desk);
    let good = boat(&version, &json!({"size": 1}));
    for (what, object) in [
        (
            "no kind",
            json!({"apiVersion": version, "metadata": {"name": "a"}, "spec": {"size": 1}}),
        ),
        (
            "no apiVersion",
            json!({"kind": "Boat", "metadata": {"name": "a"}, "spec": {"size": 1}}),
        ),
        ("another group", but(&good, "/apiVersion", json!("v1"))),
    ] {
        desk.refuses(what, post(&boats).json(&object), 400, "BadRequest", &[]);
    }
    let ship = but(&boat(&version, &json!({"size": 1, "least": 1})), "/kind", json!("Ship"));
    desk.refuses(
        "another kind",
        post(&boats).json(&ship),
        422,
        "Invalid",
        &[(INVALID, "kind")],
    );
    desk.have(&boats, &good);
    let path = format!("{boats}/a");
    let causes = [(INVALID, "metadata.resourceVersion")];
    desk.refuses(
        "update without a version",
        put(&path).json(&good),
        422,
        "Invalid",
        &causes,
    );
    let name = but(&good, "/metadata/name", json!("A_"));
    desk.refuses(
        "a bad name",
        post(&boats).json(&name),
        422,
        "Invalid",
        &[(INVALID, "metadata.name")],
    );
    let strategic = patch(&path).of_type("strategic", &json!({"spec": {"size": 2}}));
    desk.refuses("strategic", strategic, 415, "UnsupportedMediaType", &[]);
}

#[test]
fn an_unknown_field_is_pruned_unless_validation_is_strict() {
    let desk = Desk::new();
    let (version, boats) = harbour(&desk);
    let object = boat(&version, &json!({"size": 1, "sails": 3}));
    let strict = post(&boats).query("fieldValidation=Strict").json(&object);
    let status = desk.refuses("strict", strict, 400, "BadRequest", &[]);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains(r#"unknown field "spec.sails""#),
        "{status}"
    );
    let warned = post(&boats).json(&object).send();
    assert_eq!(warned.warnings(), [r#"unknown field "spec.sails""#]);
    assert_eq!(warned.expect(201)["spec"], json!({"size": 1, "least": 1}));
}

#[test]
fn a_definition_that_can_not_be_served_is_refused_by_field() {
    let desk = Desk::new();
    let group = format!("{}.example.com", unique("g"));
    let good = definition(&group);
    // The one version's schema goes by its older name.
    let at = "spec.validation.openAPIV3Schema";
    let property = |name: &str| format!("{at}.properties[{name}]");
    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    let a_type = format!("{}.type", property("a"));
    let a_rule = format!("{}.x-kubernetes-validations[0].rule", property("a"));
    let a_default = format!("{}.default", property("a"));
    let with = |a: Value| but(&good, schema, json!({"type": "object", "properties": {"a": a}}));
    for (what, object, causes) in [
        (
            "another name",
            but(&good, "/metadata/name", json!(format!("ships.{group}"))),
            vec![(INVALID, "metadata.name")],
        ),
        (
            "a property of no type",
            with(json!({})),
            vec![(REQUIRED, a_type.as_str())],
        ),
        (
            "a rule that is not CEL",
            with(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self ==="}]})),
            vec![(INVALID, a_rule.as_str())],
        ),
        (
            "a default of another type",
            with(json!({"type": "string", "default": 1})),
            vec![("FieldValueTypeInvalid", a_default.as_str())],
        ),
        (
            "scope",
            but(&good, "/spec/scope", json!("World")),
            vec![("FieldValueNotSupported", "spec.scope")],
        ),
        (
            "no kind",
            but(&good, "/spec/names/kind", json!("")),
            vec![(REQUIRED, "spec.names.kind"), (REQUIRED, "spec.names.listKind")],
        ),
    ] {
        desk.refuses(what, post(DEFINITIONS).json(&object), 422, "Invalid", &causes);
    }
    desk.with(format!("{DEFINITIONS}/boats.{group}"));
}
