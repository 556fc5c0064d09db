use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::shape::builtin;

/// A field that holds bytes, text or a message. Short ones only: the length is one byte.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 0x80 && number < 16);
    [&[number << 3 | 2, length], content].concat()
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [PREFIX.to_vec(), field(1, &types), field(2, raw)].concat()
}

fn shape_of(api_version: &str, kind: &str) -> Option<Arc<Shape>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    builtin(group, version, kind)
}

fn pod(raw: &[u8]) -> Result<Value, DecodeError> {
    decode(&body("v1", "Pod", raw), shape_of)
}

fn message_of(result: Result<Value, DecodeError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_body_without_the_prefix_is_refused() {
    let error = message_of(decode(b"{\"kind\":\"Pod\"}", shape_of));
    assert_eq!(error, "the body does not begin with \"k8s\\0\"");
}

#[test]
fn an_unknown_kind_is_named() {
    let error = message_of(decode(&body("example.com/v1", "Widget", b""), shape_of));
    assert_eq!(error, "no kind \"Widget\" is registered for version \"example.com/v1\"");
}

#[test]
fn a_body_without_a_type_is_of_the_kind_that_is_asked_for() {
    let raw = field(1, &field(1, b"p"));
    let body = [PREFIX.to_vec(), field(2, &raw)].concat();
    let decoded = decode(&body, |api_version, kind| {
        assert_eq!((api_version, kind), ("", ""));
        builtin("", "v1", "Pod")
    });
    assert_eq!(decoded.unwrap(), json!({"metadata": {"name": "p"}}));
}

#[test]
fn json_inside_the_envelope_is_taken_as_it_is() {
    let json = br#"{"kind":"Widget","spec":{"n":1}}"#;
    let body = [PREFIX.to_vec(), field(2, json), field(4, b"application/json")].concat();
    assert_eq!(
        decode(&body, shape_of).unwrap(),
        json!({"kind": "Widget", "spec": {"n": 1}})
    );
}

#[test]
fn a_compressed_body_is_refused() {
    let body = [body("v1", "Pod", b""), field(3, b"gzip")].concat();
    let error = message_of(decode(&body, shape_of));
    assert_eq!(error, "the body is encoded as \"gzip\", which is not supported");
}

#[test]
fn fields_of_a_newer_version_are_skipped() {
    let raw = [field(15, b"new"), field(1, &field(1, b"p"))].concat();
    assert_eq!(pod(&raw).unwrap()["metadata"], json!({"name": "p"}));
}

#[test]
fn an_error_names_the_field() {
    let name_is_a_number = field(2, &field(2, &[0x08, 0x01]));
    assert_eq!(
        message_of(pod(&name_is_a_number)),
        "spec.containers.name: malformed protobuf: the value is of another type"
    );
    let not_utf8 = field(1, &field(1, &[0xff]));
    assert_eq!(message_of(pod(&not_utf8)), "metadata.name: the text is not UTF-8");
}

#[test]
fn a_message_in_two_pieces_is_one() {
    let raw = [
        field(1, &field(1, b"p")),
        field(1, &field(3, b"default")),
        field(1, &field(1, b"q")),
    ]
    .concat();
    assert_eq!(
        pod(&raw).unwrap()["metadata"],
        json!({"name": "q", "namespace": "default"})
    );
}

#[test]
fn the_last_value_counts_even_when_it_is_zero() {
    let raw = field(1, &[field(1, b"p"), field(1, b"")].concat());
    assert_eq!(pod(&raw).unwrap(), json!({"apiVersion": "v1", "kind": "Pod"}));
}

#[test]
fn packed_and_separate_numbers_are_one_list() {
    // spec.securityContext.supplementalGroups: 1, then 2 and 300 packed.
    let groups = [0x20, 1, 0x22, 3, 2, 0xac, 0x02];
    let raw = field(2, &field(14, &groups));
    assert_eq!(
        pod(&raw).unwrap()["spec"]["securityContext"]["supplementalGroups"],
        json!([1, 2, 300])
    );
}

#[test]
fn an_empty_message_counts_where_go_has_a_pointer() {
    // spec.volumes: [{name: "v", emptyDir: {}}], and an empty status.
    let volume = [field(1, b"v"), field(2, &field(2, b""))].concat();
    let raw = [field(2, &field(1, &volume)), field(3, b"")].concat();
    assert_eq!(
        pod(&raw).unwrap(),
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}})
    );
}

#[test]
fn a_map_entry_without_value_is_zero() {
    let labels = field(11, &field(1, b"bare"));
    assert_eq!(
        pod(&field(1, &labels)).unwrap()["metadata"]["labels"],
        json!({"bare": ""})
    );
}

#[test]
fn a_field_without_a_shape_is_refused_not_dropped() {
    // spec.versions[].schema.openAPIV3Schema of a CustomResourceDefinition.
    let raw = field(2, &field(7, &field(4, &field(1, b""))));
    let body = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", &raw);
    assert_eq!(
        message_of(decode(&body, shape_of)),
        "spec.versions.schema.openAPIV3Schema: this field is not supported in protobuf: send JSON"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = decode(&raw, shape_of);
        let _ = decode(&[PREFIX, &raw].concat(), shape_of);
        let _ = pod(&raw);
    }
}
