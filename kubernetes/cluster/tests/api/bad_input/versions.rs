//! Versions, continue tokens and conditions that do not hold.

use serde_json::json;

use super::{Desk, but, config_map};
use crate::request::{delete, get, patch, post, put};

#[test]
fn a_stale_version_is_a_conflict() {
    let desk = Desk::new();
    let old = desk.have(&desk.core("configmaps"), &config_map("a"));
    let path = desk.core("configmaps/a");
    put(&path).json(&but(&old, "/data/a", json!("2"))).send().expect(200);
    let stale = put(&path).json(&but(&old, "/data/a", json!("3")));
    let status = desk.refuses("update", stale, 409, "Conflict", &[]);
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    let version = &old["metadata"]["resourceVersion"];
    let body = json!({"metadata": {"resourceVersion": version}, "data": {"a": "4"}});
    desk.refuses(
        "merge patch",
        patch(&path).of_type("merge", &body),
        409,
        "Conflict",
        &[],
    );
    desk.refuses(
        "strategic patch",
        patch(&path).of_type("strategic", &body),
        409,
        "Conflict",
        &[],
    );
    let body = but(&config_map("a"), "/metadata/resourceVersion", version.clone());
    let apply = patch(&path).query("fieldManager=m&force=true").of_type("apply", &body);
    desk.refuses("apply", apply, 409, "Conflict", &[]);
}

#[test]
fn an_update_of_another_uid_is_a_conflict() {
    let desk = Desk::new();
    desk.have(&desk.core("configmaps"), &config_map("a"));
    let other = but(
        &config_map("a"),
        "/metadata/uid",
        json!("11111111-2222-3333-4444-555555555555"),
    );
    let path = desk.core("configmaps/a");
    desk.refuses("update", put(&path).json(&other), 409, "Conflict", &[]);
    let uid = json!({"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}});
    let merge = patch(&path).of_type("merge", &uid);
    desk.refuses("patch", merge, 422, "Invalid", &[("FieldValueInvalid", "metadata.uid")]);
}

#[test]
fn an_update_of_what_is_not_there_is_not_found() {
    let desk = Desk::new();
    let path = desk.core("configmaps/a");
    let status = desk.refuses("update", put(&path).json(&config_map("a")), 404, "NotFound", &[]);
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps"}));
    desk.refuses("patch", patch(&path).of_type("merge", &json!({})), 404, "NotFound", &[]);
    desk.refuses("delete", delete(&path), 404, "NotFound", &[]);
    desk.refuses("get", get(&path), 404, "NotFound", &[]);
}

#[test]
fn a_version_on_create_is_refused() {
    let desk = Desk::new();
    let object = but(&config_map("a"), "/metadata/resourceVersion", json!("1"));
    desk.refuses("create", post(desk.core("configmaps")).json(&object), 500, "", &[]);
}

#[test]
fn a_version_from_the_future_is_a_timeout() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    let causes = [("ResourceVersionTooLarge", "")];
    let future = "resourceVersion=99999999999";
    let status = desk.refuses("list", get(&maps).query(future), 504, "Timeout", &causes);
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
    let exact = format!("{future}&resourceVersionMatch=NotOlderThan");
    desk.refuses("not older than", get(&maps).query(&exact), 504, "Timeout", &causes);
}

#[test]
fn a_version_that_is_no_number_is_refused() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    desk.refuses("list", get(&maps).query("resourceVersion=abc"), 400, "BadRequest", &[]);
    desk.refuses("watch", get(&maps).query("watch=1&resourceVersion=abc"), 500, "", &[]);
    desk.refuses(
        "get",
        get(desk.core("configmaps/a")).query("resourceVersion=abc"),
        500,
        "",
        &[],
    );
    let map = desk.have(&maps, &config_map("a"));
    let update =
        put(desk.core("configmaps/a")).json(&but(&map, "/metadata/resourceVersion", json!("abc")));
    desk.refuses("update", update, 500, "", &[]);
}

#[test]
fn options_of_a_list_that_contradict_each_other_are_refused() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    let field = "resourceVersionMatch";
    for (query, causes) in [
        ("resourceVersionMatch=Exact", &[("FieldValueForbidden", field)][..]),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            &[("FieldValueForbidden", field)],
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Sometimes",
            &[("FieldValueNotSupported", field)],
        ),
        (
            "watch=1&resourceVersion=1&resourceVersionMatch=NotOlderThan",
            &[("FieldValueForbidden", field)],
        ),
        ("watch=1&sendInitialEvents=true", &[("FieldValueForbidden", field)]),
        (
            "sendInitialEvents=true",
            &[("FieldValueForbidden", "sendInitialEvents")],
        ),
    ] {
        desk.refuses(query, get(&maps).query(query), 422, "Invalid", causes);
    }
    for query in ["limit=many", "timeoutSeconds=long", "watch=1&timeoutSeconds=1s"] {
        desk.refuses(query, get(&maps).query(query), 400, "BadRequest", &[]);
    }
}

#[test]
fn a_continue_token_that_was_never_given_out_is_refused() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    for query in [
        "limit=1&continue=nonsense",
        "limit=1&continue=e30",
        "limit=1&continue=%25%25",
    ] {
        desk.refuses(query, get(&maps).query(query), 400, "BadRequest", &[]);
    }
    for name in ["a", "b"] {
        desk.have(&maps, &config_map(name));
    }
    let page = get(&maps).query("limit=1").send().expect(200);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let query = format!("limit=1&resourceVersion=1&continue={token}");
    desk.refuses("with a version", get(&maps).query(&query), 400, "BadRequest", &[]);
}

#[test]
fn a_delete_whose_condition_does_not_hold_is_a_conflict() {
    let desk = Desk::new();
    desk.have(&desk.core("configmaps"), &config_map("a"));
    let path = desk.core("configmaps/a");
    for (what, condition) in [
        ("uid", json!({"uid": "11111111-2222-3333-4444-555555555555"})),
        ("resourceVersion", json!({"resourceVersion": "1"})),
    ] {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": condition});
        desk.refuses(what, delete(&path).json(&options), 409, "Conflict", &[]);
    }
}
