//! Whether a process is ready: named checks, each held by the part of the process that it stands
//! for.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::{Mutex, MutexGuard};

/// All checks of a process. The process is ready once every check is; without checks, at once.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    checks: Arc<Mutex<Vec<Arc<Flag>>>>,
}

#[derive(Debug)]
struct Flag {
    name: String,
    ready: AtomicBool,
    /// Why the check is not ready, if that is known.
    why: Mutex<String>,
}

impl Readiness {
    /// A new check, not ready yet. Hand it to the part that `name` stands for.
    pub fn check(&self, name: impl Into<String>) -> Check {
        let flag = Arc::new(Flag {
            name: name.into(),
            ready: AtomicBool::new(false),
            why: Mutex::default(),
        });
        self.lock().push(flag.clone());
        Check { flag }
    }

    /// The names of the checks that are not ready, in the order they were made, each with the
    /// reason if that is known.
    pub fn not_ready(&self) -> Vec<String> {
        self.lock()
            .iter()
            .filter(|flag| !flag.ready.load(Ordering::Acquire))
            .map(|flag| flag.shown())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Flag>>> {
        self.checks.lock()
    }
}

impl Flag {
    fn shown(&self) -> String {
        let why = self.why.lock();
        if why.is_empty() {
            self.name.clone()
        } else {
            format!("{}: {why}", self.name)
        }
    }
}

/// One check, set by its owner. A dropped check keeps its last state: a part that died before it
/// was ready leaves the process not ready.
#[derive(Debug)]
pub struct Check {
    flag: Arc<Flag>,
}

impl Check {
    pub fn ready(&self) {
        self.flag.ready.store(true, Ordering::Release);
    }

    pub fn not_ready(&self) {
        self.not_ready_because("");
    }

    pub fn not_ready_because(&self, why: &str) {
        why.clone_into(&mut self.flag.why.lock());
        self.flag.ready.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_once_every_check_is() {
        let readiness = Readiness::default();
        assert!(readiness.not_ready().is_empty());
        let store = readiness.check("store");
        let nodes = readiness.check("nodes");
        assert_eq!(readiness.not_ready(), ["store", "nodes"]);
        store.ready();
        assert_eq!(readiness.not_ready(), ["nodes"]);
        nodes.ready();
        assert!(readiness.not_ready().is_empty());
    }

    #[test]
    fn a_check_can_fall_back() {
        let readiness = Readiness::default();
        let store = readiness.check("store");
        store.ready();
        store.not_ready();
        assert_eq!(readiness.not_ready(), ["store"]);
    }

    #[test]
    fn a_check_that_is_not_ready_can_say_why() {
        let readiness = Readiness::default();
        let store = readiness.check("store");
        store.not_ready_because("the disk is full");
        assert_eq!(readiness.not_ready(), ["store: the disk is full"]);
        store.not_ready();
        assert_eq!(readiness.not_ready(), ["store"]);
    }

    #[test]
    fn a_part_that_died_before_it_was_ready_stays_not_ready() {
        let readiness = Readiness::default();
        drop(readiness.check("store"));
        assert_eq!(readiness.not_ready(), ["store"]);
    }

    #[test]
    fn two_checks_of_one_name_must_both_be_ready() {
        let readiness = Readiness::default();
        let first = readiness.check("node");
        let _second = readiness.check("node");
        first.ready();
        assert_eq!(readiness.not_ready(), ["node"]);
    }
}
