//! Bodies that the real Go types marshal, and real kubectl sends, decode to the JSON that Go writes
//! for the same object.

use std::sync::Arc;

use berth_apimachinery::protobuf::decode;
use berth_apimachinery::shape::{Shape, builtin};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Vector {
    name: String,
    body: String,
    json: Value,
}

impl Vector {
    fn bytes(&self) -> Vec<u8> {
        let digits = self.body.as_bytes().chunks(2);
        digits
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }
}

/// Made by `cd xtask/fields && go run . -vectors`.
const MARSHALLED: &str = include_str!("../vectors/protobuf.json");

/// Seen between kubectl and kube-apiserver; 1.32.4 and 1.36.4 send the same bytes.
const KUBECTL: &str = include_str!("../vectors/kubectl.json");

fn parse(vectors: &str) -> Vec<Vector> {
    serde_json::from_str(vectors).unwrap()
}

fn shape_of(api_version: &str, kind: &str) -> Option<Arc<Shape>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    builtin(group, version, kind)
}

/// Go writes structs that nobody filled in as `{}`, and times and lists as `null`: they count as
/// absent.
fn without_noise(value: Value, shape: &Shape) -> Value {
    match (value, shape) {
        (Value::Object(json), Shape::Object(object)) => json
            .into_iter()
            .filter_map(|(name, value)| {
                let field = &object.fields[&name];
                let value = without_noise(value, &field.shape);
                let empty = value.as_object().is_some_and(|inner| inner.is_empty());
                let noise = value.is_null() || (empty && !field.pointer);
                (!noise).then_some((name, value))
            })
            .collect(),
        (Value::Array(items), Shape::List(list)) => {
            items.into_iter().map(|item| without_noise(item, &list.item)).collect()
        }
        (value, _) => value,
    }
}

fn assert_decodes(vector: Vector) {
    let decoded = decode(&vector.bytes(), shape_of)
        .unwrap_or_else(|error| panic!("{}: {error}", vector.name));
    let [api_version, kind] = ["apiVersion", "kind"].map(|name| vector.json[name].as_str());
    let shape = shape_of(api_version.unwrap(), kind.unwrap()).unwrap();
    let expected = without_noise(vector.json, &shape);
    assert_same(&decoded, &expected, &vector.name);
}

#[test]
fn a_body_decodes_to_what_go_writes_as_json() {
    let vectors = parse(MARSHALLED);
    assert!(vectors.len() > 30);
    vectors.into_iter().for_each(assert_decodes);
}

#[test]
fn what_kubectl_sends_decodes_to_what_it_prints() {
    let vectors = parse(KUBECTL);
    assert!(vectors.len() > 10);
    vectors.into_iter().for_each(assert_decodes);
}

/// Names the first place that differs: whole pods are too large to compare by eye.
fn assert_same(decoded: &Value, expected: &Value, at: &str) {
    match (decoded, expected) {
        (Value::Object(left), Value::Object(right)) => {
            for name in left.keys().chain(right.keys()) {
                let [left, right] =
                    [left, right].map(|side| side.get(name).unwrap_or(&Value::Null));
                assert_same(left, right, &format!("{at}.{name}"));
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (left, right) in left.iter().zip(right) {
                assert_same(left, right, &format!("{at}[]"));
            }
        }
        _ => assert_eq!(decoded, expected, "{at}"),
    }
}

proptest! {
    #[test]
    fn a_damaged_body_never_panics(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        end in any::<prop::sample::Index>(),
    ) {
        let mut body = which.get(&parse(KUBECTL)).bytes();
        for (place, byte) in damage {
            let place = place.index(body.len());
            body[place] = byte;
        }
        body.truncate(end.index(body.len()) + 1);
        let _ = decode(&body, shape_of);
    }
}
