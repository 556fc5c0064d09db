use serde_json::{Value, json};

use berth_apimachinery::definition::{check, established, set_defaults, versions};
use berth_apimachinery::schema::Schema;

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
fn names_and_versions_are_checked() {
    let label = berth_apimachinery::names::label_1035("A").unwrap();
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
            "/spec/conversion",
            json!({"strategy": "Foo"}),
            "spec.conversion.strategy: Unsupported value: \"Foo\": supported values: \
             \"None\", \"Webhook\"",
        ),
        (
            "/spec/preserveUnknownFields",
            json!(true),
            "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set \
             x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
             instead",
        ),
    ];
    for (pointer, value, expected) in table {
        assert_eq!(errors(&with(pointer, value)), [expected]);
    }
    let no_dot = errors(&with("/spec/group", json!("nodot")));
    assert!(
        no_dot.contains(
            &"spec.group: Invalid value: \"nodot\": should be a domain with at least one dot"
                .to_owned()
        )
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
fn every_place_in_a_schema_has_a_type_and_a_fitting_default() {
    let at = "spec.validation.openAPIV3Schema.properties[spec].properties[b]";
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
fn the_root_of_a_schema_is_an_object() {
    let root = "/spec/versions/0/schema/openAPIV3Schema/type";
    for (value, expected) in [
        (json!(null), "Required value: must not be empty at the root"),
        (json!("array"), "Required value: must be specified"),
    ] {
        let found = errors(&with(root, value));
        assert!(found[0].ends_with(expected), "{found:?}");
    }
}

#[test]
fn rules_have_to_compile() {
    let rules = json!([{"rule": "foo > 1"}]);
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
            .starts_with("compilation failed: ERROR: undeclared reference to 'foo'")
    );
}

#[test]
fn an_error_in_one_versions_schema_names_that_version() {
    let mut two = definition();
    let mut version = two["spec"]["versions"][0].clone();
    version["name"] = json!("v2");
    version["storage"] = json!(false);
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["zz"] = json!({});
    two["spec"]["versions"].as_array_mut().unwrap().push(version);
    assert_eq!(
        errors(&two),
        [
            "spec.versions[1].schema.openAPIV3Schema.properties[spec].properties[zz].type: \
             Required value: must not be empty for specified object fields"
        ]
    );
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
    assert!(found[0].starts_with(
        "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was"
    ));
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
    assert_eq!(conditions[1]["status"], "True");
}

/// The definitions that we ship are ones that we accept.
#[test]
fn our_own_definitions_are_sound() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).expect(directory) {
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
