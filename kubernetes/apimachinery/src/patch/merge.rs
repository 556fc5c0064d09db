//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

use super::go;
use crate::status::{Result, Status};

pub fn merge(live: &Value, patch: &Value) -> Result<Value> {
    match patch {
        Value::Object(fields) => {
            let mut merged = live.clone();
            merge_fields(&mut merged, fields);
            Ok(merged)
        }
        Value::Null => Err(Status::bad_request("Invalid JSON Patch")),
        other => Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            go::json_kind(other)
        ))),
    }
}

fn merge_fields(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (name, value) in patch {
        match value {
            Value::Null => {
                target.remove(name);
            }
            Value::Object(fields) => {
                merge_fields(target.entry(name.as_str()).or_insert(Value::Null), fields);
            }
            other => {
                target.insert(name.clone(), other.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_rfc_7386_come_out_as_it_says() {
        for (live, patch, want) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (
                json!({"a": "foo"}),
                json!({"a": {"b": {"c": null}}}),
                json!({"a": {"b": {}}}),
            ),
        ] {
            assert_eq!(merge(&live, &patch), Ok(want), "{live} with {patch}");
        }
    }

    #[test]
    fn a_patch_that_is_no_object_is_a_bad_request() {
        let status = merge(&json!({}), &json!([1])).unwrap_err();
        assert_eq!(status.code, 400);
        assert!(status.message.contains("cannot unmarshal array"), "{status}");
        assert_eq!(merge(&json!({}), &json!(null)).unwrap_err().code, 400);
    }
}
