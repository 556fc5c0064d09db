use std::time::SystemTime;

use berth_api::cni::PodRef;

use super::*;

const GRACE: u64 = 300;
const NOW: u64 = 10_000;

struct Scene {
    mark: u64,
    holdings: BTreeMap<Attachment, Holding>,
    sandboxes: Option<Vec<Sandbox>>,
    collected: BTreeMap<String, u64>,
}

impl Scene {
    fn new(mark: u64) -> Self {
        Self {
            mark,
            holdings: BTreeMap::new(),
            sandboxes: Some(Vec::new()),
            collected: BTreeMap::new(),
        }
    }

    fn holds(mut self, container: &str, started: u64) -> Self {
        let holding = Holding {
            network: "pods".to_owned(),
            pod: PodRef {
                namespace: "shop".to_owned(),
                name: container.to_owned(),
                uid: String::new(),
            },
            held: Vec::new(),
            started,
            at: started,
        };
        self.holdings
            .insert(Attachment::new(container, "eth0").unwrap(), holding);
        self
    }

    fn lists(mut self, container: &str, ready: bool) -> Self {
        let sandbox = Sandbox {
            id: container.to_owned(),
            ready,
            pod: PodRef::default(),
            created: SystemTime::UNIX_EPOCH,
        };
        self.sandboxes.get_or_insert_default().push(sandbox);
        self
    }

    fn decide(&self) -> (Vec<&str>, usize) {
        let decision = decide(&View {
            mark: Mark { started: self.mark },
            holdings: &self.holdings,
            sandboxes: self.sandboxes.as_deref(),
            collected: &self.collected,
            now: NOW,
            grace: GRACE,
        });
        let names = self.holdings.keys().map(|attachment| attachment.container.as_str());
        let is_released = |name: &&str| {
            let mut releases = decision.releases.iter();
            releases.any(|release| release.attachment.container == *name)
        };
        (names.filter(is_released).collect(), decision.open)
    }
}

#[test]
fn what_the_runtime_does_not_list_is_released_and_the_mark_goes() {
    let scene = Scene::new(9_000)
        .holds("gone", 10)
        .holds("there", 20)
        .lists("there", true);
    assert_eq!(scene.decide(), (vec!["gone"], 0));
}

#[test]
fn an_add_after_the_mark_is_not_looked_at() {
    let scene = Scene::new(5_000).holds("at", 5_000).holds("after", 5_001);
    assert_eq!(scene.decide(), (vec!["at"], 0));
}

#[test]
fn a_release_carries_the_start_of_the_add_that_was_looked_at() {
    let scene = Scene::new(9_000).holds("gone", 77);
    let decision = decide(&View {
        mark: Mark { started: 9_000 },
        holdings: &scene.holdings,
        sandboxes: Some(&[]),
        collected: &scene.collected,
        now: NOW,
        grace: GRACE,
    });
    assert_eq!(decision.releases[0].started, 77);
}

#[test]
fn a_young_attachment_may_be_one_that_is_not_listed_yet() {
    let old = NOW - GRACE;
    let scene = Scene::new(NOW).holds("old", old).holds("young", old + 1);
    assert_eq!(scene.decide(), (vec!["old"], 1));
}

#[test]
fn a_listed_sandbox_is_checked_again_while_the_mark_is_young() {
    let young = NOW - GRACE + 1;
    for (mark, open) in [(young, 1), (young - 1, 0)] {
        let scene = Scene::new(mark).holds("there", 10).lists("there", true);
        assert_eq!(scene.decide(), (vec![], open));
    }
}

#[test]
fn a_stopped_sandbox_keeps_its_address_and_the_mark() {
    let scene = Scene::new(5_000).holds("stopped", 10).lists("stopped", false);
    assert_eq!(scene.decide(), (vec![], 1));
}

#[test]
fn what_names_no_pod_is_left_to_its_own_del() {
    let mut scene = Scene::new(9_000).holds("person", 10);
    scene
        .holdings
        .values_mut()
        .for_each(|holding| holding.pod = PodRef::default());
    assert_eq!(scene.decide(), (vec![], 0));
}

#[test]
fn without_a_runtime_the_mark_stays_until_a_gc_came_after_it() {
    let mut scene = Scene::new(5_000).holds("a", 10);
    scene.sandboxes = None;
    assert_eq!(scene.decide(), (vec![], 1));
    for (network, at, open) in [("other", 6_000, 1), ("pods", 5_000, 1), ("pods", 5_001, 0)] {
        scene.collected = BTreeMap::from([(network.to_owned(), at)]);
        assert_eq!(scene.decide(), (vec![], open), "{network} {at}");
    }
}

#[test]
fn a_mark_of_an_earlier_boot_is_about_nothing() {
    let scene = Scene::new(NOW + 1).holds("a", 10);
    assert_eq!(scene.decide(), (vec![], 0));
}
