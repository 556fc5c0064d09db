use serde_json::json;

use super::*;

fn pod(name: &str, uid: &str, node: &str) -> Arc<Pod> {
    let metadata = json!({"namespace": "default", "name": name, "uid": uid});
    let spec = json!({"nodeName": node, "containers": []});
    Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
}

fn key(name: &str) -> Key {
    Key {
        namespace: "default".to_owned(),
        name: name.to_owned(),
    }
}

/// An index whose nodes have all been collected.
fn index() -> Index {
    Index::new(true, std::iter::empty())
}

fn uids(sandboxes: &[Sandbox]) -> Vec<&str> {
    sandboxes.iter().map(|sandbox| sandbox.uid.as_str()).collect()
}

fn is_now(turn: &Turn) -> bool {
    matches!(turn, Turn::Now { .. })
}

const NODE: &str = "berth-node-1";

#[test]
fn what_a_pod_may_have_outlives_it_until_it_is_detached() {
    let mut index = index();
    index.apply_pod(Change::Apply(pod("a", "1", NODE)));
    assert_eq!(index.apply_pod(Change::Delete(key("a"))), Some(key("a")));
    assert_eq!(uids(&index.leftovers(&key("a"))), ["1"]);
    // A new pod of the same name, without a watch event for the end of the old one.
    index.apply_pod(Change::Apply(pod("a", "2", NODE)));
    index.apply_pod(Change::Apply(pod("a", "3", NODE)));
    assert_eq!(uids(&index.leftovers(&key("a"))), ["1", "2"]);
    index.detached(&key("a"), "1");
    index.detached(&key("a"), "3");
    assert_eq!(uids(&index.leftovers(&key("a"))), ["2"]);
    assert_eq!(index.apply_pod(Change::Delete(key("a"))), None, "it has nothing");
    index.detached(&key("a"), "2");
    assert!(index.leftovers.is_empty() && index.pods.is_empty());
}

#[test]
fn a_pod_that_goes_while_it_is_attached_is_left_to_be_detached() {
    let mut index = index();
    index.apply_pod(Change::Apply(pod("a", "1", NODE)));
    assert!(is_now(&index.begin_attaching(&key("a"), "1")));
    index.apply_pod(Change::Delete(key("a")));
    index.apply_pod(Change::Apply(pod("a", "2", NODE)));
    index.attached(&key("a"), "1", Some(vec!["10.64.0.5".parse().unwrap()]));
    assert_eq!(uids(&index.leftovers(&key("a"))), ["1"]);
    assert_eq!(
        index.attachment(&key("a"), "2"),
        Some(Attachment::Unknown { tried: false })
    );
    assert_eq!(index.begin_attaching(&key("a"), "1"), Turn::Never);
}

#[test]
fn pods_beyond_the_limit_are_called_one_by_one_in_their_order() {
    let mut index = index();
    let names: Vec<String> = (10..30).map(|number| format!("p{number}")).collect();
    for name in &names {
        index.apply_pod(Change::Apply(pod(name, name, NODE)));
        let turn = index.begin_attaching(&key(name), name);
        let again = |index: &mut Index| index.begin_attaching(&key(name), name);
        assert!(is_now(&turn) || again(&mut index) == Turn::Later);
    }
    let (first, waiting) = names.split_at(MAX_ATTACHING);
    assert_eq!(index.next_waiting(), None);
    for (done, next) in first.iter().zip(waiting) {
        index.attached(&key(done), done, None);
        assert_eq!(index.next_waiting(), Some(key(next)));
        let Turn::Now { sandbox, tried } = index.begin_attaching(&key(next), next) else {
            panic!("{next} does not fit");
        };
        assert_eq!((sandbox.uid.as_str(), tried), (next.as_str(), false));
        assert_eq!(index.next_waiting(), None);
    }
    index.attached(&key(&waiting[0]), &waiting[0], None);
    let Turn::Now { tried, .. } = index.begin_attaching(&key(&first[0]), &first[0]) else {
        panic!("there is room for one");
    };
    assert!(tried);
}

#[test]
fn while_a_node_is_collected_only_other_nodes_attach() {
    let mut index = index();
    index.apply_pod(Change::Apply(pod("old", "1", NODE)));
    index.apply_pod(Change::Apply(pod("gone", "2", NODE)));
    index.detached(&key("gone"), "2");
    index.apply_pod(Change::Apply(pod("other", "3", "berth-node-2")));
    assert_eq!(index.begin_collecting(NODE), [sandbox_id("1")]);
    index.apply_pod(Change::Apply(pod("new", "4", NODE)));
    assert_eq!(index.begin_attaching(&key("new"), "4"), Turn::Later);
    assert!(is_now(&index.begin_attaching(&key("other"), "3")));
    assert_eq!(index.collected(NODE), [key("new")]);
    assert!(is_now(&index.begin_attaching(&key("new"), "4")));
}

#[test]
fn a_node_attaches_nothing_before_it_was_collected_once() {
    let mut index = Index::new(true, [NODE.to_owned()].into_iter());
    index.apply_pod(Change::Apply(pod("a", "1", NODE)));
    assert_eq!(index.begin_attaching(&key("a"), "1"), Turn::Later);
    assert_eq!(index.begin_collecting(NODE), [sandbox_id("1")]);
    assert_eq!(index.collected(NODE), [key("a")]);
    assert!(is_now(&index.begin_attaching(&key("a"), "1")));
}

#[test]
fn pods_on_the_host_network_or_no_network_need_no_attachment() {
    let mut on_host = Arc::unwrap_or_clone(pod("a", "1", NODE));
    on_host.spec.as_mut().unwrap().host_network = Some(true);
    for (networked, pod) in [(true, Arc::new(on_host)), (false, pod("a", "1", NODE))] {
        let mut index = Index::new(networked, std::iter::empty());
        index.apply_pod(Change::Apply(pod));
        assert_eq!(index.attachment(&key("a"), "1"), Some(Attachment::Unneeded));
        assert_eq!(index.apply_pod(Change::Delete(key("a"))), None);
    }
}
