//! JSON patch (RFC 6902), with the deviations of kube-apiserver's library: `replace` adds a missing
//! key, an index may count from the end, and `test` treats null as absent
//! (`kube::runtime::finalizer` relies on that).

use serde_json::{Map, Value};

use super::{does_not_apply, go};
use crate::status::{Result, Status};

const MAX_OPERATIONS: usize = 10_000;

pub fn json(live: &Value, patch: &Value) -> Result<Value> {
    let operations = decode(patch)?;
    let mut document = live.clone();
    for operation in operations {
        perform(&mut document, operation).ok_or_else(does_not_apply)?;
    }
    Ok(document)
}

fn decode(patch: &Value) -> Result<Vec<&Map<String, Value>>> {
    let refuse = |value: &Value, wanted: &str| {
        Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go {wanted}",
            go::json_kind(value)
        ))
    };
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return Err(refuse(other, "value of type []handlers.jsonPatchOp")),
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut decoded = Vec::with_capacity(operations.len());
    for operation in operations {
        let Value::Object(members) = operation else {
            return Err(refuse(operation, "value of type handlers.jsonPatchOp"));
        };
        for name in ["op", "path", "from"] {
            match members.get(name) {
                None | Some(Value::String(_) | Value::Null) => {}
                Some(other) => {
                    return Err(refuse(
                        other,
                        &format!("struct field jsonPatchOp.{name} of type string"),
                    ));
                }
            }
        }
        decoded.push(members);
    }
    Ok(decoded)
}

/// `None` if the operation does not apply.
fn perform(document: &mut Value, operation: &Map<String, Value>) -> Option<()> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = text("path")?;
    let value = operation.get("value").unwrap_or(&Value::Null);
    match text("op")? {
        "add" => add(document, path, value.clone()),
        "remove" => remove(document, path).map(drop),
        "replace" if path.is_empty() => {
            *document = (value.is_object() || value.is_array()).then(|| value.clone())?;
            Some(())
        }
        "replace" => replace(document, path, value.clone()),
        "move" => {
            let moved = remove(document, text("from")?)?;
            add(document, path, moved)
        }
        "copy" => {
            let copied = get(document, text("from")?)?;
            add(document, path, copied)
        }
        "test" if path.is_empty() => (document == value).then_some(()),
        "test" => (get(document, path)? == *value).then_some(()),
        _ => None,
    }
}

/// The object or list that holds the last part of `path`, and that part.
fn holder<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut parts = path
        .split('/')
        .skip(1)
        .map(|part| part.replace("~1", "/").replace("~0", "~"));
    let mut key = parts.next()?;
    let mut holder = document;
    for next in parts {
        holder = match holder {
            Value::Object(fields) => fields.get_mut(&key)?,
            Value::Array(items) => {
                let index = index(&key, items.len())?;
                items.get_mut(index)?
            }
            _ => return None,
        };
        key = next;
    }
    Some((holder, key))
}

fn index(key: &str, len: usize) -> Option<usize> {
    match key.strip_prefix('-') {
        Some(back) => len.checked_sub(back.parse().ok()?),
        None => key.parse().ok(),
    }
}

/// Null for a key that an object does not have.
fn get(document: &mut Value, path: &str) -> Option<Value> {
    match holder(document, path)? {
        (Value::Object(fields), key) => Some(fields.get(&key).cloned().unwrap_or_default()),
        (Value::Array(items), key) => items.get(index(&key, items.len())?).cloned(),
        _ => None,
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    match holder(document, path)? {
        (Value::Object(fields), key) => drop(fields.insert(key, value)),
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => {
            let at = index(&key, items.len() + 1).filter(|at| *at <= items.len())?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    match holder(document, path)? {
        (Value::Object(fields), key) => fields.remove(&key),
        (Value::Array(items), key) => {
            let at = index(&key, items.len()).filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    match holder(document, path)? {
        (Value::Object(fields), key) => drop(fields.insert(key, value)),
        (Value::Array(items), key) => {
            let at = index(&key, items.len())?;
            *items.get_mut(at)? = value;
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(live: Value, patch: Value) -> Value {
        super::json(&live, &patch).unwrap()
    }

    fn code(live: Value, patch: Value) -> u16 {
        super::json(&live, &patch).unwrap_err().code
    }

    #[test]
    fn each_operation_does_what_rfc_6902_says() {
        for (live, operation, want) in [
            (
                json!({"a": 1}),
                json!({"op": "add", "path": "/b", "value": 2}),
                json!({"a": 1, "b": 2}),
            ),
            (
                json!({"a": [1, 3]}),
                json!({"op": "add", "path": "/a/1", "value": 2}),
                json!({"a": [1, 2, 3]}),
            ),
            (
                json!({"a": [1]}),
                json!({"op": "add", "path": "/a/-", "value": 2}),
                json!({"a": [1, 2]}),
            ),
            (
                json!({"a": 1, "b": 2}),
                json!({"op": "remove", "path": "/a"}),
                json!({"b": 2}),
            ),
            (
                json!({"a": [1, 2]}),
                json!({"op": "remove", "path": "/a/0"}),
                json!({"a": [2]}),
            ),
            (
                json!({"a": 1}),
                json!({"op": "replace", "path": "/a", "value": 2}),
                json!({"a": 2}),
            ),
            (
                json!({"a": [1]}),
                json!({"op": "replace", "path": "/a/0", "value": 2}),
                json!({"a": [2]}),
            ),
            (
                json!({"a": 1}),
                json!({"op": "move", "from": "/a", "path": "/b"}),
                json!({"b": 1}),
            ),
            (
                json!({"a": 1}),
                json!({"op": "copy", "from": "/a", "path": "/b"}),
                json!({"a": 1, "b": 1}),
            ),
            (
                json!({"a": 1}),
                json!({"op": "test", "path": "/a", "value": 1}),
                json!({"a": 1}),
            ),
            (
                json!({"a/b~c": 1}),
                json!({"op": "remove", "path": "/a~1b~0c"}),
                json!({}),
            ),
            (
                json!({"a": 1}),
                json!({"op": "replace", "path": "", "value": {"b": 1}}),
                json!({"b": 1}),
            ),
        ] {
            assert_eq!(patched(live, json!([operation])), want, "{operation}");
        }
    }

    #[test]
    fn a_test_of_a_missing_key_against_null_passes() {
        let live = json!({"metadata": {"name": "a"}});
        let patch = json!([
            {"op": "test", "path": "/metadata/finalizers", "value": null},
            {"op": "add", "path": "/metadata/finalizers", "value": ["f"]},
        ]);
        assert_eq!(patched(live, patch)["metadata"]["finalizers"], json!(["f"]));
    }

    #[test]
    fn replacing_a_missing_key_adds_it() {
        let patch = json!([{"op": "replace", "path": "/a", "value": 1}]);
        assert_eq!(patched(json!({}), patch), json!({"a": 1}));
    }

    #[test]
    fn an_index_may_count_from_the_end() {
        let live = json!({"a": [1, 2]});
        let patch =
            json!([{"op": "remove", "path": "/a/-1"}, {"op": "add", "path": "/a/-1", "value": 3}]);
        assert_eq!(patched(live, patch), json!({"a": [1, 3]}));
    }

    #[test]
    fn a_patch_that_does_not_apply_is_unprocessable() {
        for operation in [
            json!({"op": "remove", "path": "/b"}),
            json!({"op": "remove", "path": "/l/1"}),
            json!({"op": "add", "path": "/b/c", "value": 1}),
            json!({"op": "add", "path": "/l/2", "value": 1}),
            json!({"op": "add", "path": "/l/-3", "value": 1}),
            json!({"op": "replace", "path": "/l/1", "value": 1}),
            json!({"op": "move", "from": "/b", "path": "/c"}),
            json!({"op": "test", "path": "/a", "value": null}),
            json!({"op": "test", "path": "/b/c", "value": null}),
            json!({"op": "mend", "path": "/a"}),
            json!({"op": "add", "value": 1}),
            json!({"op": "replace", "path": "", "value": 1}),
        ] {
            assert_eq!(code(json!({"a": 1, "l": [1]}), json!([operation])), 422, "{operation}");
        }
    }

    #[test]
    fn a_body_that_is_no_list_of_operations_is_a_bad_request() {
        for patch in [json!({}), json!([1]), json!([{"op": 1, "path": "/a"}]), json!("x")] {
            assert_eq!(code(json!({}), patch.clone()), 400, "{patch}");
        }
    }

    #[test]
    fn more_than_ten_thousand_operations_are_too_large() {
        let operation = json!({"op": "test", "path": "/a", "value": 1});
        let operations = |count| Value::Array(vec![operation.clone(); count]);
        assert!(super::json(&json!({"a": 1}), &operations(MAX_OPERATIONS)).is_ok());
        assert_eq!(code(json!({"a": 1}), operations(MAX_OPERATIONS + 1)), 413);
    }
}
