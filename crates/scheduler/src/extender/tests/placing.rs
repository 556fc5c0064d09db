//! Filter, prioritize and preempt.

use super::*;

const FULL: &str = "no pod IP left in the node's podCIDR";

fn three() -> Stage {
    let stage = Stage::alone();
    stage.node("full", 1);
    stage.node("half", 2);
    stage.node("empty", 4);
    stage.bound("1", "full");
    stage.bound("2", "half");
    stage
}

#[tokio::test]
async fn full_nodes_are_unresolvable_with_one_constant_reason() {
    let answer = three()
        .ask("/filter", names(&["full", "half", "empty", "nobody"]))
        .await;
    let expected = json!({
        "Nodes": null,
        "NodeNames": ["half", "empty"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"full": FULL, "nobody": "the node is not known yet"},
        "Error": "",
    });
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn whole_nodes_go_back_as_they_came() {
    let node = |name: &str| json!({"metadata": {"name": name, "labels": {"é": "ü"}}, "status": {"x": [1, 2.50]}});
    let nodes = json!({"metadata": {}, "items": [node("full"), node("empty")]});
    let answer = three()
        .ask(
            "/filter",
            json!({"Pod": pod("new", json!({})), "Nodes": nodes, "NodeNames": null}),
        )
        .await;
    assert_eq!(answer["Nodes"]["items"], json!([node("empty")]));
    assert_eq!(answer["NodeNames"], Value::Null);
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"full": FULL}));
}

#[tokio::test]
async fn a_pod_on_the_host_goes_everywhere() {
    let args =
        json!({"Pod": pod("new", json!({"hostNetwork": true})), "NodeNames": ["full", "nobody"]});
    let answer = three().ask("/filter", args).await;
    assert_eq!(answer["NodeNames"], json!(["full", "nobody"]));
}

#[tokio::test]
async fn no_node_that_fits_is_an_empty_list_and_not_null() {
    let answer = three().ask("/filter", names(&["full"])).await;
    assert_eq!(answer["NodeNames"], json!([]));
}

#[tokio::test]
async fn nodes_with_more_at_hand_score_higher() {
    let answer = three()
        .ask("/prioritize", names(&["full", "half", "empty", "nobody"]))
        .await;
    let scores: Vec<(&str, u64)> = answer
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["Host"].as_str().unwrap(), one["Score"].as_u64().unwrap()))
        .collect();
    assert_eq!(scores, [("full", 0), ("half", 1), ("empty", 3), ("nobody", 0)]);
}

#[tokio::test]
async fn of_many_nodes_only_those_ahead_of_the_last_are_scored() {
    let stage = Stage::alone();
    let many: Vec<String> = (0..100).map(|n| format!("n{n}")).collect();
    many.iter().for_each(|name| stage.node(name, 2));
    // Two nodes have two addresses left; the others have one.
    for (uid, name) in many.iter().enumerate().skip(2) {
        stage.bound(&uid.to_string(), name);
    }
    let asked: Vec<&str> = many.iter().map(String::as_str).collect();
    let answer = stage.ask("/prioritize", names(&asked)).await;
    assert_eq!(answer, json!([{"Host": "n0", "Score": 1}, {"Host": "n1", "Score": 1}]));
}

#[tokio::test]
async fn only_nodes_whose_victims_leave_an_ip_are_worth_it() {
    let stage = three();
    let meta = |uid: &str| json!({"Pods": [{"UID": uid}], "NumPDBViolations": 1});
    let offered = json!({"full": meta("1"), "half": meta("9"), "nobody": meta("1")});
    let args = json!({"Pod": pod("new", json!({})), "NodeNameToVictims": null, "NodeNameToMetaVictims": offered});
    let answer = stage.ask("/preempt", args).await;
    let expected = json!({"NodeNameToMetaVictims": {"full": meta("1"), "half": meta("9")}});
    assert_eq!(answer, expected);

    let whole = json!({"full": {"Pods": [pod("9", json!({}))], "NumPDBViolations": 0}});
    let args = json!({"Pod": pod("new", json!({})), "NodeNameToVictims": whole, "NodeNameToMetaVictims": null});
    assert_eq!(stage.ask("/preempt", args).await, json!({"NodeNameToMetaVictims": {}}));
}

#[tokio::test]
async fn a_replica_that_does_not_lead_decides_nothing() {
    let stage = three();
    stage.extender.serve(None);
    let answer = stage.ask("/filter", names(&["empty"])).await;
    assert!(answer["Error"].as_str().unwrap().contains("does not lead"), "{answer}");
    let bind = json!({"PodName": "a", "PodNamespace": "default", "PodUID": "a", "Node": "empty"});
    let answer = stage.ask("/bind", bind).await;
    assert!(answer["Error"].as_str().unwrap().contains("does not lead"), "{answer}");
    for path in ["/prioritize", "/preempt"] {
        let (status, _) = stage.send(path, names(&["empty"]).to_string()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[tokio::test]
async fn a_sample_of_full_nodes_has_another_node_woken() {
    let stage = three();
    stage.ask("/filter", names(&["full", "half"])).await;
    assert!(!stage.books.lock().has_woken(), "one of them fits");
    stage.ask("/filter", names(&["full"])).await;
    let woken = stage.books.lock().take_woken();
    assert!(woken == ["half".into()] || woken == ["empty".into()], "{woken:?}");
}

#[tokio::test]
async fn five_thousand_full_nodes_are_one_reason() {
    let stage = Stage::alone();
    let nodes: Vec<String> = (0..5000).map(|n| format!("node-{n}")).collect();
    nodes.iter().for_each(|node| stage.node(node, 0));
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let answer = stage.ask("/filter", names(&nodes)).await;
    let reasons = answer["FailedAndUnresolvableNodes"].as_object().unwrap();
    assert_eq!(reasons.len(), 5000);
    assert!(reasons.values().all(|reason| reason == FULL));
}
