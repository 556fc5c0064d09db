//! Words and verdicts are those of kube-apiserver 1.36.

use proptest::prelude::*;
use serde_json::{Value, json};

use berth_apimachinery::schema::Schema;

/// A resource whose spec has these fields.
fn with_fields(properties: Value) -> Schema {
    with_spec(json!({"type": "object", "properties": properties}))
}

fn with_spec(spec: Value) -> Schema {
    Schema::new(&json!({"type": "object", "properties": {"spec": spec}})).unwrap()
}

fn errors(schema: &Schema, spec: Value) -> Vec<String> {
    let found = schema.validate(&json!({"spec": spec}), None);
    found.iter().map(ToString::to_string).collect()
}

fn changed(schema: &Schema, old: Value, new: Value) -> Vec<String> {
    let found = schema.validate(&json!({"spec": new}), Some(&json!({"spec": old})));
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn an_invalid_value_is_refused_in_kube_apiservers_words() {
    let in_body = "spec.x in body";
    let table = [
        (
            json!({"type": "integer"}),
            json!("a"),
            format!(
                "spec.x: Invalid value: \"string\": {in_body} must be of type integer: \
                 \"string\""
            ),
        ),
        (
            json!({"type": "object"}),
            json!([]),
            format!(
                "spec.x: Invalid value: \"array\": {in_body} must be of type object: \
                 \"array\""
            ),
        ),
        (
            json!({"type": "string"}),
            json!(null),
            format!("spec.x: Invalid value: \"null\": {in_body} must be of type string: \"null\""),
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            format!(
                "spec.x: Invalid value: \"boolean\": {in_body} must be of type \
                 integer,string: \"boolean\""
            ),
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!(5),
            format!(
                "spec.x: Invalid value: \"int64\": {in_body} must be of type date-time: \
                 \"int64\""
            ),
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("a"),
            format!("spec.x: Invalid value: \"a\": {in_body} must be of type date-time: \"a\""),
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            format!("spec.x: Invalid value: 0: {in_body} should be greater than or equal to 1"),
        ),
        (
            json!({"type": "integer", "maximum": 10}),
            json!(99),
            format!("spec.x: Invalid value: 99: {in_body} should be less than or equal to 10"),
        ),
        (
            json!({"type": "number", "minimum": 0.5, "exclusiveMinimum": true}),
            json!(0.5),
            format!("spec.x: Invalid value: 0.5: {in_body} should be greater than 0.5"),
        ),
        (
            json!({"type": "integer", "maximum": 3, "exclusiveMaximum": true}),
            json!(3),
            format!("spec.x: Invalid value: 3: {in_body} should be less than 3"),
        ),
        (
            json!({"type": "integer", "multipleOf": 3}),
            json!(4),
            format!("spec.x: Invalid value: 4: {in_body} should be a multiple of 3"),
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(0.7),
            format!("spec.x: Invalid value: 0.7: {in_body} should be a multiple of 0.5"),
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_i64),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with \
             format int32 in spec.x"
                .to_owned(),
        ),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("q"),
            "spec.x: Unsupported value: \"q\": supported values: \"a\", \"b\"".to_owned(),
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(7),
            "spec.x: Unsupported value: 7: supported values: \"1\", \"2\"".to_owned(),
        ),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("äöü"),
            "spec.x: Too long: may not be more than 2 bytes".to_owned(),
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("a"),
            format!("spec.x: Invalid value: \"a\": {in_body} should be at least 2 chars long"),
        ),
        (
            json!({"type": "string", "pattern": "^[a-z]+$"}),
            json!("A"),
            format!("spec.x: Invalid value: \"A\": {in_body} should match '^[a-z]+$'"),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            "spec.x: Too many: 2: must have at most 1 item".to_owned(),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!([]),
            format!("spec.x: Invalid value: 0: {in_body} should have at least 1 items"),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!(["a", 1]),
            "spec.x[1]: Invalid value: \"integer\": spec.x[1] in body must be of type \
             string: \"integer\""
                .to_owned(),
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1}),
            json!({"a": "", "b": ""}),
            "spec.x: Too many: 2: must have at most 1 item".to_owned(),
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}),
            json!({}),
            format!("spec.x: Invalid value: 0: {in_body} should have at least 1 properties"),
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string", "maxLength": 1}}),
            json!({"k": "aa"}),
            "spec.x.k: Too long: may not be more than 1 byte".to_owned(),
        ),
        (
            json!({"type": "object", "required": ["a"]}),
            json!({}),
            "spec.x.a: Required value".to_owned(),
        ),
        (
            json!({"type": "object", "not": {"required": ["a"]}}),
            json!({"a": 1}),
            "<nil>: Invalid value: \"\": \"spec.x\" must not validate the schema (not)".to_owned(),
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "b", "a", "a"]),
            "spec.x[2]: Duplicate value: \"a\"".to_owned(),
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"kind": "Pod"}),
            "spec.x.apiVersion: Required value".to_owned(),
        ),
    ];
    for (schema, value, expected) in table {
        let schema = with_fields(json!({"x": schema}));
        assert_eq!(errors(&schema, json!({"x": value})), [expected]);
    }
}

#[test]
fn what_the_schema_allows_is_accepted() {
    let table = [
        (json!({"type": "integer"}), json!(2.0)),
        (json!({"type": "number"}), json!(2)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"x-kubernetes-int-or-string": true}), json!("a")),
        (json!({"x-kubernetes-int-or-string": true}), json!(1)),
        (json!({"type": "string", "maxLength": 3}), json!("äöü")),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            json!([1, {"a": null}]),
        ),
        (json!({"type": "integer", "enum": [1]}), json!(1.0)),
    ];
    for (schema, value) in table {
        let schema = with_fields(json!({"x": schema}));
        assert_eq!(errors(&schema, json!({"x": value})), Vec::<String>::new());
    }
}

#[test]
fn of_failed_alternatives_the_one_that_got_furthest_explains() {
    let fields = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let mut schema = json!({"type": "object", "properties": fields});
    schema["oneOf"] = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let one_of = with_fields(json!({"x": schema}));
    let title = "<nil>: Invalid value: \"\": \"spec.x\" must validate";
    assert_eq!(
        errors(&one_of, json!({"x": {}})),
        [
            format!("{title} one and only one schema (oneOf). Found none valid"),
            "spec.x.a: Required value".to_owned(),
        ]
    );
    assert_eq!(
        errors(&one_of, json!({"x": {"a": "", "b": ""}})),
        [format!(
            "{title} one and only one schema (oneOf). Found 2 valid alternatives"
        )]
    );
    let any_of = with_fields(json!({"x": {
        "type": "object",
        "properties": fields,
        "anyOf": [{"required": ["a"]}, {"properties": {"b": {"maxLength": 1}}, "required": ["b"]}],
    }}));
    assert_eq!(
        errors(&any_of, json!({"x": {"b": "long"}})),
        [
            format!("{title} at least one schema (anyOf)"),
            "spec.x.b: Too long: may not be more than 1 byte".to_owned(),
        ]
    );
    assert_eq!(errors(&any_of, json!({"x": {"b": "s"}})), Vec::<String>::new());
    let all_of = with_fields(
        json!({"x": {"type": "string", "allOf": [{"maxLength": 1}, {"minLength": 1}]}}),
    );
    assert_eq!(
        errors(&all_of, json!({"x": "aa"})),
        [
            "spec.x: Too long: may not be more than 1 byte".to_owned(),
            format!("{title} all the schemas (allOf)")
        ]
    );
}

#[test]
fn list_map_items_with_equal_defaulted_keys_are_duplicates() {
    let schema = with_fields(json!({"ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {"type": "object", "required": ["port"], "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
        }},
    }}));
    let mut object = json!({"spec": {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}]}});
    schema.default(&mut object);
    let found = schema.validate(&object, None);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].to_string(),
        "spec.ports[1]: Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}"
    );
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let schema = with_fields(json!({
        "known": {"type": "object", "properties": {"a": {"type": "string"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "any": {"type": "object", "additionalProperties": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "known": {"type": "object"},
        }},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
    }));
    let mut object = json!({
        "apiVersion": "a/v1", "kind": "K", "metadata": {"whatever": 1}, "status": {},
        "spec": {
            "x": 1,
            "known": {"a": "", "b": 1},
            "list": [{"a": ""}, {"b": 1}],
            "map": {"k": {"a": "", "b": 1}},
            "any": {"scalar": 1, "object": {"gone": 1}},
            "free": {"more": {"deep": 1}, "known": {"gone": 1}},
            "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {}},
        },
    });
    assert_eq!(
        schema.prune(&mut object),
        [
            "spec.any.object.gone",
            "spec.embedded.status",
            "spec.free.known.gone",
            "spec.known.b",
            "spec.list[1].b",
            "spec.map.k.b",
            "spec.x",
            "status",
        ]
    );
    let expected = json!({
        "apiVersion": "a/v1", "kind": "K", "metadata": {"whatever": 1},
        "spec": {
            "known": {"a": ""},
            "list": [{"a": ""}, {}],
            "map": {"k": {"a": ""}},
            "any": {"scalar": 1, "object": {}},
            "free": {"more": {"deep": 1}, "known": {}},
            "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        },
    });
    assert_eq!(object, expected);
}

#[test]
fn null_means_not_given_unless_the_schema_has_null() {
    let schema = with_fields(json!({
        "plain": {"type": "string"},
        "nullable": {"type": "string", "nullable": true},
        "defaulted": {"type": "string", "default": "d"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
    }));
    let mut object =
        json!({"spec": {"plain": null, "nullable": null, "defaulted": null, "map": {"a": null}}});
    assert_eq!(schema.prune(&mut object), Vec::<String>::new());
    schema.default(&mut object);
    assert_eq!(object, json!({"spec": {"nullable": null, "defaulted": "d", "map": {}}}));
}

#[test]
fn defaults_reach_every_depth_that_exists_and_no_further() {
    let item = json!({"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}});
    let schema = with_fields(json!({
        "a": {"type": "integer", "default": 1},
        "nested": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 2}}},
        "absent": {"type": "object", "properties": {"c": {"type": "integer", "default": 3}}},
        "list": {"type": "array", "items": item},
        "map": {"type": "object", "additionalProperties": item},
    }));
    let mut object = json!({"spec": {"a": 0, "list": [{}, {"p": "UDP"}], "map": {"k": {}}}});
    schema.default(&mut object);
    let expected = json!({"spec": {
        "a": 0,
        "nested": {"b": 2},
        "list": [{"p": "TCP"}, {"p": "UDP"}],
        "map": {"k": {"p": "TCP"}},
    }});
    assert_eq!(object, expected);
}

#[test]
fn what_an_update_leaves_as_it_was_is_not_held_against_it() {
    let item = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"type": "string"}, "v": {"type": "integer", "maximum": 5},
    }});
    let schema = with_fields(json!({
        "a": {"type": "integer", "maximum": 5},
        "b": {"type": "string"},
        "list": {"type": "array", "items": {"type": "integer", "maximum": 5}},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": item},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 5}},
    }));
    let tolerated = [
        (json!({"a": 9, "b": "x"}), json!({"a": 9, "b": "y"})),
        (json!({"list": [9, 1]}), json!({"list": [9, 1], "b": "y"})),
        (
            json!({"keyed": [{"k": "a", "v": 9}]}),
            json!({"keyed": [{"k": "b", "v": 1}, {"k": "a", "v": 9}]}),
        ),
        (json!({"set": ["a", "a"]}), json!({"set": ["a", "a", "b", "b"]})),
        (json!({"map": {"x": 9}}), json!({"map": {"x": 9, "y": 1}})),
    ];
    for (old, new) in tolerated {
        assert_eq!(changed(&schema, old, new.clone()), Vec::<String>::new(), "{new}");
    }
    let refused = [
        (json!({"a": 9}), json!({"a": 8}), "spec.a"),
        (json!({"list": [9, 1]}), json!({"list": [9, 2]}), "spec.list[0]"),
        (
            json!({"keyed": [{"k": "a", "v": 9}]}),
            json!({"keyed": [{"k": "b", "v": 9}]}),
            "spec.keyed[0].v",
        ),
        (json!({"set": ["a"]}), json!({"set": ["a", "a"]}), "spec.set[1]"),
        (json!({"map": {"x": 9}}), json!({"map": {"y": 9}}), "spec.map.y"),
    ];
    for (old, new, field) in refused {
        let found = changed(&schema, old, new.clone());
        assert_eq!(found.len(), 1, "{new}");
        assert!(found[0].starts_with(&format!("{field}: ")), "{}", found[0]);
    }
}

#[test]
fn rules_wait_until_types_and_presence_are_right() {
    let rule = json!([{"rule": "self.a < 5"}]);
    let schema = with_spec(json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": rule,
    }));
    let found = errors(&schema, json!({"a": "x"}));
    assert_eq!(found.len(), 2);
    assert_eq!(
        found[1],
        "<nil>: Invalid value: null: some validation rules were not checked because the \
         object was invalid; correct the existing errors to complete validation"
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        (-2.0_f64..2.0).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Schemas over the same few names, so that objects meet them.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "nullable": true})),
        Just(json!({"type": "string", "default": "x"})),
        Just(json!({"type": "integer", "default": 1})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let object = prop::collection::btree_map("[a-d]", inner.clone(), 0..4);
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            (object, any::<bool>(), any::<bool>()).prop_map(|(properties, preserve, default)| {
                let mut schema = json!({"type": "object", "properties": properties});
                if preserve {
                    schema["x-kubernetes-preserve-unknown-fields"] = true.into();
                }
                if default {
                    schema["default"] = json!({});
                }
                schema
            }),
        ]
    })
}

proptest! {
    #[test]
    fn pruning_twice_is_pruning_once(spec in any_schema(), value in any_json()) {
        let schema = with_spec(spec);
        let mut once = json!({"spec": value});
        schema.prune(&mut once);
        let mut twice = once.clone();
        prop_assert_eq!(schema.prune(&mut twice), Vec::<String>::new());
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn defaulting_twice_is_defaulting_once(spec in any_schema(), value in any_json()) {
        let schema = with_spec(spec);
        let mut once = json!({"spec": value});
        schema.default(&mut once);
        let mut twice = once.clone();
        schema.default(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn an_update_that_changes_nothing_is_never_refused(spec in any_schema(), value in any_json()) {
        let schema = with_spec(spec);
        let object = json!({"spec": value});
        prop_assert_eq!(schema.validate(&object, Some(&object)), Vec::new());
    }
}
