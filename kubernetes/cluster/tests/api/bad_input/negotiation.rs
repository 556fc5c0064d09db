//! Who asks, for what path, with which method, in which format.

use serde_json::json;

use super::{Desk, config_map};
use crate::request::{delete, get, patch, post, put};

#[test]
fn a_request_without_the_right_token_is_unauthorized() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    // A server may let strangers ask for nothing (403) or not know them at all; a wrong token is
    // wrong everywhere.
    for wrong in ["Bearer wrong", "Bearer ", "bearer", "Basic YTpi", "wrong"] {
        let list = get(&maps).unnamed().header("authorization", wrong);
        if wrong.starts_with("Bearer w") {
            desk.refuses(wrong, list, 401, "Unauthorized", &[]);
            let create = post(&maps)
                .unnamed()
                .header("authorization", wrong)
                .json(&config_map("a"));
            desk.refuses("create", create, 401, "Unauthorized", &[]);
        } else {
            let code = list.send().code;
            assert!(matches!(code, 401 | 403), "{wrong}: {code}");
        }
    }
    let code = get(&maps).unnamed().send().code;
    assert!(matches!(code, 401 | 403), "{code}");
}

#[test]
fn a_content_type_that_is_not_known_is_unsupported() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    desk.have(&maps, &config_map("there"));
    let there = desk.core("configmaps/there");
    let text = config_map("there").to_string();
    for content_type in [
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "nonsense",
    ] {
        let create = post(&maps).body(content_type, text.clone());
        desk.refuses(content_type, create, 415, "UnsupportedMediaType", &[]);
        let update = put(&there).body(content_type, text.clone());
        desk.refuses(content_type, update, 415, "UnsupportedMediaType", &[]);
        let change = patch(&there).body(content_type, text.clone());
        desk.refuses(content_type, change, 415, "UnsupportedMediaType", &[]);
    }
    let change = patch(&there).body("application/json", "{}");
    desk.refuses("a patch of no type", change, 415, "UnsupportedMediaType", &[]);
}

#[test]
fn an_answer_in_a_format_that_is_not_known_is_not_acceptable() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    for accept in [
        "text/html",
        "application/xml",
        "application/json;as=Nonsense;v=v1;g=meta.k8s.io",
    ] {
        let list = get(&maps).header("accept", accept);
        desk.refuses(accept, list, 406, "NotAcceptable", &[]);
    }
    let create = post(&maps).header("accept", "text/html").json(&config_map("a"));
    desk.refuses("create", create, 406, "NotAcceptable", &[]);
    get(&maps).header("accept", "text/html, */*").send().expect(200);
}

#[test]
fn a_path_that_names_nothing_is_not_found() {
    let desk = Desk::new();
    for path in [
        "/api/v2".to_owned(),
        "/api/v1/nothing".to_owned(),
        "/apis/apps/v9/deployments".to_owned(),
        desk.core("nothing"),
        desk.core("configmaps/a/b/c/d"),
        desk.core("nodes"),
        desk.group("apps/v1", "pods"),
    ] {
        desk.refuses(&path, get(&path), 404, "NotFound", &[]);
    }
    // Where not even a group is known, there is no Status.
    for path in ["/nothing", "/apis/nothing.example.com/v1/things"] {
        let answer = get(path).send();
        assert_eq!(answer.code, 404, "{path}");
        assert_eq!(answer.body, "404 page not found\n", "{path}");
    }
    desk.have(&desk.core("configmaps"), &config_map("a"));
    for path in ["configmaps/a/status", "configmaps/a/scale", "configmaps/a/nothing"] {
        desk.refuses(path, get(desk.core(path)), 404, "NotFound", &[]);
    }
}

#[test]
fn a_method_that_the_resource_does_not_have_is_not_allowed() {
    let desk = Desk::new();
    desk.have(&desk.core("configmaps"), &config_map("a"));
    let (maps, map) = (desk.core("configmaps"), desk.core("configmaps/a"));
    for (what, request) in [
        ("create with a name", post(&map).json(&config_map("a"))),
        ("update of a collection", put(&maps).json(&config_map("a"))),
        ("patch of a collection", patch(&maps).of_type("merge", &json!({}))),
        (
            "create in all namespaces",
            post("/api/v1/configmaps").json(&config_map("a")),
        ),
        ("delete in all namespaces", delete("/api/v1/configmaps")),
        ("delete of a status", delete(desk.core("pods/a/status"))),
        (
            "create of a scale",
            post(desk.group("apps/v1", "deployments/a/scale")).json(&json!({})),
        ),
        ("read of a binding", get(desk.core("pods/a/binding"))),
        ("read of an eviction", get(desk.core("pods/a/eviction"))),
    ] {
        desk.refuses(what, request, 405, "MethodNotAllowed", &[]);
    }
}
