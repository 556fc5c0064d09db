//! The kinds that are served now. Custom kinds follow the definitions in the store. Every look-up
//! compares the registry with the version of the definitions' table, so a client sees the kinds of
//! a definition as soon as its write is answered.

use std::collections::HashMap;
use std::sync::Arc;

use berth_apimachinery::shape::{self, Shape};
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use crate::kinds::{self, DEFINITIONS, Kind};
use crate::store::{Range, Store};

type Compiled = HashMap<(String, i64), Vec<Arc<Kind>>>;

#[derive(Debug)]
pub struct Registry {
    store: Store,
    built_in: Vec<Arc<Kind>>,
    metadata: Arc<Shape>,
    current: RwLock<(u64, Arc<Vec<Arc<Kind>>>)>,
    /// The kinds of each definition, by its UID and generation. A schema is compiled only when its
    /// own definition changes.
    compiled: Mutex<Compiled>,
}

impl Registry {
    pub fn new(store: Store) -> Self {
        let registry = Self {
            store,
            built_in: kinds::built_in(),
            metadata: shape::builtin("meta.k8s.io", "v1", "ObjectMeta")
                .unwrap_or_else(|| Arc::new(Shape::Any)),
            current: RwLock::new((0, Arc::default())),
            compiled: Mutex::default(),
        };
        let at = registry.store.changed_at(DEFINITIONS);
        *registry.current.write() = (at, registry.build());
        registry
    }

    /// All served kinds, built-in ones first.
    pub fn kinds(&self) -> Arc<Vec<Arc<Kind>>> {
        self.versioned().1
    }

    /// The kinds, and a number that changes with them.
    pub fn versioned(&self) -> (u64, Arc<Vec<Arc<Kind>>>) {
        // Read before the build: the next look-up sees a change in between.
        let at = self.store.changed_at(DEFINITIONS);
        {
            let current = self.current.read();
            if current.0 == at {
                return current.clone();
            }
        }
        let built = (at, self.build());
        *self.current.write() = built.clone();
        built
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        let is = |kind: &&Arc<Kind>| {
            kind.plural == plural && kind.group == group && kind.version == version
        };
        let built_in = self.built_in.iter().find(is);
        built_in.or(self.kinds().iter().find(is)).cloned()
    }

    pub fn has_built_in(&self, group: &str) -> bool {
        self.built_in.iter().any(|kind| kind.group == group)
    }

    /// The kind that an owner reference or an object names.
    pub fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let is = |k: &&Arc<Kind>| k.kind == kind && k.group == group && k.version == version;
        self.kinds().iter().find(is).cloned()
    }

    /// Any version of the kind whose objects are in this table.
    pub fn of_table(&self, table: &str) -> Option<Arc<Kind>> {
        let kinds = self.kinds();
        kinds.iter().find(|kind| kind.table() == table).cloned()
    }

    fn build(&self) -> Arc<Vec<Arc<Kind>>> {
        let mut kinds = self.built_in.clone();
        let definitions = self.store.list(DEFINITIONS, &Range::default());
        let mut before = self.compiled.lock();
        let mut now = HashMap::new();
        for (_, record) in definitions.map(|page| page.records).unwrap_or_default() {
            let Ok(object) = serde_json::from_slice::<Value>(&record.body) else {
                continue;
            };
            let metadata = &object["metadata"];
            let uid = metadata["uid"].as_str().unwrap_or_default().to_owned();
            let state = (uid, metadata["generation"].as_i64().unwrap_or_default());
            let found = before.remove(&state).unwrap_or_else(|| self.compile(&object));
            kinds.extend(found.iter().cloned());
            now.insert(state, found);
        }
        *before = now;
        Arc::new(kinds)
    }

    fn compile(&self, definition: &Value) -> Vec<Arc<Kind>> {
        match kinds::of_definition(definition, &self.metadata) {
            Ok(found) => found.into_iter().map(Arc::new).collect(),
            Err(problems) => {
                tracing::warn!(
                    definition = %definition["metadata"]["name"],
                    %problems,
                    "the CustomResourceDefinition is invalid; not serving its kind"
                );
                Vec::new()
            }
        }
    }
}
