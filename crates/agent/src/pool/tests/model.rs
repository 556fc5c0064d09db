//! Random steps, against what must always hold.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Action {
    Add { n: u64, late: u64 },
    Del { n: u64, late: u64 },
    Gc { valid: Vec<u64> },
    Leave { count: usize },
    Deliver { from: u32, count: u32 },
    Restart,
    Compact,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (0..12_u64, 0..4_u64).prop_map(|(n, late)| Action::Add { n, late }),
        4 => (0..12_u64, 0..4_u64).prop_map(|(n, late)| Action::Del { n, late }),
        1 => proptest::collection::vec(0..12_u64, 0..12).prop_map(|valid| Action::Gc { valid }),
        1 => (0..4_usize).prop_map(|count| Action::Leave { count }),
        1 => (10..16_u32, 0..10_u32).prop_map(|(from, count)| Action::Deliver { from, count }),
        1 => Just(Action::Restart),
        1 => Just(Action::Compact),
    ]
}

/// The pool, and what its journal has.
struct World {
    pool: Pool,
    journal: Vec<Entry>,
    delivered: Delivered,
    left: BTreeSet<String>,
}

impl World {
    fn write(&mut self, entry: Entry) {
        self.pool.apply(&entry);
        if let Entry::Releasing { names, .. } = &entry {
            self.left.extend(names.iter().cloned());
        }
        self.journal.push(entry);
    }

    fn step(&mut self, action: &Action, now: u64) {
        match action {
            Action::Add { n, late } => {
                let before = self.pool.holdings().clone();
                if let Ok(Plan::New(held, entry)) =
                    self.pool.plan_request(&request(*n, now - late), now)
                {
                    for (other, holding) in
                        before.iter().filter(|(other, _)| **other != attachment(*n))
                    {
                        assert!(
                            holding
                                .held
                                .iter()
                                .all(|one| held.iter().all(|new| new.address != one.address)),
                            "{other} has it"
                        );
                    }
                    if !before.contains_key(&attachment(*n)) {
                        assert!(
                            held.iter().all(|one| !self.left.contains(&one.name)),
                            "it was given back"
                        );
                    }
                    self.write(entry);
                }
            }
            Action::Del { n, late } => {
                let release = Release {
                    attachment: attachment(*n),
                    started: now - late,
                };
                if let Some(entry) = self.pool.plan_release(&release, now) {
                    self.write(entry);
                    assert!(!self.pool.holdings().contains_key(&attachment(*n)));
                }
            }
            Action::Gc { valid } => {
                let gc = Gc {
                    network: "pods".to_owned(),
                    valid: valid.iter().map(|n| attachment(*n)).collect(),
                    started: now,
                };
                for entry in self.pool.plan_gc(&gc, now) {
                    self.write(entry);
                }
                assert!(self.pool.holdings().keys().all(|one| gc.valid.contains(one)));
            }
            Action::Leave { count } => {
                for entry in self.pool.plan_releasing(*count, now) {
                    self.write(entry);
                }
            }
            Action::Deliver { from, count } => {
                self.delivered = delivered(json!([vnet("c1", *from..from + count)]));
                self.pool.deliver(&self.delivered);
                // A name that is gone is never used again; here numbers are, so what left may come
                // back as another.
                let names: BTreeSet<String> = (*from..from + count).map(name).collect();
                self.left.retain(|name| names.contains(name));
            }
            Action::Restart => {
                let before = self.pool.holdings().clone();
                self.pool = Pool::default();
                self.pool.replay(&self.journal);
                self.pool.deliver(&self.delivered);
                assert_eq!(*self.pool.holdings(), before);
            }
            Action::Compact => self.journal = self.pool.entries(now),
        }
    }

    fn check(&self) {
        let mut seen = BTreeSet::new();
        for (attachment, holding) in self.pool.holdings() {
            for held in &holding.held {
                assert!(seen.insert(held.address), "{} has two owners", held.address);
                assert_eq!(self.pool.owners.get(&held.address), Some(attachment));
            }
        }
        assert_eq!(seen.len(), self.pool.owners.len());
        let beyond = seen.into_iter().filter(|address| !self.pool.has(*address));
        let beyond: Vec<String> = beyond.map(|address| address.to_string()).collect();
        let said = self.pool.held_beyond();
        assert_eq!(said.iter().map(|held| held.ip.clone()).collect::<Vec<_>>(), beyond);
        let counts = self.pool.counts(u64::MAX, 0);
        let listed = self
            .delivered
            .containers
            .iter()
            .map(|container| match &container.content {
                Content::Leases(leases) => leases.len(),
                Content::Blocks(_) => 0,
            });
        let all = counts.free
            + counts.cooling_down
            + counts.assigned
            + counts.releasing
            + counts.quarantined;
        assert_eq!(usize::try_from(all).unwrap(), listed.sum::<usize>(), "nothing is lost");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_address_has_two_owners_and_none_is_lost(actions in proptest::collection::vec(action(), 1..120)) {
        let first = delivered(json!([vnet("c1", 10..18)]));
        let mut world = World { pool: Pool::default(), journal: Vec::new(), delivered: first.clone(), left: BTreeSet::new() };
        world.pool.deliver(&first);
        for (now, action) in (10..).zip(&actions) {
            world.step(action, now);
            world.check();
        }
    }
}
