use serde_json::{Value, json};

use berth_apimachinery::patch::strategic;
use berth_apimachinery::shape::{Shape, builtin};
use berth_apimachinery::status::Result;

fn deployment() -> std::sync::Arc<Shape> {
    builtin("apps", "v1", "Deployment").unwrap()
}

/// Patches the pod template's spec of a deployment.
fn pod(live: Value, patch: Value) -> Result<Value> {
    let wrap = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let patched = strategic(&wrap(live), &wrap(patch), &deployment())?;
    Ok(patched["spec"]["template"]["spec"].clone())
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_list_with_a_merge_key_merges_item_by_item() {
    let live = json!({"containers": [{"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "b:1"}]});
    let patch = json!({"containers": [{"name": "b", "image": "b:2"}, {"name": "a", "env": [{"name": "Y", "value": "2"}]}]});
    let patched = pod(live, patch).unwrap();
    assert_eq!(
        patched["containers"],
        json!([
            {"name": "b", "image": "b:2"},
            {"name": "a", "image": "a:1", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
        ])
    );
}

#[test]
fn a_list_without_a_merge_key_is_replaced() {
    let live = json!({"tolerations": [{"key": "a"}]});
    let patched = pod(live, json!({"tolerations": [{"key": "b"}]})).unwrap();
    assert_eq!(patched["tolerations"], json!([{"key": "b"}]));
}

#[test]
fn null_deletes_and_adds_nothing() {
    let live = json!({"hostname": "h", "dnsPolicy": "Default"});
    let patch = json!({"hostname": null, "subdomain": null, "securityContext": {"runAsUser": null, "runAsGroup": 1}});
    assert_eq!(
        pod(live, patch).unwrap(),
        json!({"dnsPolicy": "Default", "securityContext": {"runAsGroup": 1}})
    );
}

#[test]
fn an_item_marked_delete_goes() {
    let live = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let patch = json!({"containers": [{"$patch": "delete", "name": "a"}]});
    assert_eq!(names(&pod(live, patch).unwrap()["containers"]), ["b"]);
}

#[test]
fn an_item_marked_replace_replaces_the_whole_list() {
    let live = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let patch = json!({"containers": [{"name": "c"}, {"$patch": "replace"}]});
    assert_eq!(names(&pod(live, patch).unwrap()["containers"]), ["c"]);
}

#[test]
fn an_object_marked_replace_or_delete_is_not_merged() {
    let live = json!({"securityContext": {"runAsUser": 1}});
    let replaced = pod(
        live.clone(),
        json!({"securityContext": {"$patch": "replace", "runAsGroup": 2}}),
    );
    assert_eq!(replaced.unwrap()["securityContext"], json!({"runAsGroup": 2}));
    let deleted = pod(live, json!({"securityContext": {"$patch": "delete"}}));
    assert_eq!(deleted.unwrap()["securityContext"], json!({}));
}

#[test]
fn directives_in_what_is_new_are_not_stored() {
    let patch = json!({"containers": [{"name": "a"}, {"name": "b", "$patch": "delete"}], "securityContext": {"$patch": "delete"}});
    assert_eq!(pod(json!({}), patch).unwrap(), json!({"containers": [{"name": "a"}]}));
}

#[test]
fn a_list_of_scalars_is_merged_in_the_order_of_the_patch() {
    let live = json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = json!({"metadata": {"finalizers": ["c", "b"]}});
    let patched = strategic(&live, &patch, &deployment()).unwrap();
    assert_eq!(patched["metadata"]["finalizers"], json!(["c", "a", "b"]));
}

#[test]
fn scalars_can_be_deleted_from_a_list() {
    let live = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}});
    let patched = strategic(&live, &patch, &deployment()).unwrap();
    assert_eq!(patched["metadata"]["finalizers"], json!(["a", "c"]));
}

#[test]
fn set_element_order_orders_listed_items_and_keeps_others() {
    let live = json!({"containers": [{"name": "a"}, {"name": "server"}, {"name": "b"}]});
    let patch = json!({
        "$setElementOrder/containers": [{"name": "b"}, {"name": "new"}, {"name": "a"}],
        "containers": [{"name": "new"}],
    });
    assert_eq!(
        names(&pod(live, patch).unwrap()["containers"]),
        ["server", "b", "new", "a"]
    );
}

#[test]
fn set_element_order_alone_only_reorders() {
    let live = json!({"containers": [{"name": "a", "image": "x"}, {"name": "b"}]});
    let patch = json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]});
    assert_eq!(
        pod(live, patch).unwrap()["containers"],
        json!([{"name": "b"}, {"name": "a", "image": "x"}])
    );
}

#[test]
fn a_patch_list_out_of_its_set_element_order_is_refused() {
    let patch = json!({
        "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
        "containers": [{"name": "b"}, {"name": "a"}],
    });
    let status = pod(json!({"containers": []}), patch).unwrap_err();
    assert!(
        status
            .message
            .starts_with("The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match"),
        "{status}"
    );
}

#[test]
fn items_with_a_directive_need_no_place_in_the_order() {
    let live = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let patch = json!({
        "$setElementOrder/containers": [{"name": "a"}],
        "containers": [{"$patch": "delete", "name": "b"}],
    });
    assert_eq!(names(&pod(live, patch).unwrap()["containers"]), ["a"]);
}

#[test]
fn retain_keys_clears_the_rest_of_a_union() {
    let live =
        json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let patched = strategic(&live, &patch, &deployment()).unwrap();
    assert_eq!(patched["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn retain_keys_without_a_key_of_the_patch_are_a_bad_request() {
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}});
    let status = strategic(&json!({"spec": {"strategy": {}}}), &patch, &deployment()).unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "invalid patch format of retainKeys")
    );
}

#[test]
fn a_missing_merge_key_is_refused_in_kube_apiservers_words() {
    let live = json!({"containers": [{"name": "a"}]});
    let status = pod(
        live,
        json!({"containers": [{"image": "x", "ports": [{"containerPort": 80}]}]}),
    )
    .unwrap_err();
    assert_eq!(
        status.message,
        "map: map[image:x ports:[map[containerPort:80]]] does not contain declared merge key: name"
    );
}

#[test]
fn an_unknown_directive_is_refused() {
    let status = pod(
        json!({"securityContext": {}}),
        json!({"securityContext": {"$patch": "merge"}}),
    )
    .unwrap_err();
    assert_eq!(status.message, "unknown patch type: merge in map: map[$patch:merge]");
}

#[test]
fn a_patch_that_is_no_object_is_a_bad_request() {
    let status = strategic(&json!({}), &json!([]), &deployment()).unwrap_err();
    assert_eq!(status.code, 400);
}
