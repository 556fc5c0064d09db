use std::collections::BTreeSet;
use std::time::SystemTime;

use super::*;
use crate::journal::Held;

const GRACE: u64 = 300;

/// What the observers see.
#[derive(Default)]
struct Node {
    holdings: BTreeMap<Attachment, Holding>,
    sandboxes: Vec<Sandbox>,
    pods: BTreeMap<PodKey, PodFacts>,
    memory: Memory,
}

fn pod(name: &str, uid: &str) -> PodRef {
    PodRef {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

impl Node {
    /// An attachment, its sandbox and its pod.
    fn living(container: &str, name: &str) -> Self {
        let mut node = Self::default();
        node.attach(container, &pod(name, "u1"), 10);
        node.sandbox(container);
        node.pod(name, "u1", false);
        node
    }

    fn attach(&mut self, container: &str, pod: &PodRef, started: u64) {
        let last = u8::try_from(self.holdings.len() + 1).unwrap();
        let holding = Holding {
            network: "pods".to_owned(),
            pod: pod.clone(),
            held: vec![Held {
                name: "n".to_owned(),
                address: [10, 0, 0, last].into(),
            }],
            started,
            at: started,
        };
        self.holdings
            .insert(Attachment::new(container, "eth0").unwrap(), holding);
    }

    fn sandbox(&mut self, id: &str) {
        self.sandboxes.push(Sandbox {
            id: id.to_owned(),
            ready: false,
            pod: PodRef::default(),
            created: SystemTime::UNIX_EPOCH,
        });
    }

    fn pod(&mut self, name: &str, uid: &str, is_finished: bool) {
        let known = PodFacts {
            uid: uid.to_owned(),
            needs_address: !is_finished,
            is_finished,
            addresses: BTreeSet::new(),
        };
        self.pods.insert(("shop".to_owned(), name.to_owned()), known);
    }

    fn at(&mut self, now: u64) -> Vec<(String, Why)> {
        let view = View {
            holdings: &self.holdings,
            sandboxes: &self.sandboxes,
            pods: &self.pods,
            now,
            grace: GRACE,
        };
        let candidates = decide(&view, &mut self.memory);
        candidates
            .into_iter()
            .map(|candidate| (candidate.attachment.container, candidate.why))
            .collect()
    }

    /// As it is, for longer than the grace period.
    fn after_all(&mut self) -> Vec<(String, Why)> {
        for now in [1000, 1100, 1200] {
            assert_eq!(self.at(now), []);
        }
        self.at(1000 + GRACE)
    }
}

#[test]
fn one_observer_alone_takes_nothing_back() {
    let mut node = Node::living("c1", "web");
    assert_eq!(node.after_all(), []);
    let mut node = Node::living("c1", "web");
    node.pods.clear();
    assert_eq!(node.after_all(), [], "its sandbox is there, if only stopped");
    let mut node = Node::living("c1", "web");
    node.sandboxes.clear();
    assert_eq!(node.after_all(), [], "its pod is there");
}

#[test]
fn both_observers_for_the_grace_period_take_it_back() {
    let mut node = Node::living("c1", "web");
    node.sandboxes.clear();
    node.pods.clear();
    assert_eq!(node.after_all(), [("c1".to_owned(), Why::NoPod)]);
    // As long as it is not done, it is said again.
    assert_eq!(node.at(9999), [("c1".to_owned(), Why::NoPod)]);
}

#[test]
fn a_finished_pod_and_another_of_its_name_count_as_gone() {
    let mut node = Node::living("c1", "web");
    node.sandboxes.clear();
    node.pod("web", "u1", true);
    assert_eq!(node.after_all(), [("c1".to_owned(), Why::Finished)]);
    let mut node = Node::living("c1", "web");
    node.sandboxes.clear();
    node.pod("web", "u2", false);
    assert_eq!(node.after_all(), [("c1".to_owned(), Why::OtherPod)]);
    // Who did not say its uid may be this one.
    let mut node = Node::default();
    node.attach("c1", &pod("web", ""), 10);
    node.pod("web", "u2", false);
    assert_eq!(node.after_all(), []);
}

#[test]
fn a_recreated_sandbox_releases_only_the_old_ones_address() {
    let mut node = Node::living("c2", "web");
    node.attach("c1", &pod("web", "u1"), 5);
    assert_eq!(node.after_all(), [("c1".to_owned(), Why::Replaced)]);
    // Not while the new one is not there itself, nor when the one without a sandbox is the newer:
    // it may be on its way.
    let mut node = Node::living("c2", "web");
    node.attach("c1", &pod("web", "u1"), 5);
    node.sandboxes.clear();
    assert_eq!(node.after_all(), []);
    let mut node = Node::living("c2", "web");
    node.attach("c3", &pod("web", "u1"), 20);
    assert_eq!(node.after_all(), []);
}

#[test]
fn being_seen_once_begins_the_grace_period_again() {
    for comes_back in [true, false] {
        let mut node = Node::living("c1", "web");
        let sandboxes = std::mem::take(&mut node.sandboxes);
        let pods = std::mem::take(&mut node.pods);
        assert_eq!(node.at(1000), []);
        assert_eq!(node.at(1100), []);
        if comes_back {
            node.sandboxes = sandboxes;
        } else {
            node.pods = pods;
        }
        assert_eq!(node.at(1200), []);
        node.sandboxes.clear();
        node.pods.clear();
        for now in [1300, 1400, 1500, 1599] {
            assert_eq!(node.at(now), []);
        }
        assert_eq!(node.at(1600), [("c1".to_owned(), Why::NoPod)]);
    }
}

#[test]
fn a_later_add_of_the_same_attachment_restarts_it() {
    let mut node = Node::default();
    node.attach("c1", &pod("web", "u1"), 10);
    for now in [1000, 1100, 1200] {
        assert_eq!(node.at(now), []);
    }
    node.attach("c1", &pod("web", "u1"), 1250);
    assert_eq!(node.at(1300), []);
}

#[test]
fn observers_that_were_rarely_asked_are_not_enough() {
    let mut node = Node::default();
    node.attach("c1", &pod("web", "u1"), 10);
    assert_eq!(node.at(1000), []);
    assert_eq!(node.at(5000), []);
    assert_eq!(node.at(6000), [("c1".to_owned(), Why::NoPod)]);
}

#[test]
fn an_attachment_that_names_no_pod_is_left_alone() {
    let mut node = Node::default();
    node.attach("c1", &PodRef::default(), 10);
    assert_eq!(node.after_all(), []);
    assert_eq!(node.at(1_000_000), []);
}

#[test]
fn azure_vnets_name_for_a_container_is_that_of_its_sandbox() {
    let mut node = Node::default();
    node.attach("01234567-eth0", &pod("web", "u1"), 10);
    node.sandbox("0123456789abcdef");
    assert_eq!(node.after_all(), []);
    node.sandboxes.clear();
    node.sandbox("0123456");
    assert_eq!(node.after_all(), [("01234567-eth0".to_owned(), Why::NoPod)]);
}
