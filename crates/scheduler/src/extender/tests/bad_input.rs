//! Requests that kube-scheduler would never send: refused with the field's name, and nothing
//! changes.

use super::*;

async fn refused(path: &str, body: &str, expected: &str) {
    let stage = Stage::alone();
    stage.node("n", 1);
    let (status, text) = stage.send(path, body.to_owned()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {body}: {text}");
    assert!(text.contains(expected), "{path} {body}: {text}");
    assert_eq!(stage.books.lock().free("n", "x"), Ok(1));
}

#[tokio::test]
async fn bodies_that_cannot_be_read() {
    for path in ["/filter", "/prioritize", "/preempt", "/bind"] {
        for body in ["", "{", "[]", "7", "\u{0}", "{\"Pod\": 7, \"PodName\": 7}"] {
            refused(path, body, "the body can't be read").await;
        }
    }
}

#[tokio::test]
async fn a_request_without_a_pod_or_without_nodes() {
    for path in ["/filter", "/prioritize"] {
        refused(path, "{}", "Pod: is null or missing").await;
        refused(path, r#"{"Pod": null, "NodeNames": ["n"]}"#, "Pod: is null or missing").await;
        let both = r#"{"Pod": {}, "Nodes": null, "NodeNames": null}"#;
        refused(path, both, "NodeNames and Nodes: both are null").await;
        let nameless = r#"{"Pod": {}, "Nodes": {"items": [{"metadata": {}}]}}"#;
        refused(path, nameless, "Nodes.items[0]: has no metadata.name").await;
        let wrong = r#"{"Pod": {}, "NodeNames": ["n", 7]}"#;
        refused(path, wrong, "the body can't be read").await;
    }
    refused("/preempt", "{}", "Pod: is null or missing").await;
}

#[tokio::test]
async fn a_binding_that_lacks_a_field_names_it() {
    let whole = json!({"PodName": "a", "PodNamespace": "default", "PodUID": "u", "Node": "n"});
    for field in ["PodName", "PodNamespace", "PodUID", "Node"] {
        for value in [json!(""), Value::Null] {
            let mut args = whole.clone();
            match value {
                Value::Null => drop(args.as_object_mut().unwrap().remove(field)),
                value => args[field] = value,
            }
            let stage = Stage::alone();
            stage.node("n", 1);
            let answer = stage.ask("/bind", args).await;
            assert_eq!(answer["Error"], format!("{field}: is empty or missing"));
            assert_eq!(stage.books.lock().free("n", "x"), Ok(1));
        }
    }
}

#[tokio::test]
async fn other_paths_and_methods_are_not_served() {
    let stage = Stage::alone();
    let (status, _) = stage.send("/filters", "{}".to_owned()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let request = Request::get("/filter").body(Body::empty()).unwrap();
    let answer = stage.router.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn names_that_come_twice_or_are_odd_are_answered_as_they_came() {
    let stage = Stage::alone();
    stage.node("n", 1);
    let answer = stage.ask("/filter", names(&["n", "n", "", "é\"\\\u{1}"])).await;
    assert_eq!(answer["NodeNames"], json!(["n", "n"]));
    assert_eq!(answer["FailedAndUnresolvableNodes"].as_object().unwrap().len(), 2);
}
