use serde_json::{Value, json};

use super::*;
use crate::schema::Schema;

fn definition() -> Value {
    let mut definition = json!({
        "metadata": {"name": "bads.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "bads", "kind": "Bad", "shortNames": ["bd"], "categories": ["all"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "a": {"type": "string"},
                }}}}},
            }],
        },
    });
    set_defaults(&mut definition);
    definition
}

/// The definition with one place changed; null removes what was there.
fn with(pointer: &str, value: Value) -> Value {
    let mut definition = definition();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = definition.pointer_mut(parent).unwrap();
    match name.parse::<usize>() {
        Ok(index) => parent[index] = value,
        Err(_) => parent[name] = value,
    }
    definition
}

fn with_property(schema: Value) -> Value {
    with(
        "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b",
        schema,
    )
}

fn errors(definition: &Value) -> Vec<String> {
    check(definition, None).iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_definition_gets_its_defaults_and_has_no_errors() {
    let definition = definition();
    assert_eq!(errors(&definition), Vec::<String>::new());
    assert_eq!(definition["spec"]["names"]["singular"], "bad");
    assert_eq!(definition["spec"]["names"]["listKind"], "BadList");
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
}

#[test]
fn names_versions_and_columns_are_checked() {
    let label = crate::names::label_1035("A").unwrap();
    let short_name = format!("spec.names.shortNames[0]: Invalid value: \"A\": {label}");
    let table = [
        (
            "/metadata/name",
            json!("x.y"),
            "metadata.name: Invalid value: \"x.y\": must be spec.names.plural+\".\"+spec.group",
        ),
        (
            "/spec/scope",
            json!("X"),
            "spec.scope: Unsupported value: \"X\": supported values: \"Cluster\", \"Namespaced\"",
        ),
        ("/spec/scope", json!(""), "spec.scope: Required value"),
        ("/spec/names/kind", json!(""), "spec.names.kind: Required value"),
        (
            "/spec/names/listKind",
            json!("Bad"),
            "spec.names.listKind: Invalid value: \"Bad\": kind and listKind may not be the same",
        ),
        ("/spec/names/shortNames", json!(["A"]), &short_name),
        (
            "/spec/versions/0/schema",
            json!(null),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            "/spec/versions/0/deprecationWarning",
            json!("x"),
            "spec.versions[0].deprecationWarning: Invalid value: \"x\": can only be set for deprecated versions",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "x", "type": "foo", "jsonPath": ".a"}]),
            "spec.additionalPrinterColumns[0].type: Invalid value: \"foo\": must be one of boolean,date,integer,number,string",
        ),
        (
            "/spec/versions/0/additionalPrinterColumns",
            json!([{"name": "x", "type": "date", "jsonPath": "a"}]),
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"a\": must be a simple json path starting with .",
        ),
        (
            "/spec/versions/0/subresources",
            json!({"scale": {"specReplicasPath": ".foo", "statusReplicasPath": ".status.n"}}),
            "spec.subresources.scale.specReplicasPath: Invalid value: \".foo\": should be a json path under .spec",
        ),
        (
            "/spec/versions/0/selectableFields",
            json!([{"jsonPath": ".spec.zz"}]),
            "spec.selectableFields[0].jsonPath: Invalid value: \".spec.zz\": is an invalid path: does not refer to a valid field",
        ),
        (
            "/spec/conversion",
            json!({"strategy": "Foo"}),
            "spec.conversion.strategy: Unsupported value: \"Foo\": supported values: \"None\", \"Webhook\"",
        ),
        (
            "/spec/preserveUnknownFields",
            json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ),
    ];
    for (pointer, value, expected) in table {
        assert_eq!(errors(&with(pointer, value)), [expected]);
    }
    let no_dot = errors(&with("/spec/group", json!("nodot")));
    assert!(
        no_dot.contains(&"spec.group: Invalid value: \"nodot\": should be a domain with at least one dot".to_owned())
    );
}

#[test]
fn exactly_one_version_is_stored() {
    let found = errors(&with("/spec/versions/0/storage", json!(false)));
    assert!(
        found[0].ends_with("must have exactly one version marked as storage version"),
        "{found:?}"
    );
    let mut two = definition();
    let version = two["spec"]["versions"][0].clone();
    two["spec"]["versions"].as_array_mut().unwrap().push(version);
    let found = errors(&two);
    assert!(found[0].ends_with("must contain unique version names"), "{found:?}");
    assert!(
        found[1].ends_with("must have exactly one version marked as storage version"),
        "{found:?}"
    );
}

#[test]
fn schemas_have_to_be_structural() {
    let at = "spec.validation.openAPIV3Schema.properties[spec].properties[b]";
    let item = json!({"type": "object", "properties": {"k": {"type": "string"}}});
    let table = [
        (
            json!({}),
            "type: Required value: must not be empty for specified object fields",
        ),
        (json!({"type": "array"}), "items: Required value: must be specified"),
        (
            json!({"type": "array", "items": {}}),
            "items.type: Required value: must not be empty for specified array items",
        ),
        (
            json!({"type": "foo"}),
            "type: Unsupported value: \"foo\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
        ),
        (
            json!({"type": "string", "$ref": "#/x"}),
            "$ref: Forbidden: $ref is not supported",
        ),
        (
            json!({"type": "string", "anyOf": [{"description": "x"}]}),
            "anyOf[0].description: Forbidden: must be empty to be structural",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
            "uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            "additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            json!({"type": "string", "x-kubernetes-list-type": "set"}),
            "type: Invalid value: \"string\": must be array if x-kubernetes-list-type is specified",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}),
            "items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        ),
        (
            json!({"type": "array", "items": item, "x-kubernetes-list-type": "map"}),
            "x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"]}),
            "x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names of item properties",
        ),
        (
            json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            "items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            "properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ),
        (
            json!({"type": "integer", "default": "x"}),
            "default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "object", "default": {"q": 1}}),
            "default: Invalid value: {\"q\":1}: must not have unknown fields",
        ),
        (
            json!({"type": "object", "properties": {"q": {"type": "integer"}}, "default": {"q": "x"}}),
            "default.q: Invalid value: \"string\": q in body must be of type integer: \"string\"",
        ),
    ];
    for (schema, expected) in table {
        assert_eq!(errors(&with_property(schema)), [format!("{at}.{expected}")]);
    }
    let int_or_string = json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    assert_eq!(errors(&with_property(int_or_string)), Vec::<String>::new());
}

#[test]
fn the_root_of_a_schema_is_an_object_that_leaves_metadata_alone() {
    let root = "/spec/versions/0/schema/openAPIV3Schema";
    let at = "spec.validation.openAPIV3Schema";
    let table = [
        (
            "type",
            json!(null),
            "type: Required value: must not be empty at the root",
        ),
        (
            "nullable",
            json!(true),
            "nullable: Forbidden: nullable cannot be true at the root",
        ),
        (
            "properties/metadata",
            json!({"type": "object", "properties": {"labels": {"type": "object"}}}),
            "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
        (
            "properties/kind",
            json!({"type": "string", "default": "x"}),
            "properties[kind].default: Forbidden: must not be set in top-level kind",
        ),
        (
            "anyOf",
            json!([{"properties": {"zz": {"minimum": 1}}}]),
            "properties[zz]: Required value: because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[zz]",
        ),
    ];
    for (place, value, expected) in table {
        assert_eq!(
            errors(&with(&format!("{root}/{place}"), value)),
            [format!("{at}.{expected}")]
        );
    }
    let name = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}});
    assert_eq!(
        errors(&with(&format!("{root}/properties/metadata"), name)),
        Vec::<String>::new()
    );
}

#[test]
fn rules_have_to_compile() {
    let rules = json!([{"rule": "self.foo > 1"}]);
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations";
    let found = check(&with(spec, rules), None);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].field.to_string(),
        "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    );
    assert!(
        found[0]
            .detail
            .starts_with("compilation failed: ERROR: <input>:1:5: undefined field 'foo'")
    );
}

#[test]
fn a_schema_that_differs_between_versions_is_reported_at_its_version() {
    let mut two = definition();
    let mut version = two["spec"]["versions"][0].clone();
    version["name"] = json!("v2");
    version["storage"] = json!(false);
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["zz"] = json!({});
    two["spec"]["versions"].as_array_mut().unwrap().push(version);
    assert_eq!(
        errors(&two),
        [
            "spec.versions[1].schema.openAPIV3Schema.properties[spec].properties[zz].type: Required value: must not be empty for specified object fields"
        ]
    );
}

#[test]
fn groups_of_the_community_need_an_approval() {
    let mut protected = definition();
    protected["spec"]["group"] = json!("x.k8s.io");
    protected["metadata"]["name"] = json!("bads.x.k8s.io");
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    assert!(errors(&protected)[0].starts_with(&format!("{field}: Required value: protected groups")));
    for (annotation, fine) in [
        ("https://github.com/kubernetes/enhancements/pull/1111", true),
        ("unapproved, an experiment", true),
        ("yes", false),
    ] {
        protected["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": annotation});
        assert_eq!(errors(&protected).is_empty(), fine, "{annotation}");
    }
    protected["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "yes"});
    assert_eq!(check(&protected, Some(&protected)), Vec::new());
}

#[test]
fn once_established_kind_and_scope_stay() {
    let mut old = definition();
    established(&mut old, "2026-01-01T00:00:00Z");
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["names"]["kind"] = json!("Other");
    let found: Vec<String> = check(&new, Some(&old)).iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "spec.scope: Invalid value: \"Cluster\": field is immutable",
            "spec.names.kind: Invalid value: \"Other\": field is immutable",
        ]
    );
}

#[test]
fn a_version_that_objects_were_stored_in_can_not_go() {
    let mut old = definition();
    established(&mut old, "2026-01-01T00:00:00Z");
    let mut new = old.clone();
    new["spec"]["versions"][0]["name"] = json!("v2");
    set_defaults(&mut new);
    let found: Vec<String> = check(&new, Some(&old)).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was")
    );
}

#[test]
fn establishing_again_keeps_the_times() {
    let mut definition = definition();
    established(&mut definition, "2026-01-01T00:00:00Z");
    let first = definition.clone();
    established(&mut definition, "2027-01-01T00:00:00Z");
    assert_eq!(definition, first);
    assert_eq!(definition["status"]["acceptedNames"], definition["spec"]["names"]);
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let types: Vec<&Value> = conditions.iter().map(|condition| &condition["type"]).collect();
    assert_eq!(types, ["NamesAccepted", "Established"]);
    assert!(is_established(&definition));
}

/// The definitions that we ship are ones that we accept.
#[test]
fn our_own_definitions_are_sound() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect(folder) {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut definition: Value = serde_saphyr::from_str(&text).unwrap();
        set_defaults(&mut definition);
        assert_eq!(errors(&definition), Vec::<String>::new(), "{}", path.display());
        for version in versions(&definition) {
            Schema::new(&version["schema"]["openAPIV3Schema"]).unwrap();
        }
        seen += 1;
    }
    assert!(seen > 0);
}
