use berth_apimachinery::selectors::Matcher;
use berth_apimachinery::shape::Shape;
use serde_json::{Value, json};

use super::*;
use crate::samples;

#[test]
fn every_built_in_kind_has_a_shape() {
    for kind in built_in() {
        assert!(matches!(*kind.shape, Shape::Object(_)), "{}", kind.kind);
    }
}

fn matches(kind: &str, label: &str, field: &str, object: &Value) -> bool {
    Matcher::new(Some(label), Some(field), &samples::kind(kind).selectable())
        .unwrap()
        .matches(object.to_string().as_bytes())
}

fn refused(kind: &str, field: &str) -> String {
    let status = Matcher::new(None, Some(field), &samples::kind(kind).selectable()).unwrap_err();
    assert_eq!((status.code, status.reason), (400, "BadRequest"));
    status.message
}

#[test]
fn a_field_that_is_left_out_counts_as_its_zero() {
    let object = json!({"metadata": {"name": "a"}, "spec": {}});
    assert!(matches("pods", "", "spec.hostNetwork=false,spec.nodeName=", &object));
    assert!(matches("nodes", "", "spec.unschedulable=false", &object));
    let closed = json!({"metadata": {"name": "a"}, "spec": {"unschedulable": true}});
    assert!(matches("nodes", "", "spec.unschedulable=true", &closed));
}

#[test]
fn a_stored_event_is_found_by_the_names_of_either_group() {
    let event = json!({"involvedObject": {"kind": "Pod", "name": "a"}, "reportingComponent": "c"});
    assert!(matches(
        "events",
        "",
        "involvedObject.name=a,source=c,reportingComponent=c",
        &event
    ));
    assert!(matches(
        "events.events.k8s.io",
        "",
        "regarding.name=a,reportingController=c",
        &event
    ));
    assert_eq!(
        refused("events", "regarding.name=a"),
        "field label not supported: regarding.name"
    );
}

#[test]
fn a_custom_resource_is_selected_by_its_selectable_fields() {
    let widget = json!({"metadata": {"name": "a"}, "spec": {"color": "red", "size": 3}});
    assert!(matches("widgets.example.berth.dev", "", "spec.color=red", &widget));
    assert!(!matches("widgets.example.berth.dev", "", "spec.color=", &widget));
    assert_eq!(
        refused("widgets.example.berth.dev", "spec.size=3"),
        "field label not supported: spec.size"
    );
}

#[test]
fn an_unsupported_field_is_refused_in_kube_apiservers_words() {
    assert_eq!(refused("pods", "spec.foo=x"), "field label not supported: spec.foo");
    assert_eq!(
        refused("nodes", "metadata.namespace=x"),
        "field label not supported: metadata.namespace"
    );
    assert_eq!(
        refused("configmaps", "data=x"),
        "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
}
