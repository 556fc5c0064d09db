//! The controllers of `berth controller`, from all crates, and the choice that a process runs.
//!
//! Controllers that share what they have observed are one [`Group`]: they start together.
//! Everything else about them is private to the group.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt, try_join_all};
use tokio_util::sync::CancellationToken;

/// A controller as `--controllers` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    pub name: &'static str,
    /// Whether `*` includes it.
    pub is_on_by_default: bool,
    /// Its permissions: a file under `deploy/`.
    pub rbac: &'static str,
}

/// The error that ends a group before it is told to stop.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

type Start = dyn Fn(BTreeSet<&'static str>, CancellationToken) -> BoxFuture<'static, Result<(), StartError>>
    + Send
    + Sync;

/// Controllers that run together.
#[derive(Clone)]
pub struct Group {
    controllers: Vec<Controller>,
    start: Arc<Start>,
}

impl Group {
    /// `start` gets the controllers of the group to run, and runs until its token is cancelled. It
    /// may be called again after that: a process can lead, lose its Lease, and lead once more.
    pub fn new<F, E>(
        controllers: impl IntoIterator<Item = Controller>,
        start: impl Fn(BTreeSet<&'static str>, CancellationToken) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<StartError>,
    {
        Self {
            controllers: controllers.into_iter().collect(),
            start: Arc::new(move |chosen, stop| {
                let run = start(chosen, stop);
                async move { run.await.map_err(Into::into) }.boxed()
            }),
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.controllers.iter().map(|controller| controller.name);
        f.debug_list().entries(names).finish()
    }
}

/// All controllers that `--controllers` can name.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    controllers: Vec<Controller>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error("there is no controller {name:?}: use some of {known}, or '*'")]
    Unknown { name: String, known: String },
    #[error("it names no controller: leave it out to run all that are on by default")]
    Empty,
}

impl Catalogue {
    pub fn new(controllers: impl IntoIterator<Item = Controller>) -> Self {
        Self {
            controllers: controllers.into_iter().collect(),
        }
    }

    pub fn controllers(&self) -> &[Controller] {
        &self.controllers
    }

    /// Reads a list as kube-controller-manager does: names separated by commas, `*` for all that
    /// are on by default, `-name` to leave one out.
    pub fn choose(&self, list: &str) -> Result<Choice, ChoiceError> {
        let (mut named, mut dropped) = (BTreeSet::new(), BTreeSet::new());
        let items = || list.split(',').map(str::trim).filter(|item| !item.is_empty());
        for item in items() {
            match item.strip_prefix('-') {
                Some(name) => drop(dropped.insert(self.find(name)?.name)),
                None if item == "*" => named.extend(self.on_by_default()),
                None => drop(named.insert(self.find(item)?.name)),
            }
        }
        // `-name` leaves a controller out, wherever it is in the list: before or after `*`, as in
        // kube-controller-manager, and also before or after `name`.
        let all = self.controllers.iter().map(|controller| controller.name);
        let is_chosen = |name: &&str| named.contains(name) && !dropped.contains(name);
        let names: Vec<_> = all.filter(is_chosen).collect();
        if names.is_empty() {
            return Err(ChoiceError::Empty);
        }
        let is_default = names == self.on_by_default().collect::<Vec<_>>();
        Ok(Choice { names, is_default })
    }

    fn on_by_default(&self) -> impl Iterator<Item = &'static str> {
        let on = self.controllers.iter().filter(|controller| controller.is_on_by_default);
        on.map(|controller| controller.name)
    }

    fn find(&self, name: &str) -> Result<&Controller, ChoiceError> {
        let found = self.controllers.iter().find(|controller| controller.name == name);
        found.ok_or_else(|| {
            let known: Vec<_> = self.controllers.iter().map(|controller| controller.name).collect();
            ChoiceError::Unknown {
                name: name.to_owned(),
                known: known.join(", "),
            }
        })
    }
}

/// The controllers that a process runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// In the catalogue's order.
    names: Vec<&'static str>,
    is_default: bool,
}

impl Choice {
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(&name)
    }

    pub fn has_any_of(&self, controllers: &[Controller]) -> bool {
        controllers.iter().any(|controller| self.has(controller.name))
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().copied()
    }

    /// The Lease that processes with the same controllers compete for. Processes with other
    /// controllers do other work, and must not wait for these.
    pub fn lease(&self, prefix: &str) -> String {
        if self.is_default {
            return prefix.to_owned();
        }
        let names = self.names.iter().copied();
        std::iter::once(prefix).chain(names).collect::<Vec<_>>().join(".")
    }

    /// Runs the chosen controllers of `groups` until `stop`, or until one group fails.
    pub fn run<'a>(
        &'a self,
        groups: &'a [Group],
        stop: CancellationToken,
    ) -> BoxFuture<'a, Result<(), StartError>> {
        Box::pin(async move {
            // If one group fails, this stops the others.
            let stop = stop.child_token();
            let _ended = stop.clone().drop_guard();
            let runs = groups.iter().filter_map(|group| {
                let all = group.controllers.iter().map(|controller| controller.name);
                let chosen: BTreeSet<_> = all.filter(|name| self.names.contains(name)).collect();
                (!chosen.is_empty()).then(|| (group.start)(chosen, stop.clone()))
            });
            try_join_all(runs).await.map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use parking_lot::Mutex;

    use super::*;

    const fn controller(name: &'static str, is_on_by_default: bool) -> Controller {
        Controller {
            name,
            is_on_by_default,
            rbac: "rbac/controller.yaml",
        }
    }

    const ALL: [Controller; 4] = [
        controller("node", true),
        controller("nnc", true),
        controller("nodeipam", false),
        controller("route", false),
    ];

    fn names(list: &str) -> Vec<&'static str> {
        Catalogue::new(ALL).choose(list).unwrap().names().collect()
    }

    #[test]
    fn a_list_is_read_as_kube_controller_manager_reads_it() {
        assert_eq!(names("*"), ["node", "nnc"]);
        assert_eq!(names("*,route"), ["node", "nnc", "route"]);
        assert_eq!(names(" nnc , node"), ["node", "nnc"]);
        assert_eq!(names("-nnc,*"), ["node"]);
        assert_eq!(names("*,nodeipam,-nodeipam"), ["node", "nnc"]);
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let catalogue = Catalogue::new(ALL);
        for list in ["node,nods", "*,-nods"] {
            let error = catalogue.choose(list).unwrap_err().to_string();
            let expected = "there is no controller \"nods\": \
                            use some of node, nnc, nodeipam, route, or '*'";
            assert_eq!(error, expected);
        }
        for list in ["", ",", "node,-node"] {
            assert_eq!(catalogue.choose(list), Err(ChoiceError::Empty));
        }
    }

    #[test]
    fn the_same_set_of_controllers_has_the_same_lease_name() {
        let lease = |list| Catalogue::new(ALL).choose(list).unwrap().lease("berth-controller");
        assert_eq!(lease("*"), "berth-controller");
        assert_eq!(lease("nnc,node"), "berth-controller");
        assert_eq!(lease("nnc"), "berth-controller.nnc");
        assert_eq!(lease("route, nnc"), "berth-controller.nnc.route");
        assert_eq!(lease("route,nnc"), lease("nnc,route"));
    }

    type Started = Arc<Mutex<Vec<Vec<&'static str>>>>;

    /// Records the controllers that it was started with, and fails if told so.
    fn group(controllers: &[Controller], started: &Started, fails: bool) -> Group {
        let started = Arc::clone(started);
        Group::new(controllers.iter().copied(), move |chosen, stop: CancellationToken| {
            started.lock().push(chosen.into_iter().collect());
            async move {
                if fails {
                    return Err(io::Error::other("no route table"));
                }
                stop.cancelled().await;
                Ok(())
            }
        })
    }

    #[tokio::test]
    async fn a_group_runs_with_what_is_chosen_of_it_and_not_without() {
        let started = Started::default();
        let groups = [group(&ALL[..3], &started, false), group(&ALL[3..], &started, true)];
        let choice = Catalogue::new(ALL).choose("*").unwrap();
        let stop = CancellationToken::new();
        let run = choice.run(&groups, stop.clone());
        tokio::pin!(run);
        assert!(futures::poll!(&mut run).is_pending());
        stop.cancel();
        run.await.unwrap();
        assert_eq!(*started.lock(), [["nnc", "node"]]);
    }

    #[tokio::test]
    async fn a_group_that_fails_ends_the_run() {
        let started = Started::default();
        let groups = [group(&ALL[..3], &started, false), group(&ALL[3..], &started, true)];
        let choice = Catalogue::new(ALL).choose("*,route").unwrap();
        let error = choice.run(&groups, CancellationToken::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "no route table");
    }
}
