//! A namespace for one test alone, and what else that test has made.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use berth_testkit::until_so;
use serde_json::{Value, json};

use crate::request::{delete, get, post};
use crate::target::{Capability, target};

pub struct Namespace {
    pub name: String,
    /// Paths of what lives outside the namespace and has to go with it.
    outside: RefCell<Vec<String>>,
}

/// A name that no other test, and no other run on the same server, has.
pub fn unique(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let second = jiff::Timestamp::now().as_second() % 1_000_000;
    format!("{prefix}-{second}-{}-{count}", std::process::id())
}

impl Namespace {
    pub fn new() -> Self {
        let made = Self {
            name: unique("t"),
            outside: RefCell::default(),
        };
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.name}});
        post("/api/v1/namespaces").json(&namespace).send().expect(201);
        if target().can(Capability::Controllers) {
            // Real servers refuse pods until it is there.
            let account = made.core("serviceaccounts/default");
            until_so("the default ServiceAccount is there", || {
                get(&account).send().code == 200
            });
        }
        made
    }

    /// The path of a resource of the core group in this namespace.
    pub fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.name)
    }

    /// The same for another group: `apps/v1`.
    pub fn group(&self, version: &str, rest: &str) -> String {
        format!("/apis/{version}/namespaces/{}/{rest}", self.name)
    }

    /// Has this deleted at the end too.
    pub fn with(&self, path: impl Into<String>) {
        self.outside.borrow_mut().push(path.into());
    }

    /// Creates an object of the test's set-up.
    pub fn have(&self, collection: &str, object: &Value) -> Value {
        post(collection).json(object).send().expect(201)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let path = format!("/api/v1/namespaces/{}", self.name);
        for path in self.outside.borrow().iter().chain([&path]) {
            delete(path).send();
        }
    }
}
