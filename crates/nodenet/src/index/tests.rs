use berth_api::{Subnet, SubnetSpec, SubnetStatus};

use super::*;

fn node(uid: &str, zone: &str) -> NodeFacts {
    NodeFacts {
        uid: uid.to_owned(),
        labels: [("zone".to_owned(), zone.to_owned())].into(),
        ..NodeFacts::default()
    }
}

fn nnc(version: u64, subnets: &[&str]) -> NncFacts {
    NncFacts {
        version,
        subnets: subnets.iter().map(ToString::to_string).collect(),
        ..NncFacts::default()
    }
}

fn subnet(zone: Option<&str>, serving: bool) -> SubnetFacts {
    let mut subnet = Subnet::new("s", SubnetSpec::default());
    let labels = zone.map(|zone| [("zone".to_owned(), zone.to_owned())].into());
    subnet.spec.node_selector.match_labels = labels;
    subnet.status = serving.then(|| SubnetStatus {
        capacity: Some(1.into()),
        ..SubnetStatus::default()
    });
    SubnetFacts::of(&subnet)
}

#[test]
fn a_node_gets_the_first_match_by_name_of_those_that_serve() {
    let mut index = Index::default();
    index.apply_subnet("a", subnet(None, false));
    index.apply_subnet("b", subnet(Some("east"), true));
    index.apply_subnet("c", subnet(None, true));
    index.apply_node("n1", node("1", "east"), Instant::now());
    index.apply_node("n2", node("2", "west"), Instant::now());
    assert_eq!(index.take("n1").unwrap().pods.as_deref(), Some("b"));
    assert_eq!(index.take("n2").unwrap().pods.as_deref(), Some("c"));
}

#[test]
fn that_no_subnet_selects_a_node_is_news_once() {
    let mut index = Index::default();
    index.apply_subnet("a", subnet(Some("east"), false));
    index.apply_node("n1", node("1", "east"), Instant::now());
    let view = index.take("n1").unwrap();
    assert_eq!((view.pods, view.unready.as_deref()), (None, Some("a")));
    assert!(index.set_selected("n1", false));
    index.apply_node("n1", node("1", "west"), Instant::now());
    assert_eq!(index.take("n1").unwrap().unready, None);
    assert!(!index.set_selected("n1", false));
    assert!(!index.set_selected("n1", true));
    assert!(index.set_selected("n1", false));
    // Another node of the same name.
    index.apply_node("n1", node("2", "west"), Instant::now());
    assert!(index.set_selected("n1", false));
}

#[test]
fn what_a_kubelet_writes_all_the_time_is_no_news() {
    let mut index = Index::default();
    assert!(index.apply_node("n1", node("1", "east"), Instant::now()));
    assert!(index.take("n1").is_some());
    assert!(!index.apply_node("n1", node("1", "east"), Instant::now()));
    assert!(index.take("n1").is_none());
}

#[test]
fn our_own_writes_coming_back_are_no_news_and_later_ones_are() {
    let mut index = Index::default();
    assert!(index.apply_nnc("n1", nnc(7, &[])));
    // It came while the node was worked on, and the work ended with a later state.
    index.settle("n1", 8);
    assert!(index.take("n1").is_none());
    assert!(!index.apply_nnc("n1", nnc(8, &[])));
    assert!(index.apply_nnc("n1", nnc(9, &[])));
    assert!(index.take("n1").is_some());
}

#[test]
fn another_reason_stays_when_the_nnc_is_settled() {
    let mut index = Index::default();
    index.apply_nnc("n1", nnc(7, &[]));
    index.mark_pending("n1");
    index.settle("n1", 8);
    assert!(index.take("n1").is_some());
}

#[test]
fn an_nnc_recreated_is_news_whatever_its_version() {
    let mut index = Index::default();
    index.apply_nnc("n1", nnc(7, &[]));
    index.settle("n1", 8);
    index.delete_nnc("n1", Instant::now());
    assert!(index.take("n1").is_some());
    assert!(index.apply_nnc("n1", nnc(3, &[])));
}

#[test]
fn an_nnc_that_goes_while_its_node_stays_counts_as_deleted() {
    let of_node = |uid: &str| NncFacts {
        owner: NncOwner::Node { uid: uid.to_owned() },
        ..nnc(7, &[])
    };
    let mut index = Index::default();
    let now = Instant::now();
    index.apply_node("n1", node("2", "east"), now);
    // That of a node before it goes because that node went.
    index.apply_nnc("n1", of_node("1"));
    index.delete_nnc("n1", now);
    assert_eq!(index.take("n1").unwrap().nnc_deleted, None);
    index.apply_nnc("n1", of_node("2"));
    index.delete_nnc("n1", now);
    assert_eq!(index.take("n1").unwrap().nnc_deleted, Some(now));
    index.apply_node("n1", node("2", "west"), now);
    assert_eq!(index.take("n1").unwrap().nnc_deleted, Some(now));
}

#[test]
fn what_was_just_made_and_is_gone_again_was_there() {
    let mut index = Index::default();
    let now = Instant::now();
    index.apply_node("n1", node("1", "east"), now);
    assert!(!index.take("n1").unwrap().has_nnc);
    let made = NncFacts {
        owner: NncOwner::Node { uid: "1".to_owned() },
        ..nnc(7, &[])
    };
    index.created_nnc("n1", made);
    assert!(index.take("n1").is_none(), "our own write is no news");
    index.mark_pending("n1");
    assert!(index.take("n1").unwrap().has_nnc);
    index.delete_nnc("n1", now);
    assert_eq!(index.take("n1").unwrap().nnc_deleted, Some(now));
}

#[test]
fn a_subnet_that_changes_concerns_its_nodes_and_no_others() {
    let mut index = Index::default();
    for (name, zone) in [("n1", "east"), ("n2", "west"), ("n3", "west")] {
        index.apply_node(name, node(name, zone), Instant::now());
    }
    index.apply_nnc("n3", nnc(1, &["s"]));
    assert_eq!(index.apply_subnet("s", subnet(Some("east"), true)), ["n1", "n3"]);
    // How full it is, is no news for nodes.
    assert!(index.apply_subnet("s", subnet(Some("east"), true)).is_empty());
    assert_eq!(index.delete_subnet("s"), ["n1", "n3"]);
}

#[test]
fn pod_cidrs_are_recorded_when_they_or_their_subnet_are_new() {
    let mut index = Index::default();
    let names = |index: &mut Index| {
        index
            .take_unrecorded()
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    let with_cidr = NodeFacts {
        pod_cidrs: vec!["10.0.0.0/24".to_owned()],
        ..node("1", "east")
    };
    index.apply_node("n1", with_cidr, Instant::now());
    index.apply_node("n2", node("2", "east"), Instant::now());
    assert_eq!(names(&mut index), ["n1"]);
    assert!(names(&mut index).is_empty());
    let mut cidrs = subnet(Some("west"), true);
    cidrs.usage = Use::NodeCidrs;
    index.apply_subnet("s", cidrs);
    assert_eq!(names(&mut index), ["n1"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_new_again_when_its_uid_is() {
    let mut index = Index::default();
    let start = Instant::now();
    index.apply_node("n1", node("1", "east"), start);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    index.apply_node("n1", node("1", "west"), Instant::now());
    assert_eq!(index.take("n1").unwrap().since, Some(start));
    index.apply_node("n1", node("2", "west"), Instant::now());
    assert_eq!(index.take("n1").unwrap().since, Some(Instant::now()));
}
