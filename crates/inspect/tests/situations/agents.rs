//! What agents hold, compared with what pods and NodeNetworkConfigs have.

use berth_inspect::check::check;

use super::scene::Scene;

/// The healthy cluster, with what the agents of both nodes hold.
fn heard() -> Scene {
    let mut scene = Scene::healthy();
    scene.nnc("n2", 16, &["10.0.0.6", "10.0.0.7"]);
    scene.digest("n1", &[("10.0.0.4", "Assigned", "uid-web")]);
    scene.digest("n2", &[("10.0.0.6", "Free", ""), ("10.0.0.7", "CoolingDown", "")]);
    scene
}

/// The object and the problem of each finding. Each finding has a fix.
fn found(scene: &Scene) -> Vec<(String, String)> {
    let findings = check(&scene.facts());
    assert!(findings.iter().all(|one| !one.fix.is_empty()));
    findings.into_iter().map(|one| (one.object, one.problem)).collect()
}

fn pair(object: &str, problem: &str) -> (String, String) {
    (object.to_owned(), problem.to_owned())
}

#[test]
fn agents_that_hold_what_their_pods_show_agree() {
    assert_eq!(found(&heard()), []);
}

#[test]
fn an_address_that_two_agents_have_assigned_is_found() {
    let mut scene = heard();
    scene.running("other", "n2", "10.0.0.6");
    scene.nnc("n2", 16, &["10.0.0.6"]);
    let both = [
        ("10.0.0.6", "Assigned", "uid-other"),
        ("10.0.0.4", "Assigned", "uid-other"),
    ];
    scene.digest("n2", &both);
    let told = pair("ip 10.0.0.4", "is assigned by the agents of n1 and n2");
    let found = found(&scene);
    assert_eq!(found[0], told);
    let not_listed = "has 10.0.0.4 assigned, which its NodeNetworkConfig does not list";
    assert_eq!(found[1], pair("node n2", not_listed));
}

#[test]
fn an_address_that_the_agent_takes_for_free_is_found() {
    for (state, word) in [
        ("Free", "counts as free"),
        ("CoolingDown", "counts as free"),
        ("Releasing", "gives back"),
    ] {
        let mut scene = heard();
        scene.digest("n1", &[("10.0.0.4", state, "")]);
        let problem = format!("shows 10.0.0.4, which the agent of n1 {word}");
        assert_eq!(found(&scene), [pair("pod default/web", &problem)], "{state}");
    }
    let mut scene = heard();
    scene.digest("n1", &[]);
    assert_eq!(found(&scene).len(), 1, "one that it does not know");
    scene.digest("n1", &[("10.0.0.4", "Quarantined", "")]);
    assert_eq!(found(&scene), [], "one that it gives to nobody");
    scene.digest("n1", &[]);
    scene.pod_mut("web").is_deleting = true;
    assert_eq!(found(&scene), [], "one of a pod that goes");
}

#[test]
fn an_address_that_the_agent_has_for_another_pod_is_found() {
    let mut scene = heard();
    scene.running("other", "n1", "10.0.0.9");
    scene.nnc("n1", 16, &["10.0.0.4", "10.0.0.9"]);
    let other = ("10.0.0.9", "Assigned", "uid-other");
    scene.digest("n1", &[("10.0.0.4", "Assigned", "uid-other"), other]);
    let problem = "shows 10.0.0.4, which the agent of n1 has for another pod (uid-other)";
    assert_eq!(found(&scene), [pair("pod default/web", problem)]);
    // Not every runtime tells whose a sandbox is.
    scene.digest("n1", &[("10.0.0.4", "Assigned", ""), other]);
    assert_eq!(found(&scene), []);
}

#[test]
fn a_static_pod_is_known_to_its_agent_by_another_uid() {
    let mut scene = heard();
    scene.pod_mut("web").sandbox_uid = "hash".to_owned();
    scene.digest("n1", &[("10.0.0.4", "Assigned", "hash")]);
    assert_eq!(found(&scene), []);
}

#[test]
fn an_assigned_address_neither_in_the_nnc_nor_held_is_found() {
    let mut scene = heard();
    scene.nnc("n1", 16, &["10.0.0.4"]);
    let lines = [
        ("10.0.0.4", "Assigned", "uid-web"),
        ("10.0.0.99", "Assigned", "uid-web"),
    ];
    scene.digest("n1", &lines);
    let problem = "has 10.0.0.99 assigned, which its NodeNetworkConfig does not list";
    assert_eq!(found(&scene), [pair("node n1", problem)]);
    scene.held("n1", "10.0.0.99");
    assert_eq!(found(&scene), []);
}

#[test]
fn an_address_of_a_pod_that_is_gone_is_found() {
    let mut scene = heard();
    scene.digest("n2", &[("10.0.0.6", "Assigned", "uid-gone"), ("10.0.0.7", "Free", "")]);
    let problem = "holds 10.0.0.6 for pod uid-gone, which is not there";
    assert_eq!(found(&scene), [pair("node n2", problem)]);
}
