//! ServiceCIDRs and admission policies that can't be meant.

use serde_json::{Value, json};

use super::{Desk, but};
use crate::namespace::unique;
use crate::request::{post, put};

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const UNSUPPORTED: &str = "FieldValueNotSupported";
const FORBIDDEN: &str = "FieldValueForbidden";

const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn service_cidr(name: &str, cidrs: Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": name}, "spec": {"cidrs": cidrs},
    })
}

#[test]
fn a_service_cidr_that_is_no_range_is_refused() {
    let desk = Desk::new();
    let one = |index: usize| format!("spec.cidrs[{index}]");
    for (what, cidrs, cause) in [
        ("none", json!([]), (REQUIRED, "spec.cidrs".to_owned())),
        (
            "three",
            json!(["10.0.0.0/24", "fd00::/64", "fd01::/64"]),
            (INVALID, "spec.cidrs".to_owned()),
        ),
        (
            "a family twice",
            json!(["10.0.0.0/24", "10.1.0.0/24"]),
            (INVALID, "spec.cidrs".to_owned()),
        ),
        ("no length", json!(["10.0.0.0"]), (INVALID, one(0))),
        ("a length too long", json!(["10.0.0.0/33"]), (INVALID, one(0))),
        (
            "bits beyond the length",
            json!(["10.0.0.0/24", "fd00::1/64"]),
            (INVALID, one(1)),
        ),
        ("another form", json!(["fd00:0:0::/64"]), (INVALID, one(0))),
    ] {
        let request = post(CIDRS).json(&service_cidr(&unique("cidr"), cidrs));
        desk.refuses(what, request, 422, "Invalid", &[(cause.0, &cause.1)]);
    }
}

#[test]
fn the_ranges_of_a_service_cidr_stay_as_they_are() {
    let desk = Desk::new();
    let name = unique("cidr");
    let path = format!("{CIDRS}/{name}");
    desk.with(&path);
    // Of a range for documentation: no Service gets an address from it while the test runs.
    desk.have(CIDRS, &service_cidr(&name, json!(["192.0.2.0/28"])));
    for (what, cidrs, field) in [
        ("another range", json!(["192.0.2.16/28"]), "spec.cidrs[0]"),
        (
            "another first one",
            json!(["192.0.2.16/28", "2001:db8::/112"]),
            "spec.cidrs[0]",
        ),
    ] {
        let request = put(&path).json(&service_cidr(&name, cidrs));
        desk.refuses(what, request, 422, "Invalid", &[(INVALID, field)]);
    }
    let both = json!(["192.0.2.0/28", "2001:db8::/112"]);
    let now = put(&path).json(&service_cidr(&name, both.clone())).send().expect(200);
    assert_eq!(now["spec"]["cidrs"], both);
    let request = put(&path).json(&service_cidr(&name, json!(["192.0.2.0/28"])));
    desk.refuses("one less", request, 422, "Invalid", &[(INVALID, "spec.cidrs")]);
}

fn policy() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": unique("policy")},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["acn.azure.com"], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": ["nodenetworkconfigs"],
            }]},
            "validations": [{"expression": "true"}],
        },
    })
}

#[test]
fn a_policy_that_says_nothing_is_refused() {
    let desk = Desk::new();
    let rules = "spec.matchConstraints.resourceRules";
    let rule = |field: &str| format!("{rules}[0].{field}");
    let validation = "spec.validations[0]";
    for (pointer, value, causes) in [
        (
            "/spec/failurePolicy",
            json!("Guess"),
            vec![(UNSUPPORTED, "spec.failurePolicy".to_owned())],
        ),
        (
            "/spec/matchConstraints",
            json!(null),
            vec![(REQUIRED, "spec.matchConstraints".to_owned())],
        ),
        (
            "/spec/matchConstraints/resourceRules",
            json!([]),
            vec![(REQUIRED, rules.to_owned())],
        ),
        (
            "/spec/matchConstraints/resourceRules/0/operations",
            json!([]),
            vec![(REQUIRED, rule("operations"))],
        ),
        (
            "/spec/matchConstraints/resourceRules/0/operations",
            json!(["READ"]),
            vec![(UNSUPPORTED, rule("operations[0]"))],
        ),
        (
            "/spec/matchConstraints/resourceRules/0/apiVersions",
            json!(["*", "v1"]),
            vec![(INVALID, rule("apiVersions"))],
        ),
        (
            "/spec/validations",
            json!([]),
            vec![
                (REQUIRED, "spec.validations".to_owned()),
                (REQUIRED, "spec.auditAnnotations".to_owned()),
            ],
        ),
        (
            "/spec/validations/0/expression",
            json!(" "),
            vec![(REQUIRED, format!("{validation}.expression"))],
        ),
        (
            "/spec/validations/0/reason",
            json!("Mood"),
            vec![(UNSUPPORTED, format!("{validation}.reason"))],
        ),
        (
            "/spec/paramKind",
            json!({"kind": "A"}),
            vec![(REQUIRED, "spec.paramKind.apiVersion".to_owned())],
        ),
    ] {
        let causes: Vec<(&str, &str)> =
            causes.iter().map(|(reason, field)| (*reason, field.as_str())).collect();
        let request = post(POLICIES).json(&but(&policy(), pointer, value.clone()));
        desk.refuses(&format!("{pointer} {value}"), request, 422, "Invalid", &causes);
    }
}

#[test]
fn a_policy_gets_its_defaults() {
    let desk = Desk::new();
    let policy = policy();
    desk.with(format!("{POLICIES}/{}", policy["metadata"]["name"].as_str().unwrap()));
    let made = desk.have(POLICIES, &policy);
    let spec = &made["spec"];
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(spec["failurePolicy"], "Fail");
    assert_eq!(spec["matchConstraints"]["matchPolicy"], "Equivalent");
    assert_eq!(spec["matchConstraints"]["namespaceSelector"], json!({}));
    assert_eq!(spec["matchConstraints"]["objectSelector"], json!({}));
    assert_eq!(spec["matchConstraints"]["resourceRules"][0]["scope"], "*");
}

#[test]
fn a_binding_that_binds_nothing_is_refused() {
    let desk = Desk::new();
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": unique("binding")},
        "spec": {"policyName": "nobody", "validationActions": ["Deny"]},
    });
    for (pointer, value, causes) in [
        ("/spec/policyName", json!(""), &[(REQUIRED, "spec.policyName")][..]),
        ("/spec/policyName", json!("A_B"), &[(INVALID, "spec.policyName")]),
        (
            "/spec/validationActions",
            json!([]),
            &[(REQUIRED, "spec.validationActions")],
        ),
        (
            "/spec/validationActions",
            json!(["Shout"]),
            &[(UNSUPPORTED, "spec.validationActions[0]")],
        ),
        (
            "/spec/validationActions",
            json!(["Deny", "Warn"]),
            &[(INVALID, "spec.validationActions")],
        ),
        (
            "/spec/paramRef",
            json!({"parameterNotFoundAction": "Deny"}),
            &[(REQUIRED, "spec.paramRef")],
        ),
        (
            "/spec/paramRef",
            json!({"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}),
            &[(FORBIDDEN, "spec.paramRef.name"), (FORBIDDEN, "spec.paramRef.selector")],
        ),
        (
            "/spec/paramRef",
            json!({"name": "a"}),
            &[(REQUIRED, "spec.paramRef.parameterNotFoundAction")],
        ),
    ] {
        let request = post(BINDINGS).json(&but(&binding, pointer, value.clone()));
        desk.refuses(&format!("{pointer} {value}"), request, 422, "Invalid", causes);
    }
}
