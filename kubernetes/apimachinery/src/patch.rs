//! The four kinds of patch. Each is a pure function from the live object to the patched one.
//!
//! The result is not yet checked: the caller does decoding, defaults, validation and the fields
//! that belong to the server (uid, generation, status on the main resource). The owners of fields
//! are set here: by `apply` itself, by `track_update` for all other writes.

mod apply;
mod field_set;
mod go;
mod json;
mod managed_fields;
mod merge;
mod strategic;

pub use apply::apply;
pub use field_set::FieldSet;
pub use json::json;
pub use managed_fields::{restore_times, track_update};
pub use merge::merge;
pub use strategic::strategic;

use crate::shape::Shape;
use crate::status::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// By the shape of the kind; built-in kinds only.
    Strategic,
    /// Server-side apply; the body is YAML.
    Apply,
}

impl PatchKind {
    pub const ALL: [Self; 4] = [Self::Json, Self::Merge, Self::Strategic, Self::Apply];

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }

    /// Parameters such as `; charset=utf-8` are ignored.
    pub fn from_content_type(header: &str) -> Option<Self> {
        let given = header.split(';').next().unwrap_or_default().trim();
        Self::ALL.into_iter().find(|kind| kind.content_type() == given)
    }
}

/// The shape of the member `name` of an object or map. Untyped if the shape does not know it.
fn member_shape<'a>(shape: &'a Shape, name: &str) -> &'a Shape {
    match shape {
        Shape::Object(object) => object.fields.get(name).map_or(&Shape::Any, |field| &field.shape),
        Shape::Map(map) => &map.value,
        Shape::Any | Shape::Scalar(_) | Shape::List(_) => &Shape::Any,
    }
}

/// The 422 of a patch that does not apply. Like kube-apiserver, it does not say which part.
fn does_not_apply() -> Status {
    Status::unprocessable("the server rejected our request due to an error in our request")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::shape::builtin;

    /// Any JSON, made of words that mean something here.
    fn anything() -> impl Strategy<Value = Value> {
        let words = [
            "metadata",
            "managedFields",
            "labels",
            "finalizers",
            "spec",
            "template",
            "containers",
            "name",
            "ports",
            "$patch",
            "$retainKeys",
            "$setElementOrder/containers",
            "$deleteFromPrimitiveList/finalizers",
            "delete",
            "replace",
            "op",
            "path",
            "from",
            "value",
            "/spec/0",
            "add",
            "move",
            "operation",
            "Apply",
            "fieldsV1",
            ".",
        ];
        let word = prop::sample::select(words.to_vec());
        let leaf = prop_oneof![
            Just(json!(null)),
            Just(json!(0)),
            Just(json!(true)),
            word.clone().prop_map(Value::from)
        ];
        leaf.prop_recursive(6, 40, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((word.clone().prop_map(str::to_owned), inner), 0..5)
                    .prop_map(|fields| fields.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_makes_a_patch_panic(live in anything(), body in anything(), force: bool) {
            let shape = builtin("apps", "v1", "Deployment").unwrap();
            let _ = json(&live, &body);
            let _ = merge(&live, &body);
            let _ = strategic(&live, &body, &shape);
            let _ = apply(Some(&live), &body, &shape, "kubectl", "", force, "apps/v1", "now");
            let _ = apply(None, &body, &shape, "m", "status", force, "apps/v1", "now");
            let mut new = body;
            track_update(Some(&live), &mut new, &shape, "m", "", "apps/v1", "now");
            restore_times(&live, &mut new);
        }
    }

    #[test]
    fn a_content_type_names_its_kind_with_or_without_parameters() {
        for kind in PatchKind::ALL {
            let plain = kind.content_type();
            assert_eq!(PatchKind::from_content_type(plain), Some(kind));
            let with_charset = format!("{plain}; charset=utf-8");
            assert_eq!(PatchKind::from_content_type(&with_charset), Some(kind));
        }
        assert_eq!(PatchKind::from_content_type("application/json"), None);
    }
}
