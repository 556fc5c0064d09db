//! Which items wait, are delayed or are in work. Pure: the clock is passed in, every order is
//! fixed.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::backoff::Exponential;

#[derive(Debug)]
pub(super) struct State<T> {
    backoff: Exponential,
    /// What can be taken, with the time it was added. Nothing here is in `working`.
    ready: VecDeque<(T, Instant)>,
    /// Items in work, since when, and whether they were added meanwhile.
    working: BTreeMap<T, Working>,
    /// What is in `ready`, to find it quickly.
    waiting: BTreeSet<T>,
    /// Delayed items in the order of their due times. The number keeps the order of items that are
    /// due together.
    delayed: BTreeMap<(Instant, u64), T>,
    due: BTreeMap<T, (Instant, u64)>,
    delays: u64,
    failures: BTreeMap<T, u32>,
    shut_down: bool,
    adds: u64,
    news: bool,
}

#[derive(Debug)]
struct Working {
    since: Instant,
    again: Option<Instant>,
}

/// What a worker is to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    Item {
        item: T,
        waited: Duration,
    },
    /// Wait for a change, or until this time.
    Later(Option<Instant>),
    End,
}

/// How long the items in work have been worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unfinished {
    pub(super) total: Duration,
    pub(super) longest: Duration,
}

impl<T: Clone + Ord> State<T> {
    pub(super) fn new(backoff: Exponential) -> Self {
        Self {
            backoff,
            ready: VecDeque::new(),
            working: BTreeMap::new(),
            waiting: BTreeSet::new(),
            delayed: BTreeMap::new(),
            due: BTreeMap::new(),
            delays: 0,
            failures: BTreeMap::new(),
            shut_down: false,
            adds: 0,
            news: false,
        }
    }

    pub(super) fn add(&mut self, item: T, now: Instant) {
        if self.shut_down {
            return;
        }
        if let Some(working) = self.working.get_mut(&item) {
            if working.again.is_none() {
                working.again = Some(now);
                self.adds += 1;
            }
        } else if self.waiting.insert(item.clone()) {
            self.ready.push_back((item, now));
            self.adds += 1;
            self.news = true;
        }
    }

    pub(super) fn add_after(&mut self, item: T, delay: Duration, now: Instant) {
        if self.shut_down {
            return;
        }
        if delay.is_zero() {
            return self.add(item, now);
        }
        let due = now + delay;
        if let Some(&(earlier, number)) = self.due.get(&item) {
            if earlier <= due {
                return;
            }
            self.delayed.remove(&(earlier, number));
        }
        self.delays += 1;
        self.delayed.insert((due, self.delays), item.clone());
        self.due.insert(item, (due, self.delays));
        self.news = true;
    }

    pub(super) fn take(&mut self, now: Instant) -> Next<T> {
        while let Some(entry) = self.delayed.first_entry()
            && entry.key().0 <= now
        {
            let item = entry.remove();
            self.due.remove(&item);
            self.add(item, now);
        }
        if let Some((item, added)) = self.ready.pop_front() {
            self.waiting.remove(&item);
            let working = Working {
                since: now,
                again: None,
            };
            self.working.insert(item.clone(), working);
            return Next::Item {
                item,
                waited: now.saturating_duration_since(added),
            };
        }
        if self.is_done() {
            return Next::End;
        }
        Next::Later(self.delayed.keys().next().map(|&(due, _)| due))
    }

    pub(super) fn done(&mut self, item: &T) {
        if let Some(working) = self.working.remove(item)
            && let Some(added) = working.again
        {
            self.waiting.insert(item.clone());
            self.ready.push_back((item.clone(), added));
            self.news = true;
        }
        // Workers wait for the end as well.
        self.news |= self.is_done();
    }

    /// The item comes back after its back-off, which is returned.
    pub(super) fn retry(&mut self, item: T, now: Instant) -> Duration {
        let failures = self.failures.entry(item.clone()).or_default();
        let delay = self.backoff.delay(*failures);
        *failures = failures.saturating_add(1);
        self.add_after(item, delay, now);
        delay
    }

    pub(super) fn forget(&mut self, item: &T) {
        self.failures.remove(item);
    }

    pub(super) fn shut_down(&mut self) {
        self.shut_down = true;
        self.delayed.clear();
        self.due.clear();
        self.news = true;
    }

    /// The queue is shut down, and no item waits or is in work.
    pub(super) fn is_done(&self) -> bool {
        self.shut_down && self.ready.is_empty() && self.working.is_empty()
    }

    pub(super) fn depth(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn unfinished(&self, now: Instant) -> Unfinished {
        let ages = self
            .working
            .values()
            .map(|working| now.saturating_duration_since(working.since));
        Unfinished {
            total: ages.clone().sum(),
            longest: ages.max().unwrap_or_default(),
        }
    }

    /// How many items were added since the last call.
    pub(super) fn count_adds(&mut self) -> u64 {
        std::mem::take(&mut self.adds)
    }

    /// Whether anything happened since the last call that a waiting worker must look at.
    pub(super) fn has_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The promises of the queue, written as plainly as possible: lists, and a search for
    /// everything.
    #[derive(Default)]
    struct Model {
        /// Items that were added and not taken since, in order. An item is in here at most once.
        added: Vec<u8>,
        working: Vec<u8>,
        /// Added while worked on: joins `added` when done.
        again: Vec<u8>,
        delays: Vec<(u64, u8)>,
        failures: Vec<u8>,
    }

    impl Model {
        fn add(&mut self, item: u8) {
            let list = match self.working.contains(&item) {
                true => &mut self.again,
                false => &mut self.added,
            };
            if !list.contains(&item) {
                list.push(item);
            }
        }

        fn add_after(&mut self, item: u8, due: u64) {
            match self.delays.iter().position(|&(_, delayed)| delayed == item) {
                Some(at) if self.delays[at].0 <= due => return,
                Some(at) => drop(self.delays.remove(at)),
                None => {}
            }
            self.delays.push((due, item));
        }

        fn take(&mut self, now: u64) -> Option<u8> {
            // A stable sort: those due together stay in the order they were asked for.
            self.delays.sort_by_key(|&(due, _)| due);
            while self.delays.first().is_some_and(|&(due, _)| due <= now) {
                let (_, item) = self.delays.remove(0);
                self.add(item);
            }
            let item = (!self.added.is_empty()).then(|| self.added.remove(0))?;
            assert!(!self.working.contains(&item), "two workers on {item}");
            self.working.push(item);
            Some(item)
        }

        fn done(&mut self, item: u8) {
            self.working.retain(|&working| working != item);
            if self.again.contains(&item) {
                self.again.retain(|&again| again != item);
                self.added.push(item);
            }
        }

        fn retry(&mut self, item: u8, now: u64) {
            let failures = self.failures.iter().filter(|&&failed| failed == item).count();
            self.failures.push(item);
            self.add_after(item, now + BACKOFF_MILLIS[failures.min(4)]);
        }
    }

    const BACKOFF_MILLIS: [u64; 5] = [5, 10, 20, 40, 50];

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8),
        AddAfter(u8, u64),
        Take,
        Done(usize),
        Fail(usize),
        Forget(u8),
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..6u8).prop_map(Step::Add),
            (0..6u8, 0..60u64).prop_map(|(item, delay)| Step::AddAfter(item, delay)),
            Just(Step::Take),
            Just(Step::Take),
            any::<usize>().prop_map(Step::Done),
            any::<usize>().prop_map(Step::Fail),
            (0..6u8).prop_map(Step::Forget),
            (0..30u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        #[test]
        fn does_what_the_model_does(steps in prop::collection::vec(step(), 1..200)) {
            let backoff = Exponential { base: Duration::from_millis(5), max: Duration::from_millis(50) };
            let mut state = State::new(backoff);
            let mut model = Model::default();
            let start = Instant::now();
            let mut clock = 0;
            for step in steps {
                let now = start + Duration::from_millis(clock);
                match step {
                    Step::Add(item) => {
                        state.add(item, now);
                        model.add(item);
                    }
                    Step::AddAfter(item, delay) => {
                        state.add_after(item, Duration::from_millis(delay), now);
                        match delay {
                            0 => model.add(item),
                            _ => model.add_after(item, clock + delay),
                        }
                    }
                    Step::Take => {
                        let expected = model.take(clock);
                        match state.take(now) {
                            Next::Item { item, .. } => prop_assert_eq!(Some(item), expected),
                            Next::Later(until) => {
                                prop_assert_eq!(None, expected);
                                let due = model.delays.first().map(|&(due, _)| start + Duration::from_millis(due));
                                prop_assert_eq!(until, due);
                            }
                            Next::End => prop_assert!(false, "not shut down"),
                        }
                    }
                    Step::Done(_) | Step::Fail(_) if model.working.is_empty() => {}
                    Step::Done(pick) => {
                        let item = model.working[pick % model.working.len()];
                        state.done(&item);
                        model.done(item);
                    }
                    Step::Fail(pick) => {
                        let item = model.working[pick % model.working.len()];
                        state.retry(item, now);
                        state.done(&item);
                        model.retry(item, clock);
                        model.done(item);
                    }
                    Step::Forget(item) => {
                        state.forget(&item);
                        model.failures.retain(|&failed| failed != item);
                    }
                    Step::Pass(millis) => clock += millis,
                }
                prop_assert_eq!(state.depth(), model.added.len());
            }
        }
    }
}
