use serde_json::{Value, json};

use berth_apimachinery::shape::strict::{metadata, normalize, parse_json};
use berth_apimachinery::shape::{Field, Object, Shape, builtin};

fn decode(kind: &str, mut object: Value) -> Result<(Value, Vec<String>), String> {
    let group = if kind == "Deployment" { "apps" } else { "" };
    let group = if kind == "Lease" { "coordination.k8s.io" } else { group };
    let shape = builtin(group, "v1", kind).unwrap();
    let unknown = normalize(&mut object, &shape, "v1", kind).map_err(|status| status.message)?;
    Ok((object, unknown))
}

fn container(fields: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [fields]}}}})
}

#[test]
fn a_wrong_type_is_refused_in_the_words_of_go() {
    let pod = "spec.template.spec.containers";
    let table = [
        (
            json!({"spec": {"replicas": "x"}}),
            "string into Go struct field DeploymentSpec.spec.replicas of type int32".to_owned(),
        ),
        (
            json!({"spec": {"replicas": 1.5}}),
            "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32".to_owned(),
        ),
        (
            json!({"spec": {"replicas": 3_000_000_000_i64}}),
            "number 3000000000 into Go struct field DeploymentSpec.spec.replicas of \
             type int32"
                .to_owned(),
        ),
        (
            json!({"spec": {"paused": "x"}}),
            "string into Go struct field DeploymentSpec.spec.paused of type bool".to_owned(),
        ),
        (
            json!({"spec": []}),
            "array into Go struct field Deployment.spec of type v1.DeploymentSpec".to_owned(),
        ),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "number into Go struct field ObjectMeta.metadata.labels of type string".to_owned(),
        ),
        (
            json!({"metadata": {"labels": "x"}}),
            "string into Go struct field ObjectMeta.metadata.labels of type \
             map[string]string"
                .to_owned(),
        ),
        (
            json!({"spec": {"template": {"spec": {"containers": {}}}}}),
            format!("object into Go struct field PodSpec.{pod} of type []v1.Container"),
        ),
        (
            container(json!({"image": 5})),
            format!("number into Go struct field Container.{pod}.image of type string"),
        ),
        (
            container(json!({"env": [{"value": 5}]})),
            format!("number into Go struct field EnvVar.{pod}.env.value of type string"),
        ),
        (
            container(json!({"ports": [{"containerPort": "x"}]})),
            format!(
                "string into Go struct field ContainerPort.{pod}.ports.containerPort of \
                 type int32"
            ),
        ),
        (
            json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": {}}}}}),
            "object into Go struct field \
             RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32"
                .to_owned(),
        ),
    ];
    for (object, expected) in table {
        let prefix = "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot \
                      unmarshal";
        assert_eq!(decode("Deployment", object), Err(format!("{prefix} {expected}")));
    }
}

#[test]
fn values_that_are_not_what_their_text_should_be_are_refused() {
    let quantity = container(json!({"resources": {"requests": {"cpu": "abc"}}}));
    let table = [
        (
            "Deployment",
            quantity,
            "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "Deployment",
            json!({"metadata": {"creationTimestamp": "x"}}),
            "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"",
        ),
        (
            "Lease",
            json!({"spec": {"renewTime": "2024-01-01T00:00:00Z"}}),
            "parsing time \"2024-01-01T00:00:00Z\" as \
             \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\"",
        ),
        (
            "Secret",
            json!({"data": {"a": "abc"}}),
            "illegal base64 data at input byte 0",
        ),
        (
            "Secret",
            json!({"data": {"a": "YWJj!"}}),
            "illegal base64 data at input byte 4",
        ),
        (
            "Secret",
            json!({"data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
    ];
    for (kind, object, expected) in table {
        let prefix = format!("{kind} in version \"v1\" cannot be handled as a {kind}: ");
        assert_eq!(decode(kind, object), Err(prefix + expected));
    }
}

#[test]
fn unknown_fields_are_dropped_and_named() {
    let object = json!({
        "metadata": {"name": "a", "foo": 1, "ownerReferences": [{"name": "o", "bar": 1}]},
        "spec": {"foo": {"x": 1}, "template": {"spec": {"containers": [{"name": "c", "foo": 1}]}}},
    });
    let (object, unknown) = decode("Deployment", object).unwrap();
    assert_eq!(
        unknown,
        [
            "metadata.foo",
            "metadata.ownerReferences[0].bar",
            "spec.foo",
            "spec.template.spec.containers[0].foo",
        ]
    );
    assert_eq!(
        object["metadata"],
        json!({"name": "a", "ownerReferences": [{"name": "o"}]})
    );
}

#[test]
fn nulls_and_zeroes_that_mean_nothing_disappear() {
    let object = json!({
        "metadata": {"name": "a", "labels": {}, "annotations": null, "creationTimestamp": null, "generation": 0},
        "spec": {
            "replicas": 0,
            "paused": false,
            "minReadySeconds": 0,
            "selector": {},
            "strategy": {},
            "template": {"spec": {
                "nodeSelector": {"a": null},
                "containers": [{"name": "c", "image": "", "args": ["", null], "resources": {}, "securityContext": {}}],
            }},
        },
    });
    let (object, _) = decode("Deployment", object).unwrap();
    let expected = json!({
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 0,
            "selector": {},
            "template": {"spec": {
                "nodeSelector": {"a": ""},
                "containers": [{"name": "c", "args": ["", ""], "securityContext": {}}],
            }},
        },
    });
    assert_eq!(object, expected);
}

#[test]
fn values_take_their_one_written_form() {
    let (secret, _) = decode(
        "Secret",
        json!({"metadata": {"creationTimestamp": "2024-01-01T02:00:00.5+02:00"}, "data": {"a": "YWJ\nj", "b": null}}),
    )
    .unwrap();
    assert_eq!(secret["metadata"]["creationTimestamp"], "2024-01-01T00:00:00Z");
    assert_eq!(secret["data"], json!({"a": "YWJj", "b": ""}));
    let (lease, _) = decode(
        "Lease",
        json!({"spec": {"renewTime": "2024-01-01T02:00:00.500000+02:00"}}),
    )
    .unwrap();
    assert_eq!(lease["spec"]["renewTime"], "2024-01-01T00:00:00.500000Z");
    let requests = json!({"requests": {"cpu": 1, "memory": "1024Mi"}});
    let (deployment, _) = decode("Deployment", container(json!({"resources": requests}))).unwrap();
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"],
        json!({"cpu": "1", "memory": "1Gi"})
    );
}

#[test]
fn of_a_custom_resource_metadata_alone_is_decoded() {
    let pod = builtin("", "v1", "Pod").unwrap();
    let Shape::Object(pod) = pod.as_ref() else {
        panic!("a pod is an object");
    };
    let field: Field = pod.fields["metadata"].clone();
    let shape = Shape::Object(Object {
        fields: [("metadata".to_owned(), field)].into(),
        ..Object::default()
    });
    let mut object =
        json!({"metadata": {"name": "a", "foo": 1, "labels": null}, "spec": {"x": null, "y": 0}});
    let unknown = metadata(&mut object, &shape, "v1", "Lab").unwrap();
    assert_eq!(unknown, ["metadata.foo"]);
    assert_eq!(object, json!({"metadata": {"name": "a"}, "spec": {"x": null, "y": 0}}));
    let mut object = json!({"metadata": {"labels": {"a": 1}}});
    assert_eq!(
        metadata(&mut object, &shape, "v1", "Lab").unwrap_err().message,
        "Lab in version \"v1\" cannot be handled as a Lab: json: cannot unmarshal \
         number into Go struct field ObjectMeta.labels of type string"
    );
}

#[test]
fn fields_that_are_given_twice_are_named_and_the_last_counts() {
    let text =
        br#"{"a": 1, "b": {"c": [{"d": 1, "d": 2}, {"d": 3}]}, "a": 2, "e": {"x": 1}, "e": {}}"#;
    let (value, duplicates) = parse_json(text).unwrap();
    assert_eq!(duplicates, ["b.c[0].d", "a", "e"]);
    assert_eq!(value, json!({"a": 2, "b": {"c": [{"d": 2}, {"d": 3}]}, "e": {}}));
}

#[test]
fn json_is_read_as_serde_reads_it() {
    let text = r#"{"n": null, "t": true, "i": -1, "u": 18446744073709551615, "f": 1.5, "s": "ä\n\"", "l": [[], {}]}"#;
    let (value, duplicates) = parse_json(text.as_bytes()).unwrap();
    assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
    assert!(duplicates.is_empty());
    for bad in ["", "{", "{\"a\":1,}", "[1] 2", "{\"a\" 1}"] {
        assert!(parse_json(bad.as_bytes()).is_err(), "{bad:?}");
    }
}
