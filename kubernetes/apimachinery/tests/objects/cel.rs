//! Rules, with the verdicts and words of kube-apiserver 1.36.

use serde_json::{Value, json};

use berth_apimachinery::schema::{Problems, Schema};

fn compile(mut spec: Value, rules: Value) -> Result<Schema, Problems> {
    spec["x-kubernetes-validations"] = rules;
    Schema::new(&json!({"type": "object", "properties": {"spec": spec}}))
}

fn sample() -> Value {
    json!({"type": "object", "properties": {
        "a": {"type": "string"},
        "n": {"type": "integer"},
        "f": {"type": "number"},
        "l": {"type": "array", "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "port": {"x-kubernetes-int-or-string": true},
        "at": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte"},
        "namespace": {"type": "string"},
        "dash-ed": {"type": "string"},
        "one_two": {"type": "string"},
        "one__two": {"type": "string"},
    }})
}

fn errors(schema: &Schema, new: Value, old: Option<Value>) -> Vec<String> {
    let object = |spec| json!({"metadata": {"name": "it", "labels": {}}, "spec": spec});
    let old = old.map(object);
    let found = schema.validate(&object(new), old.as_ref());
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn rules_see_values_with_the_types_of_the_schema() {
    let holds = [
        ("self.n == 1 && self.n / 2 == 0", json!({"n": 1})),
        ("self.f == 1.0 && self.f > 0", json!({"f": 1})),
        (
            "self.at > timestamp('2024-01-01T00:00:00Z')",
            json!({"at": "2025-01-01T00:00:00Z"}),
        ),
        ("self.wait <= duration('1h')", json!({"wait": "30m"})),
        ("size(self.raw) == 3", json!({"raw": "YWJj"})),
        ("self.port == 1 || self.port == 'http'", json!({"port": "http"})),
        (
            "self.__namespace__ == 'x' && self.dash__dash__ed == 'y'",
            json!({"namespace": "x", "dash-ed": "y"}),
        ),
        (
            "self.one_two == 'x' && self.one__underscores__two == 'y'",
            json!({"one_two": "x", "one__two": "y"}),
        ),
        (
            "'a.b/c' in self.m && self.m['a.b/c'] == 'x'",
            json!({"m": {"a.b/c": "x"}}),
        ),
        (
            "self.l.all(x, x.startsWith('a')) && self.l.exists_one(x, x == 'ab')",
            json!({"l": ["ab", "ac"]}),
        ),
        ("!has(self.a) && has(self.n)", json!({"n": 0})),
        ("self.?a.orValue('none') == 'none'", json!({})),
        ("self.any.x.y == 1", json!({"any": {"x": {"y": 1}}})),
        (
            "isCIDR(self.a) && cidr(self.a).containsIP('10.1.2.3') && !isCIDR('010.0.0.0/8')",
            json!({"a": "10.0.0.0/8"}),
        ),
        ("ip(self.a).family() == 6", json!({"a": "fd64::1"})),
        (
            "self.a.matches('^[a-z]+$') && !matches(self.a, '^[0-9]+$')",
            json!({"a": "abc"}),
        ),
        ("quantity(self.a).isGreaterThan(quantity('500Mi'))", json!({"a": "1Gi"})),
    ];
    for (rule, spec) in holds {
        let schema = compile(sample(), json!([{"rule": rule}])).unwrap();
        assert_eq!(errors(&schema, spec, None), Vec::<String>::new(), "{rule}");
    }
}

#[test]
fn a_failed_rule_is_reported_by_message_reason_and_field() {
    let table = [
        (
            json!({"rule": "self.n < 5"}),
            "spec: Invalid value: failed rule: self.n < 5",
        ),
        (
            json!({"rule": "self.n < 5", "message": "too big"}),
            "spec: Invalid value: too big",
        ),
        (
            json!({"rule": "self.n < 5", "message": "too big", "fieldPath": ".n", "reason": "FieldValueForbidden"}),
            "spec.n: Forbidden: too big",
        ),
        (
            json!({"rule": "self.n < 5", "fieldPath": ".m['k']", "message": "no"}),
            "spec.m[k]: Invalid value: no",
        ),
        (
            json!({"rule": "self.n < 5", "message": "no", "messageExpression": "'n is ' + string(self.n)"}),
            "spec: Invalid value: n is 9",
        ),
        (
            json!({"rule": "self.n < 5", "message": "no", "messageExpression": "self.a"}),
            "spec: Invalid value: no",
        ),
        (
            json!({"rule": "self.n < 5", "message": "no", "reason": "FieldValueRequired"}),
            "spec: Required value: no",
        ),
        (
            json!({"rule": "self.n < 5", "reason": "FieldValueDuplicate"}),
            "spec: Duplicate value",
        ),
        (
            json!({"rule": "self.m['zz'] == 'x'"}),
            "spec: Invalid value: \"object\": no such key: zz evaluating rule: self.m['zz'] == 'x'",
        ),
        (
            json!({"rule": "self.n / (self.n - 9) == 1", "message": "m"}),
            "spec: Invalid value: \"object\": division by zero evaluating rule: m",
        ),
        (
            json!({"rule": "self.port < 5"}),
            "spec: Invalid value: \"object\": 'no such overload': call arguments did \
             not match a supported operator, function or macro signature for rule: \
             self.port < 5",
        ),
    ];
    for (rule, expected) in table {
        let schema = compile(sample(), json!([rule])).unwrap();
        assert_eq!(errors(&schema, json!({"n": 9, "m": {}, "port": "x"}), None), [expected]);
    }
    let scalar =
        compile(json!({"type": "string"}), json!([{"rule": "self.startsWith('a')"}])).unwrap();
    let found = errors(&scalar, json!("bb"), None);
    assert_eq!(
        found,
        ["spec: Invalid value: \"bb\": failed rule: self.startsWith('a')"]
    );
}

#[test]
fn rules_of_a_resource_see_of_its_metadata_the_name_alone() {
    let rules = |rule: &str| {
        Schema::new(&json!({
            "type": "object",
            "x-kubernetes-validations": [{"rule": rule}],
            "properties": {"spec": sample()},
        }))
    };
    let schema = rules("self.metadata.name == 'it'").unwrap();
    assert_eq!(errors(&schema, json!({}), None), Vec::<String>::new());
    let hidden = rules("!has(self.metadata.labels)").unwrap();
    assert_eq!(errors(&hidden, json!({}), None), Vec::<String>::new());
}

#[test]
fn transition_rules_hold_between_two_values_only() {
    let rules = json!([{"rule": "self == oldSelf", "message": "immutable"}]);
    let schema = compile(json!({"type": "string"}), rules).unwrap();
    assert_eq!(errors(&schema, json!("a"), None), Vec::<String>::new());
    assert_eq!(errors(&schema, json!("a"), Some(json!("a"))), Vec::<String>::new());
    assert_eq!(
        errors(&schema, json!("b"), Some(json!("a"))),
        ["spec: Invalid value: \"b\": immutable"]
    );
}

#[test]
fn with_optional_old_self_a_rule_also_runs_on_creation() {
    let rule = "oldSelf.hasValue() ? self == oldSelf.value() : self == 'first'";
    let rules = json!([{"rule": rule, "optionalOldSelf": true, "message": "no"}]);
    let schema = compile(json!({"type": "string"}), rules).unwrap();
    assert_eq!(errors(&schema, json!("first"), None), Vec::<String>::new());
    assert_eq!(errors(&schema, json!("other"), None).len(), 1);
    assert_eq!(errors(&schema, json!("x"), Some(json!("x"))), Vec::<String>::new());
    assert_eq!(errors(&schema, json!("y"), Some(json!("x"))).len(), 1);
}

#[test]
fn items_of_a_keyed_list_are_compared_with_their_own_old_values() {
    let item = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"type": "string"},
        "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "grows"}]},
    }});
    let list = json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": item,
    });
    let schema = compile(list, json!([])).unwrap();
    let old = json!([{"k": "a", "v": 4}, {"k": "b", "v": 1}]);
    let swapped = json!([{"k": "b", "v": 2}, {"k": "c", "v": 0}, {"k": "a", "v": 3}]);
    assert_eq!(
        errors(&schema, swapped, Some(old)),
        ["spec[2].v: Invalid value: 3: grows"]
    );
}

#[test]
fn a_rule_that_failed_before_and_sees_no_change_is_tolerated() {
    let parts = json!({"type": "object", "properties": {
        "x": {"type": "object", "properties": {"n": {"type": "integer"}, "o": {"type": "integer"}},
              "x-kubernetes-validations": [{"rule": "self.n < 5"}]},
        "l": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 5"}]}},
        "other": {"type": "string"},
    }});
    let schema = compile(parts, json!([])).unwrap();
    let old = json!({"x": {"n": 9}, "l": [9, 1]});
    let kept = json!({"x": {"n": 9}, "l": [9, 1], "other": "y"});
    assert_eq!(errors(&schema, kept, Some(old.clone())), Vec::<String>::new());
    let touched = json!({"x": {"n": 9, "o": 1}, "l": [9, 2]});
    assert_eq!(errors(&schema, touched, Some(old)).len(), 2);
}

#[test]
fn keys_of_maps_stand_in_brackets() {
    let map = json!({"type": "object", "additionalProperties": {
        "type": "string",
        "x-kubernetes-validations": [{"rule": "self != 'bad'"}],
    }});
    let schema = compile(map, json!([])).unwrap();
    let found = errors(&schema, json!({"k": "bad"}), None);
    assert_eq!(found, ["spec[k]: Invalid value: \"bad\": failed rule: self != 'bad'"]);
}

#[test]
fn a_rule_that_can_not_run_is_refused_with_the_schema() {
    let place = "openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    for (rule, name) in [
        ("bar > 1", "bar"),
        ("foo(self.a)", "foo"),
        ("self.a.foo()", "foo"),
        ("self.l.all(x, y)", "y"),
    ] {
        let Problems(errors) = compile(sample(), json!([{"rule": rule}])).unwrap_err();
        let detail = format!("compilation failed: ERROR: undeclared reference to '{name}'");
        let expected = format!("{place}.rule: Invalid value: {rule:?}: {detail}");
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
    for (rule, expected) in [
        (json!({"rule": " "}), "rule: Required value: rule is not specified"),
        (
            json!({"rule": "self.a >"}),
            "rule: Invalid value: \"self.a >\": compilation failed: ERROR",
        ),
        (
            json!({"rule": "true", "fieldPath": ".zz"}),
            "fieldPath: Invalid value: \".zz\": must be a valid path",
        ),
        (
            json!({"rule": "true", "messageExpression": "zz"}),
            "messageExpression: Invalid value: \"zz\": messageExpression compilation failed: ERROR",
        ),
        (
            json!({"rule": "true", "reason": "Foo"}),
            "reason: Unsupported value: \"Foo\"",
        ),
    ] {
        let Problems(errors) = compile(sample(), json!([rule])).unwrap_err();
        let found = errors[0].to_string();
        assert!(found.starts_with(&format!("{place}.{expected}")), "{found}");
    }
}

#[test]
fn what_the_types_do_not_allow_shows_when_a_rule_runs() {
    for (rule, why) in [
        ("self.foo > 1", "no such key: foo"),
        ("self.a > 5", "'no such overload'"),
        ("self.n", "'no such overload'"),
    ] {
        let schema = compile(sample(), json!([{"rule": rule}])).unwrap();
        let found = errors(&schema, json!({"a": "x", "n": 1}), None);
        assert!(
            found[0].starts_with(&format!("spec: Invalid value: \"object\": {why}")),
            "{found:?}"
        );
    }
}

#[test]
fn what_has_no_old_value_may_not_ask_for_it() {
    let item = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let Problems(errors) = compile(json!({"type": "array", "items": item}), json!([])).unwrap_err();
    assert_eq!(
        errors[0].to_string(),
        "openAPIV3Schema.properties[spec].items.x-kubernetes-validations[0].rule: \
         Invalid value: \"self == oldSelf\": oldSelf cannot be used on the \
         uncorrelatable portion of the schema within openAPIV3Schema.properties[spec]"
    );
}
